//! The description of all sources for people: one row per signal, the same rows on every system.

use crate::signal::{SourceReport, SystemSignals};

/// The source of each signal, or why there is none.
pub(crate) struct Sources {
    pub(crate) memory: Result<String, String>,
    pub(crate) swap: Result<String, String>,
    pub(crate) heat: Result<String, String>,
    pub(crate) power_mode: Result<String, String>,
    pub(crate) power_source: Result<String, String>,
}

/// Returns a row for each signal, in a fixed order. `averages` is appended to the memory pressure.
pub(crate) fn rows(signals: &SystemSignals, sources: Sources, averages: &str) -> Vec<SourceReport> {
    let memory = format!("{}{averages}", signals.memory);
    let swap = pick(signals.is_thrashing, "swapping memory out", "normal");
    let power_mode = pick(signals.is_low_power, "low power", "normal");
    let power_source = pick(signals.is_on_battery, "battery", "mains");
    vec![
        row("memory pressure", sources.memory, memory),
        row("swap", sources.swap, swap),
        row("heat", sources.heat, signals.thermal.to_string()),
        row("power mode", sources.power_mode, power_mode),
        row("power source", sources.power_source, power_source),
    ]
}

fn pick(condition: bool, if_true: &str, if_false: &str) -> String {
    if condition { if_true } else { if_false }.to_owned()
}

fn row(signal: &str, source: Result<String, String>, value: String) -> SourceReport {
    let is_available = source.is_ok();
    let (Ok(source) | Err(source)) = source;
    SourceReport {
        signal: signal.to_owned(),
        source,
        value,
        is_available,
    }
}
