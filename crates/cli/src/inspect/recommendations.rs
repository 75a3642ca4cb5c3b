//! The models that suit one machine or several, as a table.
//!
//! Rule: `catalog` chooses them; this module only prints them.

use transom_library::{
    PairKind, Recommendation, RecommendationReason, Recommendations, variant_text,
};

use crate::Layout;
use crate::output::{GB, Table, bytes_text, disk_text, numbers, paragraph, speed_range, words};

/// A recommended model and its purpose.
type Row<'a> = (&'static str, &'a Recommendation);

/// Returns a table without recommendations.
fn table<'a>() -> Table<Row<'a>> {
    let size = |(_, pick): &Row| pick.size_bytes.map_or(String::new(), disk_text);
    let need = |(_, pick): &Row| bytes_text(pick.estimate.need.total_bytes());
    let speed = |(_, pick): &Row| pick.estimate.speed.map_or(String::new(), speed_range);
    Table::new([
        words("FOR", |(purpose, _): &Row| (*purpose).to_owned()),
        words("MODEL", |(_, pick)| pick.id.clone()),
        words("FORM", |(_, pick)| {
            variant_text(pick.format, &pick.quantization)
        }),
        numbers("SIZE", "", size).optional(1),
        numbers("NEEDS", "needs ", need),
        numbers("TOKENS/S", "tokens a second: ", speed),
    ])
}

/// Returns the recommendations for the machine of this name.
pub(super) fn of_machine(tier: &Recommendations, machine: &str, layout: Layout) -> String {
    let mut letters = machine.chars();
    let first: String = letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    let (rest, budget) = (letters.as_str(), bytes_text(tier.budget_bytes));
    let heading = format!("{first}{rest}, of which models may use {budget}.");
    let mut text = paragraph(&heading, layout) + "\n";
    let mut table = table();
    add_tier(&mut table, tier);
    if table.is_empty() {
        return text + "Nothing in the list fits.\n";
    }
    text.push_str(&table.text(layout));
    let mut notes = Vec::new();
    if let Some(pair) = &tier.pair {
        let together = bytes_text(pair.need_bytes);
        notes.push(format!("The two together need {together}. {NOTE_ON_PAIRS}"));
    }
    let picks = [&tier.chat, &tier.code, &tier.small].into_iter().flatten();
    let picks: Vec<&Recommendation> = picks.collect();
    if picks
        .iter()
        .any(|pick| pick.reason == RecommendationReason::MostCapableThoughSlow)
    {
        let slow = "Slower than most people read; a smaller one answers faster.";
        notes.push(slow.to_owned());
    }
    if let Some(first) = picks.first() {
        let id = &first.id;
        notes.push(format!("To install one: transom models install {id}"));
    }
    for note in notes {
        text.push('\n');
        text.push_str(&paragraph(&note, layout));
    }
    text
}

/// Returns the recommendations for machines, smallest memory first.
pub(super) fn of_tiers(tiers: &[Recommendations], layout: Layout) -> String {
    let mut table = table();
    for tier in tiers {
        let memory = memory_text(tier.memory_bytes);
        let budget = bytes_text(tier.budget_bytes);
        table.section(&format!("{memory}, of which models may use {budget}"));
        add_tier(&mut table, tier);
    }
    table.text(layout) + "\n" + &paragraph(NOTE_ON_PAIRS, layout)
}

/// The note that pairs are only planned.
const NOTE_ON_PAIRS: &str =
    "Two at once is what fits side by side; Transom itself does not use a second model yet.";

fn add_tier<'a>(table: &mut Table<Row<'a>>, tier: &'a Recommendations) {
    let singles = [
        ("conversation", &tier.chat),
        ("programs", &tier.code),
        ("quick answers", &tier.small),
    ];
    for (purpose, pick) in singles {
        if let Some(pick) = pick {
            table.add(&(purpose, pick));
        }
    }
    if let Some(pair) = &tier.pair {
        table.add(&("two at once", &pair.main));
        let purpose = match pair.kind {
            PairKind::Draft => "  as draft model",
            PairKind::Embedding => "  for search",
        };
        table.add(&(purpose, &pair.second));
    }
}

/// Returns the memory of a machine: `16 GB`.
pub(super) fn memory_text(bytes: u64) -> String {
    match bytes.is_multiple_of(GB) {
        true => format!("{} GB", bytes / GB),
        false => bytes_text(bytes),
    }
}
