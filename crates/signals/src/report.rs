//! The description of all sources for people: one row per signal, the same rows on every system.

use crate::signal::{SourceReport, SystemSignals};

/// The sources of memory pressure, swap, heat, power mode and power source, or why there is none.
pub(crate) type Sources = [Result<String, String>; 5];

/// Returns a row for each signal, in the order of its sources. `averages` is appended to the memory
/// pressure.
pub(crate) fn rows(signals: &SystemSignals, sources: Sources, averages: &str) -> Vec<SourceReport> {
    let swap = pick(signals.is_thrashing, "swapping memory out", "normal");
    let power_mode = pick(signals.is_low_power, "low power", "normal");
    let power_source = pick(signals.is_on_battery, "battery", "mains");
    let values = [
        ("memory pressure", format!("{}{averages}", signals.memory)),
        ("swap", swap),
        ("heat", signals.thermal.to_string()),
        ("power mode", power_mode),
        ("power source", power_source),
    ];
    let rows = values.into_iter().zip(sources);
    rows.map(|((signal, value), source)| SourceReport {
        signal: signal.to_owned(),
        value,
        is_available: source.is_ok(),
        source: source.unwrap_or_else(|why| why),
    })
    .collect()
}

fn pick(condition: bool, if_true: &str, if_false: &str) -> String {
    if condition { if_true } else { if_false }.to_owned()
}
