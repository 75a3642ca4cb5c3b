//! The models that suit one machine or several, as a table.
//!
//! Rule: `catalog` chooses them; this module only prints them.

use transom_library::{
    PairKind, Recommendation, RecommendationReason, Recommendations, variant_text,
};
use transom_terminal::{Layout, Table, disk_text, memory_text, numbers, paragraph, words};

use crate::text::speed_range;

type Row<'a> = (&'static str, &'a Recommendation);

fn table<'a>() -> Table<Row<'a>> {
    let size = |(_, pick): &Row| pick.size_bytes.map_or(String::new(), disk_text);
    let need = |(_, pick): &Row| memory_text(pick.estimate.need.total_bytes());
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
pub fn of_machine(tier: &Recommendations, machine: &str, layout: Layout) -> String {
    let (first, rest) = machine.split_at(1);
    let (first, budget) = (first.to_uppercase(), memory_text(tier.budget_bytes));
    let heading = format!("{first}{rest}, of which models may use {budget}.");
    let text = paragraph(&heading, layout) + "\n";
    let rows = rows(tier);
    if rows.is_empty() {
        return text + "Nothing in the catalog fits.\n";
    }
    let mut notes = Vec::new();
    if let Some(pair) = &tier.pair {
        let together = memory_text(pair.need_bytes);
        notes.push(format!("The two together need {together}. {NOTE_ON_PAIRS}"));
    }
    let mut picks = [&tier.chat, &tier.code, &tier.small].into_iter().flatten();
    let first_pick = picks.clone().next();
    if picks.any(|pick| pick.reason == RecommendationReason::MostCapableThoughSlow) {
        let slow = "Slower than most people read; a smaller one answers faster.";
        notes.push(slow.to_owned());
    }
    if let Some(Recommendation { id, .. }) = first_pick {
        notes.push(format!("To install one: transom models install {id}"));
    }
    let notes = notes
        .iter()
        .map(|note| format!("\n{}", paragraph(note, layout)));
    text + &table().with(&rows).text(layout) + &notes.collect::<String>()
}

/// Returns the recommendations for machines, smallest memory first.
pub fn of_tiers(tiers: &[Recommendations], layout: Layout) -> String {
    let mut table = table();
    for tier in tiers {
        let memory = machine_memory(tier.memory_bytes);
        let budget = memory_text(tier.budget_bytes);
        table.section(&format!("{memory}, of which models may use {budget}"));
        table = table.with(&rows(tier));
    }
    table.text(layout) + "\n" + &paragraph(NOTE_ON_PAIRS, layout)
}

/// What the second model of a pair is for.
const NOTE_ON_PAIRS: &str = "Two at once is what fits side by side: the second one drafts tokens \
                             for the first, or makes embeddings for other programs.";

fn rows(tier: &Recommendations) -> Vec<Row<'_>> {
    let singles = [
        ("conversation", &tier.chat),
        ("programs", &tier.code),
        ("quick answers", &tier.small),
    ];
    let singles = singles.into_iter();
    let mut rows: Vec<Row> = singles
        .filter_map(|(purpose, pick)| Some((purpose, pick.as_ref()?)))
        .collect();
    if let Some(pair) = &tier.pair {
        let purpose = match pair.kind {
            PairKind::Draft => "  as draft model",
            PairKind::Embedding => "  for search",
        };
        rows.extend([("two at once", &pair.main), (purpose, &pair.second)]);
    }
    rows
}

/// Returns the memory of a machine: `16 GB`.
pub fn machine_memory(bytes: u64) -> String {
    memory_text(bytes).replace(".00 ", " ")
}
