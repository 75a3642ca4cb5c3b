//! The doctor's report, for people and for programs.

use std::path::PathBuf;

use serde::Serialize;
use transom_library::{Bandwidth, BandwidthBasis};
use transom_signals::{Hardware, MemoryPressure, SourceReport, SystemSignals};
use transom_supervisor::settings::Settings;
use transom_supervisor::{Bound, Restrictions};
use transom_terminal::{Layout, Rows, gigabytes, memory_text, rough_time};

use crate::status_text::{limits_text, signals_text};

/// Columns of the labels, with their indentation and the space after them.
const LABEL_WIDTH: usize = 21;

/// What `transom doctor` found.
#[derive(Debug, Serialize)]
pub struct DoctorReport {
    /// This computer.
    pub hardware: Hardware,
    /// The engines, in the order in which they are tried for a model with several forms.
    pub engines: Vec<&'static str>,
    /// The memory bandwidth, if it is published for the chip or was measured before.
    pub bandwidth: Option<Bandwidth>,
    /// Bytes per second, with `--measure`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_bandwidth: Option<u64>,
    /// Bytes that all models together may use now.
    pub budget_bytes: u64,
    /// The limits of that: the lowest counts, and memory pressure lowers it further.
    pub bounds: Vec<Bound>,
    /// Where each signal comes from.
    pub sources: Vec<SourceReport>,
    /// Whether the signals are those of `--simulate`.
    pub is_simulated: bool,
    /// The system signals.
    pub signals: SystemSignals,
    /// The limits that follow from them.
    pub restrictions: Restrictions,
    /// Whether budget, signals and restrictions are those of the running instance.
    pub is_in_force: bool,
    /// The settings that the supervisor reads.
    pub settings: SettingsReport,
    /// The data folder and its instance.
    pub instance: InstanceReport,
}

/// The file of the settings that the supervisor reads.
#[derive(Debug, Serialize)]
pub struct SettingsReport {
    /// Its path.
    pub path: PathBuf,
    /// `None` if there is no file.
    pub chosen: Option<Settings>,
    /// Why the file is not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The data folder and the instance that runs in it.
#[derive(Debug, Serialize)]
pub struct InstanceReport {
    /// The data folder.
    pub data_folder: PathBuf,
    /// The process of the instance; `None` if none runs.
    pub process_id: Option<u32>,
    /// Why a running instance cannot be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl DoctorReport {
    /// Returns the report for people. Every line ends with a newline.
    pub fn text(&self, layout: Layout) -> String {
        let mut rows = Rows::new(LABEL_WIDTH, layout);
        self.add_hardware(&mut rows);
        rows.heading("Memory that models may use");
        for bound in &self.bounds {
            let (capacity, reserved) = (bound.capacity_bytes, bound.reserved_bytes);
            let (capacity, reserved_text) = (memory_text(capacity), memory_text(reserved));
            let reason = match reserved {
                0 => String::new(),
                _ => format!(" = {capacity} less {reserved_text} for all other programs"),
            };
            let text = memory_text(bound.bytes) + &reason;
            rows.row(&format!("  {}", bound.kind), &text);
        }
        rows.row("  together", &self.budget_text());
        rows.heading("Signals");
        for source in &self.sources {
            let value = match source.is_available {
                true => format!("{}\n{}", source.value, source.source),
                false => format!("none: {}", source.source),
            };
            rows.row(&format!("  {}", source.signal), &value);
        }
        rows.heading(match self.is_simulated {
            true => "Limits that would follow from the simulated signals",
            false => "Limits now",
        });
        rows.row("  signals", &signals_text(&self.signals));
        rows.row("  limits", &limits_text(&self.restrictions));
        let unload = match self.restrictions.idle_unload {
            Some(idle) => format!("after {} without use", rough_time(idle)),
            None => "only under memory pressure".to_owned(),
        };
        rows.row("  unload", &unload);
        rows.row("  settings", &self.settings_text());
        rows.heading("Running instance");
        let process = match (self.instance.process_id, &self.instance.problem) {
            (Some(id), _) => format!("{id}; `transom status` shows what it does"),
            (None, Some(problem)) => problem.clone(),
            (None, None) => "none; the next `transom chat` or `transom ask` starts one".to_owned(),
        };
        rows.row("  process", &process);
        let folder = self.instance.data_folder.to_string_lossy();
        rows.row("  data folder", &folder);
        rows.finish()
    }

    fn add_hardware(&self, rows: &mut Rows) {
        rows.heading("Hardware");
        let hardware = &self.hardware;
        let chip = Some(&*hardware.chip_name).filter(|name| !name.is_empty());
        rows.row("  chip", chip.unwrap_or("unknown"));
        rows.row("  memory", &memory_text(hardware.memory_bytes));
        let (n_fast, n) = (hardware.n_performance_cores, hardware.n_cores);
        rows.row("  cores", &format!("{n_fast} for speed, {n} in all"));
        let note = match hardware.working_set_is_estimated {
            true => ", estimated: Metal is not available to this terminal",
            false => "",
        };
        let (working_set, gpu) = match hardware.working_set_bytes.map(memory_text) {
            Some(bytes) => (format!("{bytes} at most in use by the GPU{note}"), "a"),
            None => ("no GPU that shares the memory".to_owned(), "no"),
        };
        rows.row("  working set", &working_set);
        rows.row("  bandwidth", &self.bandwidth_text());
        let engines = self.engines.join(" before ");
        rows.row(
            "  engines",
            &format!("{engines}, because MLX has {gpu} GPU here"),
        );
    }

    fn bandwidth_text(&self) -> String {
        let mut lines = Vec::new();
        if let Some(bandwidth) = self.bandwidth {
            let low = bandwidth.low_bytes_per_second;
            let high = bandwidth.high_bytes_per_second;
            let rate = match low == high {
                true => bandwidth_rate(low),
                false => format!("{} to {}", gigabytes(low), bandwidth_rate(high)),
            };
            match bandwidth.basis {
                BandwidthBasis::Measured if self.measured_bandwidth.is_some() => {}
                BandwidthBasis::Measured => lines.push(format!("{rate}, measured before")),
                BandwidthBasis::Chip | BandwidthBasis::Memory => {
                    lines.push(format!("{rate} according to its maker"));
                }
            }
        }
        if let Some(rate) = self.measured_bandwidth {
            lines.push(format!("{} measured now", bandwidth_rate(rate)));
        }
        match lines.is_empty() {
            true => "not known for this chip; --measure measures it".to_owned(),
            false => lines.join("\n"),
        }
    }

    fn budget_text(&self) -> String {
        let bytes = memory_text(self.budget_bytes);
        match self.restrictions.memory {
            MemoryPressure::Normal if self.bounds.len() > 1 => bytes + ", the lowest of these",
            MemoryPressure::Normal => bytes,
            pressure => format!("{bytes}, less than usual: memory pressure is {pressure}"),
        }
    }

    fn settings_text(&self) -> String {
        let path = self.settings.path.display();
        let origin = match (&self.settings.chosen, &self.settings.problem) {
            (_, Some(problem)) => format!("defaults, because {problem}"),
            (Some(_), None) => format!("from {path}"),
            (None, None) => format!("defaults; the app writes yours to {path}"),
        };
        match self.is_in_force {
            true => format!("those of the running instance\n{origin}"),
            false => origin,
        }
    }
}

fn bandwidth_rate(bytes: u64) -> String {
    format!("{} GB/s", gigabytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use transom_supervisor::{ActiveLimit, BoundKind, Limit, LimitReason};

    fn report() -> DoctorReport {
        let source = |signal: &str, is_available| SourceReport {
            signal: signal.to_owned(),
            source: format!("where {signal} comes from"),
            value: "normal".to_owned(),
            is_available,
        };
        DoctorReport {
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
            restrictions: Restrictions {
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
            instance: InstanceReport {
                data_folder: "data".into(),
                process_id: Some(4711),
                problem: None,
            },
        }
    }

    #[test]
    fn every_fact_has_its_line() {
        let text = report().text(Layout::default());
        let because = LimitReason::LowPower;
        for line in [
            "  chip               Apple M3 Pro",
            "  cores              6 for speed, 12 in all",
            "  GPU working set    11.50 GB = 12.00 GB less 512 MB for all other programs",
            "  together           10.00 GB, less than usual: memory pressure is warning",
            "  bandwidth          150 GB/s according to its maker",
            "                     121 GB/s measured now",
            "  engines            MLX before llama.cpp, because MLX has a GPU here",
            "  memory pressure    normal",
            "                     where memory pressure comes from",
            "  heat               none: where heat comes from",
            &format!("  limits             shorter context (4096 tokens): {because}"),
            "  unload             after 3 min without use",
            "  process            4711; `transom status` shows what it does",
        ] {
            assert!(
                text.lines().any(|one| one == line),
                "{line:?} is not in:\n{text}"
            );
        }
        assert!(text.contains("\nLimits now\n"), "{text}");
    }

    #[test]
    fn the_origin_of_the_settings_is_shown() {
        let text = |chosen, problem, is_in_force| {
            let report = report();
            let settings = SettingsReport {
                chosen,
                problem,
                ..report.settings
            };
            let report = DoctorReport {
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
            "those of the running instance\nfrom data/supervisor.json"
        );
        let problem = Some("it is damaged".to_owned());
        assert_eq!(
            text(None, problem, false),
            "defaults, because it is damaged"
        );
    }

    #[test]
    fn a_bandwidth_is_published_or_measured() {
        let text = |bandwidth, measured_bandwidth| {
            let report = DoctorReport {
                bandwidth,
                measured_bandwidth,
                ..report()
            };
            report.bandwidth_text()
        };
        let chip = Bandwidth::of_chip;
        assert_eq!(
            text(chip("Apple M4"), None),
            "120 GB/s according to its maker"
        );
        assert_eq!(
            text(chip("Apple M4 Max"), None),
            "410 to 546 GB/s according to its maker"
        );
        let before = Some(Bandwidth::measured(20_000_000_000));
        assert_eq!(text(before, None), "20 GB/s, measured before");
        assert_eq!(text(before, Some(21_000_000_000)), "21 GB/s measured now");
        assert_eq!(text(None, Some(270_000_000)), "0.3 GB/s measured now");
        assert_eq!(
            text(None, None),
            "not known for this chip; --measure measures it"
        );
    }

    #[test]
    fn a_simulation_is_labeled() {
        let simulated = DoctorReport {
            is_simulated: true,
            ..report()
        };
        assert!(
            simulated
                .text(Layout::default())
                .contains("\nLimits that would follow from the simulated")
        );
    }
}
