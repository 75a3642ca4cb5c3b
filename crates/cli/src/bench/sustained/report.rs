//! The result of one engine, as text for people.

use transom_bench::sustained::Window;
use transom_bench::{EarlyEnd, SustainedReport};
use transom_files::visible;

use crate::Layout;
use crate::output::{Rows, Table, memory_text, numbers, rate_text, words};

/// Rows of the table, at most. The JSON has every window.
const MAX_ROWS: usize = 30;

pub(super) fn text(report: &SustainedReport, layout: Layout) -> String {
    let settings = &report.settings;
    let mut rows = Rows::new(14, layout);
    rows.heading(&format!("{} ({})", visible(&report.model), report.engine));
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
        words("HEAT", |window: &Window| window.thermal.to_string()),
        words("LIMITS", |window: &Window| window.limits.join("; ")).optional(2),
    ]);
    let shown = report.windows.iter();
    let shown = shown.step_by(report.windows.len().div_ceil(MAX_ROWS).max(1));
    let shown: Vec<Window> = shown.cloned().collect();
    let table = table.with(&shown).text(layout);
    let mut rows = Rows::new(14, layout);
    for speed in &report.minutes {
        let label = format!("minute {}", speed.minute);
        rows.row(
            &label,
            &format!("{} tok/s", rate_text(speed.tokens_per_second)),
        );
    }
    let throttling = match report.throttling {
        Some(found) => format!(
            "after {:.0} s: {} instead of {} tok/s",
            found.at_seconds,
            rate_text(found.after),
            rate_text(found.before)
        ),
        None => "never slower than the first minute by more than a tenth".to_owned(),
    };
    rows.row("throttling", &throttling);
    let energy = match (&report.energy, &report.energy_problem) {
        (Some(energy), _) => format!(
            "{:.2} tokens per joule, {} W",
            energy.tokens_per_joule,
            rate_text(energy.watts)
        ),
        (None, Some(problem)) => format!("unknown: {problem}"),
        (None, None) => "unknown".to_owned(),
    };
    rows.row("energy", &energy);
    rows.row("prediction", &prediction_text(report));
    if let Some(reason) = report.ended_early {
        rows.row("ended early", early_end_text(reason));
    }
    format!("{heading}\n{table}\n{}\n", rows.finish())
}

fn prediction_text(report: &SustainedReport) -> String {
    let Some(prediction) = report.prediction else {
        return "none; `transom doctor --measure` measures the memory, which it needs".to_owned();
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

fn early_end_text(reason: EarlyEnd) -> &'static str {
    match reason {
        EarlyEnd::Interrupted => "interrupted",
        EarlyEnd::Unloaded => "the model was unloaded",
        EarlyEnd::Limited => "this computer was short of memory or too hot",
    }
}
