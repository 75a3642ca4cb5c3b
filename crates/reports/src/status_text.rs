//! The supervisor's status and the machine's signals as text.

use transom_engine::{LoadProgress, MemoryUse};
use transom_files::file_name;
use transom_signals::SystemSignals;
use transom_supervisor::status::{UnloadReason, UnloadRecord};
use transom_supervisor::{PassedOver, Restrictions};
use transom_terminal::{memory_text, of_memory, percent_of};

/// Returns the machine's signals in one line.
pub fn signals_text(signals: &SystemSignals) -> String {
    let power = match signals.is_on_battery {
        true => "on battery",
        false => "mains power",
    };
    let swap = if signals.is_thrashing {
        ", swapping memory out"
    } else {
        ""
    };
    let mode = if signals.is_low_power {
        ", Low Power Mode"
    } else {
        ""
    };
    let (memory, heat) = (signals.memory, signals.thermal);
    format!("memory pressure {memory}, heat {heat}, {power}{swap}{mode}")
}

/// Returns each limit in force with its reason, one per line.
pub fn limits_text(restrictions: &Restrictions) -> String {
    if restrictions.limits.is_empty() {
        return "none".to_owned();
    }
    let lines = restrictions.limits.iter().map(ToString::to_string);
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a form of a model that does not run, and why: `not starter.gguf: …`.
pub fn passed_over_text(form: &PassedOver) -> String {
    format!("not {}: {}", file_name(&form.path), form.reason)
}

/// Returns how much of a load is done, in percent; `None` for a model without weights.
pub fn percent(progress: LoadProgress) -> Option<u64> {
    percent_of(progress.done_bytes, progress.total_bytes)
}

/// Returns the memory that an unload returned: `returned 8.1 of 8.2 GB in 0.3 s`.
pub fn unload_text(record: &UnloadRecord) -> String {
    let took = match record.took.as_millis() {
        milliseconds @ 0..100 => format!("{milliseconds} ms"),
        _ => format!("{:.1} s", record.took.as_secs_f64()),
    };
    match (record.held_bytes, record.freed_bytes) {
        (Some(held), _) if record.by_force => {
            let held = memory_text(held);
            format!("returned {held} in {took}, by ending its process by force")
        }
        (Some(held), Some(freed)) => format!("returned {} in {took}", of_memory(freed, held)),
        (Some(held), None) => format!("returned {} with its process in {took}", memory_text(held)),
        (None, _) => format!("unloaded in {took}"),
    }
}

/// Returns the memory that a model uses, by part and in its whole process, in two lines.
pub fn memory_use_text(memory: &MemoryUse, footprint_bytes: Option<u64>) -> Vec<String> {
    let parts = memory_parts_text(memory);
    let peak = format!("{} at most so far", memory_text(memory.peak_bytes));
    let total = match footprint_bytes {
        Some(bytes) => format!("{} in its process; {peak}", memory_text(bytes)),
        None => peak,
    };
    vec![parts, total]
}

/// Returns the memory that a model uses by part, in one line.
pub(crate) fn memory_parts_text(memory: &MemoryUse) -> String {
    let others = match memory.parked_bytes {
        0 => String::new(),
        bytes => format!(", {} KV caches of other conversations", memory_text(bytes)),
    };
    format!(
        "{} weights, {} KV cache{others}, {} allocator cache",
        memory_text(memory.weight_bytes),
        memory_text(memory.kv_cache_bytes),
        memory_text(memory.allocator_cache_bytes)
    )
}

/// Returns why a model was unloaded, in a few words.
pub fn unload_reason_text(reason: UnloadReason) -> String {
    let text = match reason {
        UnloadReason::Pressure { reason: because } => return because.to_string(),
        UnloadReason::Idle => "it was idle",
        UnloadReason::MakeRoom => "another model needed its memory",
        UnloadReason::Paused => "you paused it",
        UnloadReason::Replaced => "it was loaded with other settings",
        UnloadReason::Requested => "as requested",
        UnloadReason::LoadEnded => "its load was canceled",
        UnloadReason::Fault => "it failed",
        UnloadReason::Quit => "Transom quit",
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use transom_signals::{MemoryPressure, ThermalState};

    #[test]
    fn an_unload_names_the_memory_that_it_returned() {
        let record = UnloadRecord {
            name: "m".into(),
            why: UnloadReason::Requested,
            held_bytes: Some(8_200_000_000),
            freed_bytes: Some(8_100_000_000),
            by_force: false,
            took: Duration::from_millis(312),
        };
        assert_eq!(unload_text(&record), "returned 7.5 of 7.6 GB in 0.3 s");
        let forced = UnloadRecord {
            by_force: true,
            took: Duration::from_millis(12),
            ..record.clone()
        };
        assert_eq!(
            unload_text(&forced),
            "returned 7.64 GB in 12 ms, by ending its process by force"
        );
        let unknown = UnloadRecord {
            held_bytes: None,
            ..record
        };
        assert_eq!(unload_text(&unknown), "unloaded in 0.3 s");
    }

    #[test]
    fn optional_signals_are_named_only_if_they_are_set() {
        let calm = signals_text(&SystemSignals::default());
        assert_eq!(calm, "memory pressure normal, heat nominal, mains power");
        let all = SystemSignals {
            memory: MemoryPressure::Critical,
            is_thrashing: true,
            thermal: ThermalState::Serious,
            is_low_power: true,
            is_on_battery: true,
        };
        assert_eq!(
            signals_text(&all),
            "memory pressure critical, heat serious, on battery, swapping memory out, Low Power Mode"
        );
    }
}
