//! What the doctor found, for people and for programs.

use std::path::PathBuf;

use serde::Serialize;
use transom_library::{Bandwidth, BandwidthBasis};
use transom_signals::{Hardware, MemoryPressure, SourceReport, SystemSignals};
use transom_supervisor::settings::Settings;
use transom_supervisor::{Allowance, Bound};

use crate::output::rows::{Rows, limits_text, signals_text};
use crate::output::stats::{bytes_text, rough_time};

/// Columns of the labels, their indent and the space after them included.
const LABEL_WIDTH: usize = 21;

/// Everything found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) hardware: Hardware,
    /// The engines in the order in which they are tried for a model that is there in several forms.
    pub(super) engines: Vec<&'static str>,
    /// How fast memory delivers, where that was published of the chip, or measured before.
    pub(super) bandwidth: Option<Bandwidth>,
    /// Bytes a second, if it was to be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) measured_bandwidth: Option<u64>,
    /// Bytes that models may use together now.
    pub(super) budget_bytes: u64,
    /// What that follows from: the least of these, less what memory pressure takes.
    pub(super) bounds: Vec<Bound>,
    pub(super) sources: Vec<SourceReport>,
    /// Whether `signals` are the user's and not the machine's.
    pub(super) is_simulated: bool,
    pub(super) signals: SystemSignals,
    pub(super) allowance: Allowance,
    /// Whether budget, signals and allowance are those of the running instance.
    pub(super) is_in_force: bool,
    pub(super) settings: SettingsReport,
    pub(super) instance: Instance,
}

/// What the user chose, and where that is written.
#[derive(Debug, Serialize)]
pub(super) struct SettingsReport {
    pub(super) path: PathBuf,
    /// `None`: everything is left to the machine.
    pub(super) chosen: Option<Settings>,
    /// Why the file is not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
}

/// Where a running instance would be, and whether it is there.
#[derive(Debug, Serialize)]
pub(super) struct Instance {
    pub(super) data_folder: PathBuf,
    /// Of the running instance.
    pub(super) process_id: Option<u32>,
    /// Why it cannot be reached, if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
}

impl Report {
    /// For people. Every line ends with a newline.
    pub(super) fn text(&self, is_dimmed: bool) -> String {
        let mut rows = Rows::new(LABEL_WIDTH, is_dimmed);
        rows.heading("Hardware");
        self.draw_hardware(&mut rows);
        rows.heading("Memory that models may use");
        for bound in &self.bounds {
            let text = match bound.reserved_bytes {
                0 => bytes_text(bound.bytes),
                kept => format!(
                    "{} = {} less {} for all other programs",
                    bytes_text(bound.bytes),
                    bytes_text(bound.capacity_bytes),
                    bytes_text(kept)
                ),
            };
            rows.row(&format!("  {}", bound.kind), &text);
        }
        rows.row("  together", &self.budget_text());
        rows.heading("Signals");
        for source in &self.sources {
            let value = if source.is_available {
                format!("{}\n{}", source.value, source.source)
            } else {
                format!("none: {}", source.source)
            };
            rows.row(&format!("  {}", source.signal), &value);
        }
        rows.heading(if self.is_simulated {
            "What would follow from the simulated signals"
        } else {
            "What follows now"
        });
        self.draw_consequences(&mut rows);
        rows.row("  settings", &self.settings_text());
        rows.heading("Running instance");
        let process = match (self.instance.process_id, &self.instance.problem) {
            (Some(id), _) => format!("{id}; `transom status` shows what it does"),
            (None, Some(problem)) => problem.clone(),
            (None, None) => "none; the next `transom chat` or `transom ask` starts one".to_owned(),
        };
        rows.row("  process", &process);
        let folder = self.instance.data_folder.display();
        rows.row("  data folder", &folder.to_string());
        rows.finish()
    }

    fn draw_hardware(&self, rows: &mut Rows) {
        let hardware = &self.hardware;
        let chip = match hardware.chip_name.as_str() {
            "" => "unknown",
            name => name,
        };
        rows.row("  chip", chip);
        rows.row("  memory", &bytes_text(hardware.memory_bytes));
        rows.row(
            "  cores",
            &format!(
                "{} for speed, {} in all",
                hardware.n_performance_cores, hardware.n_cores
            ),
        );
        let working_set = hardware.working_set_bytes.map_or_else(
            || "no GPU that shares the memory".to_owned(),
            |bytes| {
                let from = match hardware.working_set_is_estimated {
                    true => ", estimated: Metal is not available to this terminal",
                    false => "",
                };
                format!("{} at most in use by the GPU{from}", bytes_text(bytes))
            },
        );
        rows.row("  working set", &working_set);
        rows.row("  bandwidth", &self.bandwidth_text());
        rows.row("  engines", &self.engines_text());
    }

    fn bandwidth_text(&self) -> String {
        let measured = self.measured_bandwidth;
        let known = self.bandwidth.and_then(|bandwidth| {
            let (low, high) = (
                bandwidth.low_bytes_per_second,
                bandwidth.high_bytes_per_second,
            );
            let rate = match low == high {
                true => rate_text(low),
                false => format!("{} to {}", figure(low), rate_text(high)),
            };
            match bandwidth.basis {
                BandwidthBasis::Measured if measured.is_some() => None,
                BandwidthBasis::Measured => Some(format!("{rate}, measured before")),
                BandwidthBasis::Chip | BandwidthBasis::Memory => {
                    Some(format!("{rate} by its maker's figures"))
                }
            }
        });
        let measured = measured.map(|rate| format!("{} measured now", rate_text(rate)));
        let lines: Vec<String> = [known, measured].into_iter().flatten().collect();
        match lines.is_empty() {
            true => "not known for this chip; --measure times it".to_owned(),
            false => lines.join("\n"),
        }
    }

    fn engines_text(&self) -> String {
        let because = match self.hardware.working_set_bytes {
            Some(_) => "MLX has a GPU here",
            None => "MLX has no GPU here",
        };
        format!("{}, for {because}", self.engines.join(" before "))
    }

    fn budget_text(&self) -> String {
        let bytes = bytes_text(self.budget_bytes);
        match self.allowance.memory {
            MemoryPressure::Normal if self.bounds.len() > 1 => {
                format!("{bytes}, the least of these")
            }
            MemoryPressure::Normal => bytes,
            MemoryPressure::Warning | MemoryPressure::Critical => {
                format!(
                    "{bytes}, less than usual: memory pressure is {}",
                    self.allowance.memory
                )
            }
        }
    }

    fn settings_text(&self) -> String {
        let SettingsReport {
            path,
            chosen,
            problem,
        } = &self.settings;
        let origin = match (chosen, problem) {
            (_, Some(problem)) => format!("defaults, because {problem}"),
            (Some(_), None) => format!("from {}", path.display()),
            (None, None) => format!("defaults; the app writes yours to {}", path.display()),
        };
        match self.is_in_force {
            true => format!("as the running instance has them in force\n{origin}"),
            false => origin,
        }
    }

    fn draw_consequences(&self, rows: &mut Rows) {
        let allowance = &self.allowance;
        rows.row("  signals", &signals_text(&self.signals));
        rows.row("  limits", &limits_text(allowance));
        if let Some(idle) = allowance.idle_unload {
            let text = format!("after {} without use", rough_time(idle));
            rows.row("  unload", &text);
        } else {
            rows.row("  unload", "only under memory pressure");
        }
    }
}

/// Bytes a second.
fn rate_text(rate: u64) -> String {
    format!("{} GB/s", figure(rate))
}

/// Gigabytes of so many bytes.
fn figure(bytes: u64) -> String {
    match bytes as f64 / 1e9 {
        few @ ..9.95 => format!("{few:.1}"),
        many => format!("{many:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use transom_supervisor::{ActiveLimit, BoundKind, Limit, LimitReason};

    fn report() -> Report {
        let source = |signal: &str, is_available| SourceReport {
            signal: signal.to_owned(),
            source: format!("where {signal} comes from"),
            value: "normal".to_owned(),
            is_available,
        };
        Report {
            hardware: Hardware {
                chip_name: "Apple M3 Pro".into(),
                memory_bytes: 18 << 30,
                n_performance_cores: 6,
                n_cores: 12,
                working_set_bytes: Some(12 << 30),
                working_set_is_estimated: false,
            },
            engines: vec!["MLX", "llama.cpp"],
            bandwidth: Bandwidth::of_chip("Apple M3 Pro"),
            measured_bandwidth: Some(121_000_000_000),
            budget_bytes: 10 << 30,
            bounds: vec![Bound {
                kind: BoundKind::WorkingSet,
                capacity_bytes: 12 << 30,
                reserved_bytes: 512 << 20,
                bytes: 23 << 29,
            }],
            sources: vec![source("memory pressure", true), source("heat", false)],
            is_simulated: false,
            signals: SystemSignals {
                memory: MemoryPressure::Warning,
                ..SystemSignals::default()
            },
            allowance: Allowance {
                memory: MemoryPressure::Warning,
                stop_answers: false,
                context_length: Some(4096),
                prefill_chunk: None,
                max_tokens: None,
                speculation: true,
                repaint_interval: Duration::from_millis(16),
                idle_unload: Some(Duration::from_secs(180)),
                blocked_by: None,
                offer_smaller_model: false,
                limits: vec![ActiveLimit {
                    limit: Limit::Context { tokens: 4096 },
                    reason: LimitReason::LowPower,
                }],
            },
            is_in_force: false,
            settings: SettingsReport {
                path: "data/supervisor.json".into(),
                chosen: None,
                problem: None,
            },
            instance: Instance {
                data_folder: "data".into(),
                process_id: Some(4711),
                problem: None,
            },
        }
    }

    #[test]
    fn everything_found_has_its_line() {
        let text = report().text(false);
        let because = LimitReason::LowPower;
        for line in [
            "  chip               Apple M3 Pro",
            "  cores              6 for speed, 12 in all",
            "  GPU working set    11.50 GB = 12.00 GB less 512 MB for all other programs",
            "  together           10.00 GB, less than usual: memory pressure is warning",
            "  bandwidth          150 GB/s by its maker's figures",
            "                     121 GB/s measured now",
            "  engines            MLX before llama.cpp, for MLX has a GPU here",
            "  memory pressure    normal",
            "                     where memory pressure comes from",
            "  heat               none: where heat comes from",
            &format!("  limits             conversations remember less (4096 tokens): {because}"),
            "  unload             after 3 min without use",
            "  process            4711; `transom status` shows what it does",
        ] {
            assert!(
                text.lines().any(|one| one == line),
                "{line:?} is not in:\n{text}"
            );
        }
        assert!(text.contains("\nWhat follows now\n"), "{text}");
    }

    #[test]
    fn where_the_settings_come_from_is_told() {
        let text = |chosen, problem, is_in_force| {
            let report = report();
            let settings = SettingsReport {
                chosen,
                problem,
                ..report.settings
            };
            let report = Report {
                settings,
                is_in_force,
                ..report
            };
            report.settings_text()
        };
        let chosen = || Some(Settings::default());
        assert_eq!(
            text(None, None, false),
            "defaults; the app writes yours to data/supervisor.json"
        );
        assert_eq!(text(chosen(), None, false), "from data/supervisor.json");
        assert_eq!(
            text(chosen(), None, true),
            "as the running instance has them in force\nfrom data/supervisor.json"
        );
        let problem = Some("it is damaged".to_owned());
        assert_eq!(
            text(None, problem, false),
            "defaults, because it is damaged"
        );
    }

    #[test]
    fn a_bandwidth_is_what_was_published_and_what_was_measured() {
        let text = |bandwidth, measured_bandwidth| {
            let report = Report {
                bandwidth,
                measured_bandwidth,
                ..report()
            };
            report.bandwidth_text()
        };
        let chip = Bandwidth::of_chip;
        assert_eq!(
            text(chip("Apple M4"), None),
            "120 GB/s by its maker's figures"
        );
        assert_eq!(
            text(chip("Apple M4 Max"), None),
            "410 to 546 GB/s by its maker's figures"
        );
        let before = Some(Bandwidth::measured(20_000_000_000));
        assert_eq!(text(before, None), "20 GB/s, measured before");
        assert_eq!(text(before, Some(21_000_000_000)), "21 GB/s measured now");
        assert_eq!(text(None, Some(270_000_000)), "0.3 GB/s measured now");
        assert_eq!(
            text(None, None),
            "not known for this chip; --measure times it"
        );
    }

    #[test]
    fn a_simulation_is_never_taken_for_the_machine() {
        let simulated = Report {
            is_simulated: true,
            ..report()
        };
        assert!(
            simulated
                .text(false)
                .contains("\nWhat would follow from the simulated")
        );
    }
}
