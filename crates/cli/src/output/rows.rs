//! Labelled lines in two columns, and the words for what a supervisor and a machine can say.
//!
//! Rule: readable without colour; on a terminal labels step back behind what they label.

use transom_files::visible;
use transom_signals::SystemSignals;
use transom_supervisor::Allowance;
use transom_supervisor::status::{PassedOver, UnloadReason, UnloadRecord};

use crate::console::{DIM, RESET};
use crate::output::stats::{GB, MB, bytes_text};

/// Lines under construction.
pub(crate) struct Rows {
    text: String,
    label_width: usize,
    is_dimmed: bool,
    columns: usize,
}

impl Rows {
    /// No lines yet. Labels get `label_width` columns, and are dimmed if `is_dimmed`.
    pub(crate) fn new(label_width: usize, is_dimmed: bool) -> Self {
        Self {
            text: String::new(),
            label_width,
            is_dimmed,
            columns: WIDTH,
        }
    }

    /// Breaks lines for a terminal of `columns` columns, where that is less than usual.
    pub(crate) fn within(mut self, columns: Option<usize>) -> Self {
        self.columns = columns.unwrap_or(WIDTH + 1).saturating_sub(1).min(WIDTH);
        self
    }

    /// A line over the rows that follow, with a blank line before it unless it is the first.
    pub(crate) fn heading(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&visible(text));
        self.text.push('\n');
    }

    /// One row, of one or more lines; long ones are broken. Neither text may have styles: control
    /// characters become visible.
    pub(crate) fn row(&mut self, label: &str, value: &str) {
        let label = visible(label);
        let mut label: &str = &label;
        let width = self.columns.saturating_sub(self.label_width).max(1);
        for line in value.lines().flat_map(|line| broken(&visible(line), width)) {
            let padded = format!("{label:<width$}", width = self.label_width);
            let line = if self.is_dimmed && !label.is_empty() {
                format!("{DIM}{padded}{RESET}{line}")
            } else {
                format!("{padded}{line}")
            };
            self.text.push_str(line.trim_end());
            self.text.push('\n');
            label = "";
        }
    }

    /// All of it; every line ends with a newline.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// Columns of the usual terminal, less one.
const WIDTH: usize = 79;

/// `line` in pieces of at most `width` columns, broken at blanks where there are any.
pub(crate) fn broken(line: &str, width: usize) -> Vec<String> {
    let text = line.trim_start_matches(' ');
    // Numbers are moved right by blanks.
    let mut pieces = vec![" ".repeat(line.len() - text.len())];
    for word in text.split(' ') {
        let last = pieces.len() - 1;
        let piece = &mut pieces[last];
        if piece.trim_start().is_empty() {
            piece.push_str(word);
        } else if piece.chars().count() + 1 + word.chars().count() <= width {
            piece.push(' ');
            piece.push_str(word);
        } else {
            pieces.push(word.to_owned());
        }
    }
    pieces
}

/// How much of `total` is `part`, `width` columns wide; anything at all shows.
pub(crate) fn bar(part: u64, total: u64, width: usize) -> String {
    let share = (u128::from(part.min(total)) * width as u128).checked_div(u128::from(total));
    let n_full = usize::try_from(share.unwrap_or(0)).unwrap_or(width);
    let n_full = n_full.max(usize::from(part > 0)).min(width);
    "█".repeat(n_full) + &"░".repeat(width - n_full)
}

/// The machine's state in one line.
pub(crate) fn signals_text(signals: &SystemSignals) -> String {
    let mut parts = vec![
        format!("memory pressure {}", signals.memory),
        format!("heat {}", signals.thermal),
        if signals.is_on_battery {
            "on battery".to_owned()
        } else {
            "mains power".to_owned()
        },
    ];
    if signals.is_thrashing {
        parts.push("swap grows fast".to_owned());
    }
    if signals.is_low_power {
        parts.push("Low Power Mode".to_owned());
    }
    parts.join(", ")
}

/// Each limit in force with its reason, one a line.
pub(crate) fn limits_text(allowance: &Allowance) -> String {
    let restraints = allowance.limits.iter();
    let lines: Vec<String> = restraints.map(ToString::to_string).collect();
    if lines.is_empty() {
        "none".to_owned()
    } else {
        lines.join("\n")
    }
}

/// A form of a model that is not the one that runs, and why: `not starter.gguf: …`.
pub(crate) fn passed_over_text(form: &PassedOver) -> String {
    let name = form.path.file_name().unwrap_or(form.path.as_os_str());
    format!("not {}: {}", name.to_string_lossy(), form.reason)
}

/// What an unload gave back, such as `returned 8.1 of 8.2 GB in 0.3 s`.
pub(crate) fn unload_text(record: &UnloadRecord) -> String {
    let took = match record.took.as_millis() {
        milliseconds @ 0..100 => format!("{milliseconds} ms"),
        _ => format!("{:.1} s", record.took.as_secs_f64()),
    };
    match (record.held_bytes, record.freed_bytes) {
        (Some(held), _) if record.by_force => format!(
            "returned {} in {took}, by ending its process by force",
            bytes_text(held)
        ),
        (Some(held), Some(freed)) => format!("returned {} in {took}", of_bytes(freed, held)),
        (Some(held), None) => format!("returned {} with its process in {took}", bytes_text(held)),
        (None, _) => format!("unloaded in {took}"),
    }
}

/// `part` of `whole` in the unit of the whole: `8.1 of 8.2 GB`.
pub(crate) fn of_bytes(part: u64, whole: u64) -> String {
    let count = |bytes: u64, unit: u64| bytes as f64 / unit as f64;
    if whole < GB {
        format!("{:.0} of {:.0} MB", count(part, MB), count(whole, MB))
    } else {
        format!("{:.1} of {:.1} GB", count(part, GB), count(whole, GB))
    }
}

/// Why a model was unloaded, in a few words.
pub(crate) fn why_unloaded(why: UnloadReason) -> String {
    match why {
        UnloadReason::Idle => "nobody used it".to_owned(),
        UnloadReason::MakeRoom => "another model needed its room".to_owned(),
        UnloadReason::Paused => "you paused it".to_owned(),
        UnloadReason::Replaced => "it was loaded with other settings".to_owned(),
        UnloadReason::Pressure { reason: because } => because.to_string(),
        UnloadReason::Requested => "as asked".to_owned(),
        UnloadReason::LoadEnded => "its load was given up".to_owned(),
        UnloadReason::Fault => "it failed".to_owned(),
        UnloadReason::Quit => "Transom quit".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use transom_signals::{MemoryPressure, ThermalState};

    #[test]
    fn values_are_aligned_and_labels_come_once() {
        let mut rows = Rows::new(8, false);
        rows.heading("Machine");
        rows.row("memory", "one\ntwo");
        rows.row("heat", "fair");
        rows.heading("Limits");
        let expect = "Machine\nmemory  one\n        two\nheat    fair\n\nLimits\n";
        assert_eq!(rows.finish(), expect);
    }

    #[test]
    fn a_long_value_is_broken_at_blanks() {
        let mut rows = Rows::new(8, false);
        rows.row("error", &format!("{} {}", "a".repeat(60), "b".repeat(20)));
        let expect = format!("error   {}\n        {}\n", "a".repeat(60), "b".repeat(20));
        assert_eq!(rows.finish(), expect);
        let path = "/".repeat(90);
        let mut rows = Rows::new(8, false);
        rows.row("path", &path);
        assert_eq!(
            rows.finish(),
            format!("path    {path}\n"),
            "nowhere to break"
        );
    }

    #[test]
    fn a_value_cannot_forge_a_label_or_hold_an_escape_sequence() {
        let mut rows = Rows::new(6, false);
        rows.heading("a\x1b[2J");
        rows.row("b\u{202e}", "c\x1b]0;d\x07\nmodel e");
        assert_eq!(rows.finish(), "a�[2J\nb�    c�]0;d�\n      model e\n");
    }

    #[test]
    fn labels_are_dimmed_only_where_that_is_welcome() {
        let mut rows = Rows::new(6, true);
        rows.row("heat", "fair");
        assert_eq!(rows.finish(), "\x1b[2mheat  \x1b[0mfair\n");
    }

    #[test]
    fn a_bar_is_full_only_when_it_is_and_never_overflows() {
        let check = |part, total, expect: &str| assert_eq!(bar(part, total, 4), expect);
        check(0, 100, "░░░░");
        check(1, 100, "█░░░");
        check(50, 100, "██░░");
        check(99, 100, "███░");
        check(100, 100, "████");
        check(500, 100, "████");
        check(0, 0, "░░░░");
    }

    #[test]
    fn an_unload_says_what_came_back() {
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
    fn signals_name_only_what_is_there() {
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
            "memory pressure critical, heat serious, on battery, swap grows fast, Low Power Mode"
        );
    }
}
