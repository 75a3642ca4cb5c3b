//! The result of one engine, as text for people and as JSON for programs.
//!
//! Rule: the JSON's field names are an interface.

use serde::Serialize;
use transom_bench::sustained::{Energy, MinuteSpeed, Prediction, Throttling, Window};
use transom_files::visible;

use crate::Layout;
use crate::output::{Rows, Table, memory_text, numbers, rate_text, words};

/// Rows of the table, at most. The JSON has every window.
const MAX_ROWS: usize = 30;

/// The reason of an early end by Ctrl-C.
pub(super) const INTERRUPTED: &str = "interrupted";

/// The result of one engine.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) model: String,
    pub(super) engine: String,
    pub(super) settings: Settings,
    pub(super) windows: Vec<Window>,
    pub(super) minutes: Vec<MinuteSpeed>,
    pub(super) throttling: Option<Throttling>,
    /// `None` if it is unknown, for the reason in `energy_problem`.
    pub(super) energy: Option<Energy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) energy_problem: Option<String>,
    /// `None` if there is no prediction for this machine.
    pub(super) prediction: Option<Prediction>,
    /// Why the measurement ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended_early: Option<String>,
}

/// What the engine was told.
#[derive(Debug, Serialize)]
pub(super) struct Settings {
    pub(super) stored_as: String,
    pub(super) computed_as: String,
    pub(super) context_length: usize,
    pub(super) prompt_tokens: usize,
    pub(super) generate_tokens: usize,
    /// Responses are greedy, and nothing is drafted.
    pub(super) temperature: f32,
    pub(super) speculation: bool,
    pub(super) weight_bytes: Option<u64>,
    /// Of a full context; smaller where the KV cache has a smaller type.
    pub(super) kv_cache_bytes: Option<u64>,
    pub(super) budget_bytes: u64,
}

impl Report {
    pub(super) fn is_interrupted(&self) -> bool {
        self.ended_early.as_deref() == Some(INTERRUPTED)
    }

    pub(super) fn text(&self, layout: Layout) -> String {
        let settings = &self.settings;
        let mut rows = Rows::new(14, layout);
        rows.heading(&format!("{} ({})", visible(&self.model), self.engine));
        let weights = format!("{}, {}", settings.stored_as, settings.computed_as);
        rows.row("  weights", &weights);
        let kv = settings.kv_cache_bytes.map_or_else(String::new, |bytes| {
            format!(", KV cache of {}", memory_text(bytes))
        });
        rows.row(
            "  context",
            &format!("{} tokens{kv}", settings.context_length),
        );
        rows.row(
            "  memory",
            &format!("budget {}", memory_text(settings.budget_bytes)),
        );
        let lengths = format!(
            "prompts of {} tokens, responses of {}, greedy, nothing drafted",
            settings.prompt_tokens, settings.generate_tokens
        );
        rows.row("  requests", &lengths);
        let heading = rows.finish();
        let table = Table::new([
            numbers("TIME", "", |window: &Window| {
                format!("{:.0} s", window.start_seconds)
            }),
            numbers("TOK/S", "", |window| {
                window
                    .tokens_per_second
                    .map_or_else(|| "–".to_owned(), rate_text)
            }),
            numbers("WATTS", "watts ", |window: &Window| match window.joules {
                Some(joules) => rate_text(joules / window.seconds),
                None => String::new(),
            })
            .optional(1),
            words("HEAT", |window| window.thermal.clone()),
            words("LIMITS", |window: &Window| window.limits.join("; ")).optional(2),
        ]);
        let shown = self.windows.iter();
        let shown = shown.step_by(self.windows.len().div_ceil(MAX_ROWS).max(1));
        let shown: Vec<Window> = shown.cloned().collect();
        let table = table.with(&shown).text(layout);
        let mut rows = Rows::new(14, layout);
        for speed in &self.minutes {
            let label = format!("minute {}", speed.minute);
            rows.row(
                &label,
                &format!("{} tok/s", rate_text(speed.tokens_per_second)),
            );
        }
        let throttling = match self.throttling {
            Some(found) => format!(
                "after {:.0} s: {} instead of {} tok/s",
                found.at_seconds,
                rate_text(found.after),
                rate_text(found.before)
            ),
            None => "never slower than the first minute by more than a tenth".to_owned(),
        };
        rows.row("throttling", &throttling);
        let energy = match (&self.energy, &self.energy_problem) {
            (Some(energy), _) => format!(
                "{:.2} tokens per joule, {} W",
                energy.tokens_per_joule,
                rate_text(energy.watts)
            ),
            (None, Some(problem)) => format!("unknown: {problem}"),
            (None, None) => "unknown".to_owned(),
        };
        rows.row("energy", &energy);
        rows.row("prediction", &self.prediction_text());
        if let Some(reason) = &self.ended_early {
            rows.row("ended early", reason);
        }
        format!("{heading}\n{table}\n{}\n", rows.finish())
    }

    fn prediction_text(&self) -> String {
        let Some(prediction) = self.prediction else {
            return "none; `transom doctor --measure` measures the memory, which it needs"
                .to_owned();
        };
        let range = format!(
            "{} to {} tok/s",
            rate_text(prediction.low),
            rate_text(prediction.high)
        );
        match prediction.is_far_off {
            true => format!(
                "{range}, FAR OFF: {} measured",
                rate_text(prediction.measured)
            ),
            false => format!("{range}, {} measured", rate_text(prediction.measured)),
        }
    }
}
