//! The result of a benchmark: what the command line prints, what is saved, and what pages show.
//!
//! Rule: the JSON's field names are an interface, because programs and saved files have them.

use serde::{Deserialize, Serialize};

use crate::quality::{Divergence, Quality};
use crate::sustained::{Energy, MinuteSpeed, Prediction, Throttling, Window, joined};

/// Limits of what a measurement can have been. Numbers beyond them are not from a measurement.
const MAX_SPEED: f64 = 1e6;
const MAX_SECONDS: f64 = 1e6;
const MAX_PERPLEXITY: f64 = 1e9;

/// A benchmark of one model on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Benchmark {
    /// The id of the model.
    pub model_id: String,
    /// Its display name.
    pub model: String,
    /// Name of the chip; empty if unknown.
    pub chip: String,
    /// The version of Transom.
    pub version: String,
    /// When it ended, in seconds since 1970.
    pub ended_at: u64,
    /// What was measured.
    pub measured: Measured,
}

/// What was measured, for each form of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Measured {
    /// The speed over minutes.
    Sustained {
        /// One for each engine.
        forms: Vec<SustainedReport>,
    },
    /// How well the forms predict a text.
    Quality {
        /// One for each form, the reference first.
        forms: Vec<QualityReport>,
    },
}

/// The speed of a form of a model over minutes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct SustainedReport {
    /// Name of the model in its files.
    pub model: String,
    /// The engine that ran it.
    pub engine: String,
    /// What the engine was told.
    pub settings: EngineSettings,
    /// The speed in each ten seconds.
    pub windows: Vec<Window>,
    /// The first, the fifth, the tenth and the last minute.
    pub minutes: Vec<MinuteSpeed>,
    /// Where the machine slowed down.
    pub throttling: Option<Throttling>,
    /// `None` if it is unknown, for the reason in `energy_problem`.
    pub energy: Option<Energy>,
    /// Why the energy is unknown, in English.
    pub energy_problem: Option<String>,
    /// `None` if there is no prediction for this machine.
    pub prediction: Option<Prediction>,
    /// Why the measurement ended early.
    pub ended_early: Option<EarlyEnd>,
}

/// Why a measurement ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum EarlyEnd {
    /// The user stopped it.
    Interrupted,
    /// The model was unloaded.
    Unloaded,
    /// The machine was short of memory or too hot.
    Limited,
}

/// What an engine was told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct EngineSettings {
    /// The format of the weights in the files.
    pub stored_as: String,
    /// How the engine computes with the weights.
    pub computed_as: String,
    /// Number of tokens in the context.
    pub context_length: usize,
    /// Tokens of each prompt.
    pub prompt_tokens: usize,
    /// Tokens of each response.
    pub generate_tokens: usize,
    /// 0: responses are greedy.
    pub temperature: f32,
    /// Whether speculative decoding was on.
    pub speculation: bool,
    /// Bytes of the weights.
    pub weight_bytes: Option<u64>,
    /// Bytes of the KV cache of a full context.
    pub kv_cache_bytes: Option<u64>,
    /// Bytes that all models may use.
    pub budget_bytes: u64,
}

/// How well a form of a model predicts a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct QualityReport {
    /// Name of the model in its files.
    pub model: String,
    /// The engine that ran it.
    pub engine: String,
    /// The format of the weights in the files.
    pub stored_as: String,
    /// How the engine computes with the weights.
    pub computed_as: String,
    /// The others are compared with this one.
    pub is_reference: bool,
    /// How well it predicts the text.
    #[serde(flatten)]
    pub quality: Quality,
    /// The distance from the reference; `None` for the reference, and if it has other tokens for the
    /// text.
    pub divergence: Option<Divergence>,
}

impl SustainedReport {
    /// Returns the name of the line in a plot.
    pub fn title(&self) -> String {
        format!("{}: {}", self.engine, self.settings.stored_as)
    }
}

impl QualityReport {
    /// Returns the name of the bar in a plot.
    pub fn title(&self) -> String {
        format!("{}: {}", self.engine, self.stored_as)
    }
}

impl Benchmark {
    /// Returns a text that only results of the same kind of the same model share.
    pub fn key(&self) -> String {
        let kind = match &self.measured {
            Measured::Sustained { .. } => "sustained",
            Measured::Quality { .. } => "quality",
        };
        format!("{kind} {}", self.model_id)
    }

    /// Returns the benchmark with at most `max` windows for each form; neighbors are joined.
    pub fn with_windows(mut self, max: usize) -> Self {
        if let Measured::Sustained { forms } = &mut self.measured {
            for form in forms {
                form.windows = joined(&form.windows, max);
            }
        }
        self
    }

    /// Returns false if it has no result, or numbers that no measurement has.
    pub fn is_plausible(&self) -> bool {
        let within = |value: f64, max: f64| (0.0..=max).contains(&value);
        match &self.measured {
            Measured::Sustained { forms } => {
                let mut windows = forms.iter().flat_map(|form| &form.windows);
                // A measurement that was stopped at once has a window in which nothing happened.
                let mut speeds = windows.clone().map(|window| window.tokens_per_second);
                let has_speed = speeds.any(|speed| speed.is_some());
                let ranges = || forms.iter().filter_map(|form| form.prediction);
                has_speed
                    && windows.all(|window| {
                        within(window.start_seconds, MAX_SECONDS)
                            && within(window.seconds, MAX_SECONDS)
                            && within(window.tokens_per_second.unwrap_or(0.0), MAX_SPEED)
                    })
                    && ranges()
                        .all(|range| within(range.low, range.high) && range.high <= MAX_SPEED)
            }
            Measured::Quality { forms } => {
                let qualities = || forms.iter().map(|form| form.quality);
                !forms.is_empty()
                    && qualities().all(|one| within(one.perplexity, MAX_PERPLEXITY))
                    && qualities().all(|one| within(one.perplexity_error, MAX_PERPLEXITY))
            }
        }
    }

    /// Returns the result as JSON.
    pub fn json(&self) -> String {
        // All types have text keys and no other cause of an error.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sustained::{MachineState, Recorder, WINDOW, minutes, throttling};

    /// A form whose windows have these speeds.
    pub(crate) fn form(engine: &str, speeds: &[f64]) -> SustainedReport {
        let mut recorder = Recorder::default();
        for (index, speed) in speeds.iter().enumerate() {
            let from = WINDOW * index as u32;
            recorder.add_tokens(from, from + WINDOW, (speed * 10.0) as usize);
        }
        let end: Duration = WINDOW * speeds.len() as u32;
        let windows = recorder.finish(end, &MachineState::default());
        SustainedReport {
            model: "model".to_owned(),
            engine: engine.to_owned(),
            settings: EngineSettings {
                stored_as: "4-bit".to_owned(),
                computed_as: "f16".to_owned(),
                context_length: 1024,
                prompt_tokens: 64,
                generate_tokens: 256,
                temperature: 0.0,
                speculation: false,
                weight_bytes: Some(15_000_000),
                kv_cache_bytes: None,
                budget_bytes: 8_000_000_000,
            },
            minutes: minutes(&windows),
            throttling: throttling(&windows),
            windows,
            energy: None,
            energy_problem: Some("no counters".to_owned()),
            prediction: None,
            ended_early: None,
        }
    }

    pub(crate) fn quality(engine: &str, perplexity: f64) -> QualityReport {
        QualityReport {
            model: "model".to_owned(),
            engine: engine.to_owned(),
            stored_as: "4-bit".to_owned(),
            computed_as: "f16".to_owned(),
            is_reference: engine == "MLX",
            quality: Quality {
                n_tokens: 1000,
                n_bytes: 4000,
                perplexity,
                perplexity_error: 2.0,
                bits_per_byte: 1.4,
            },
            divergence: (engine != "MLX").then_some(Divergence {
                kl_nats: 0.0002,
                kl_error: 0.0001,
                same_top: 0.987,
            }),
        }
    }

    pub(crate) fn benchmark(measured: Measured) -> Benchmark {
        Benchmark {
            model_id: "starter".to_owned(),
            model: "Starter".to_owned(),
            chip: "Apple M4".to_owned(),
            version: "0.1.0".to_owned(),
            ended_at: 1_700_000_000,
            measured,
        }
    }

    fn speed(speeds: &[f64]) -> Benchmark {
        let forms = vec![form("MLX", speeds)];
        benchmark(Measured::Sustained { forms })
    }

    #[test]
    fn json_has_every_field_again() {
        let forms = vec![quality("MLX", 57.9), quality("llama.cpp", 58.0)];
        for one in [speed(&[50.0, 40.0]), benchmark(Measured::Quality { forms })] {
            let read: Benchmark = serde_json::from_str(&one.json()).unwrap();
            assert_eq!(read, one);
        }
    }

    #[test]
    fn results_of_one_kind_and_model_have_the_same_key() {
        let forms = vec![quality("MLX", 57.9)];
        let other_kind = benchmark(Measured::Quality { forms });
        let other_model = Benchmark {
            model_id: "qwen3-4b@4-bit".to_owned(),
            ..speed(&[50.0])
        };
        assert_eq!(speed(&[50.0]).key(), speed(&[20.0]).key());
        assert_ne!(speed(&[50.0]).key(), other_kind.key());
        assert_ne!(speed(&[50.0]).key(), other_model.key());
    }

    #[test]
    fn numbers_that_no_measurement_has_are_recognized() {
        assert!(speed(&[50.0]).is_plausible());
        assert!(!speed(&[]).is_plausible(), "nothing was measured");
        let change = |change: fn(&mut SustainedReport)| {
            let mut form = form("MLX", &[50.0]);
            change(&mut form);
            let forms = vec![form];
            benchmark(Measured::Sustained { forms }).is_plausible()
        };
        assert!(!change(
            |form| form.windows[0].tokens_per_second = Some(1e300)
        ));
        assert!(!change(|form| form.windows[0].start_seconds = -1.0));
        assert!(!change(|form| form.windows[0].tokens_per_second = None));
        let predicted = |low, high| Prediction {
            low,
            high,
            measured: 50.0,
            is_far_off: false,
        };
        assert!(!predicted_is_plausible(predicted(2.0, 1.0)));
        assert!(!predicted_is_plausible(predicted(2.0, 1e9)));
        assert!(predicted_is_plausible(predicted(1.0, 2.0)));
        let of_quality = |perplexity| {
            let forms = vec![quality("MLX", perplexity)];
            benchmark(Measured::Quality { forms }).is_plausible()
        };
        assert!(of_quality(57.9) && !of_quality(-1.0) && !of_quality(f64::INFINITY));
    }

    fn predicted_is_plausible(prediction: Prediction) -> bool {
        let mut form = form("MLX", &[50.0]);
        form.prediction = Some(prediction);
        let forms = vec![form];
        benchmark(Measured::Sustained { forms }).is_plausible()
    }

    #[test]
    fn a_long_measurement_is_saved_with_fewer_windows() {
        let short = speed(&[50.0; 100]).with_windows(30);
        let Measured::Sustained { forms } = &short.measured else {
            panic!("{short:?}");
        };
        assert_eq!(forms[0].windows.len(), 25);
        assert_eq!(forms[0].windows[24].start_seconds, 960.0);
    }
}
