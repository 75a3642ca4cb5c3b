//! Which models suit which memory, as a table of one machine or of many.
//!
//! Rule: the choice is `catalog`'s; here it is only told.

use transom_files::visible;
use transom_library::variant_text;
use transom_library::{PairKind, Recommendation, RecommendationReason, Recommendations};

use crate::output::rows::broken;
use crate::output::size::disk_text;
use crate::output::stats::{GB, bytes_text};
use crate::output::table::{Column, Table, numbers, words};
use crate::output::verdict::speed_range;

/// The columns of every such table.
fn columns() -> [Column; 6] {
    [
        words("FOR"),
        words("MODEL"),
        words("FORM"),
        numbers("SIZE", "").spare(1),
        numbers("NEEDS", "needs "),
        numbers("TOKENS/S", "tokens a second: "),
    ]
}

/// Recommendations for one machine, which is called `machine` with its memory.
pub(super) fn one(
    tier: &Recommendations,
    machine: &str,
    columns_of: Option<usize>,
    is_dimmed: bool,
) -> String {
    let budget = bytes_text(tier.budget_bytes);
    let mut text = format!("{machine}, of which models may use {budget}.\n\n");
    let mut table = Table::new(&columns());
    add(&mut table, tier);
    if table.is_empty() {
        return text + "Nothing in the list fits.\n";
    }
    text.push_str(&table.text(columns_of, is_dimmed));
    if let Some(pair) = &tier.pair {
        let together = bytes_text(pair.need_bytes);
        let together = format!("The two together need {together}. {SECOND}");
        text.push_str(&lines(&together, columns_of));
    }
    let picks = [&tier.chat, &tier.code, &tier.small];
    let mut picks = picks.into_iter().flatten();
    if picks
        .clone()
        .any(|pick| pick.reason == RecommendationReason::MostCapableThoughSlow)
    {
        let slow = "Slower than most people read; a smaller one answers faster.";
        text.push_str(&lines(slow, columns_of));
    }
    if let Some(first) = picks.next() {
        let id = &first.id;
        let install = format!("To install one: transom models install {id}");
        text.push_str(&lines(&install, columns_of));
    }
    text
}

/// Recommendations for machines with more and more memory.
pub(super) fn many(
    tiers: &[Recommendations],
    columns_of: Option<usize>,
    is_dimmed: bool,
) -> String {
    let mut table = Table::new(&columns());
    for tier in tiers {
        table.section(format!(
            "{}, of which models may use {}",
            memory_text(tier.memory_bytes),
            bytes_text(tier.budget_bytes)
        ));
        add(&mut table, tier);
    }
    table.text(columns_of, is_dimmed) + &lines(SECOND, columns_of)
}

/// What nobody shall be promised.
const SECOND: &str =
    "Two at once is what fits side by side; Transom itself does not use a second model yet.";

/// A sentence below a table, after a blank line.
fn lines(text: &str, columns_of: Option<usize>) -> String {
    let width = columns_of.unwrap_or(80).min(80).saturating_sub(1);
    let lines = broken(&visible(text), width).into_iter();
    std::iter::once("\n".to_owned())
        .chain(lines.map(|line| line + "\n"))
        .collect()
}

fn add(table: &mut Table, tier: &Recommendations) {
    let mut one = |role: &str, pick: &Recommendation| {
        let need = pick.estimate.need.total_bytes();
        table.add([
            role.to_owned(),
            pick.id.clone(),
            variant_text(pick.format, &pick.quantization),
            pick.size_bytes.map_or(String::new(), disk_text),
            bytes_text(need),
            pick.estimate.speed.map_or(String::new(), speed_range),
        ]);
    };
    let singles = [
        ("conversation", &tier.chat),
        ("programs", &tier.code),
        ("quick answers", &tier.small),
    ];
    for (role, pick) in singles {
        if let Some(pick) = pick {
            one(role, pick);
        }
    }
    if let Some(pair) = &tier.pair {
        one("two at once", &pair.main);
        let role = match pair.kind {
            PairKind::Draft => "  to guess ahead",
            PairKind::Embedding => "  for search",
        };
        one(role, &pair.second);
    }
}

/// Memory as it is sold: `16 GB`.
pub(super) fn memory_text(bytes: u64) -> String {
    match bytes.is_multiple_of(GB) {
        true => format!("{} GB", bytes / GB),
        false => bytes_text(bytes),
    }
}
