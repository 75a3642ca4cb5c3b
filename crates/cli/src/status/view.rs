//! The picture of a status: what a person wants to know, in the order in which they ask.

use std::time::Duration;

use transom_supervisor::Status;
use transom_supervisor::status::{ModelStatus, PhaseStatus};

use crate::output::rows::{
    Rows, bar, limits_text, of_bytes, passed_over_text, signals_text, unload_text, why_unloaded,
};
use crate::output::stats::{bytes_text, parameters_text, rough_time, runs_text, seconds};

/// Columns of the labels, the space after them included.
const LABEL_WIDTH: usize = 13;

/// Columns of the budget's bar.
const BAR_WIDTH: usize = 24;

/// Draws `status`, which was taken `age` ago. Every line ends with a newline.
pub(super) fn picture(status: &Status, age: Duration, is_dimmed: bool) -> String {
    let mut rows = Rows::new(LABEL_WIDTH, is_dimmed);
    if status.is_paused {
        rows.row("paused", "questions wait; `transom resume` lets them go on");
    }
    if status.models.is_empty() {
        rows.row("model", none_loaded(status));
    }
    for model in &status.models {
        draw_model(model, age, &mut rows);
    }
    rows.row(
        "budget",
        &format!(
            "{}  {}",
            bar(status.in_use_bytes, status.budget_bytes, BAR_WIDTH),
            of_bytes(status.in_use_bytes, status.budget_bytes)
        ),
    );
    rows.row("queue", &queue_text(status));
    rows.row("signals", &signals_text(&status.signals));
    rows.row("limits", &limits_text(&status.allowance));
    if status.keeps_awake {
        rows.row(
            "awake",
            "the computer is kept awake until the answer is there",
        );
    }
    if let Some(record) = &status.last_unload {
        let text = unload_text(record);
        let why = why_unloaded(record.why);
        rows.row("last unload", &format!("{}: {why}\n{text}", record.name));
    }
    if let Some(error) = &status.last_error {
        rows.row("last error", error);
    }
    rows.row("process", &status.process_id.to_string());
    rows.finish()
}

fn none_loaded(status: &Status) -> &'static str {
    match status.is_paused {
        true => "none loaded",
        false => "none loaded; the next question loads one",
    }
}

fn draw_model(model: &ModelStatus, age: Duration, rows: &mut Rows) {
    rows.row("model", &format!("{}: {}", model.name, phase_text(model)));
    if let Some(info) = &model.info {
        rows.row(
            "",
            &format!(
                "{}, {} parameters, {}; context of {} tokens",
                info.architecture,
                parameters_text(info.n_parameters),
                info.stored_as,
                info.context_length
            ),
        );
        let load_time = model.load_time.map_or(String::new(), |time| {
            format!(", loaded in {}", seconds(time))
        });
        rows.row("", &format!("{}{load_time}", runs_text(info)));
    }
    for form in &model.passed_over {
        rows.row("", &passed_over_text(form));
    }
    if model.restored_tokens > 0 {
        rows.row(
            "",
            &format!("took up a conversation of {} tokens", model.restored_tokens),
        );
    }
    if let Some(text) = memory_text(model) {
        rows.row("memory", &text);
    }
    if let Some(time) = model.unloads_in {
        let left = time.saturating_sub(age);
        rows.row(
            "unloads in",
            &format!("{}, unless it is used", rough_time(left)),
        );
    }
}

fn phase_text(model: &ModelStatus) -> String {
    match &model.phase {
        PhaseStatus::Measuring => "reading its files".to_owned(),
        PhaseStatus::WaitingForRoom => "waiting until another model is unloaded".to_owned(),
        PhaseStatus::Loading { progress } => {
            let percent = progress.and_then(|progress| {
                let done_bytes = progress.done_bytes.min(progress.total_bytes);
                (done_bytes * 100).checked_div(progress.total_bytes)
            });
            percent.map_or("loading".to_owned(), |n| format!("loading, {n} %"))
        }
        PhaseStatus::Ready => match model.n_answered {
            0 => "ready".to_owned(),
            1 => "ready, 1 answer given".to_owned(),
            n => format!("ready, {n} answers given"),
        },
        PhaseStatus::Generating {
            is_stopping: false, ..
        } => "answering".to_owned(),
        PhaseStatus::Generating {
            is_stopping: true, ..
        } => "ending its answer".to_owned(),
        PhaseStatus::Unloading { why } => format!("unloading: {}", why_unloaded(*why)),
    }
}

/// What the model takes by part, else what it will take.
fn memory_text(model: &ModelStatus) -> Option<String> {
    let mut lines = Vec::new();
    if let Some(memory) = &model.memory {
        lines.push(format!(
            "{} weights, {} conversation, {} kept for reuse",
            bytes_text(memory.weight_bytes),
            bytes_text(memory.kv_cache_bytes),
            bytes_text(memory.allocator_cache_bytes)
        ));
        let peak = format!("{} at most so far", bytes_text(memory.peak_bytes));
        lines.push(match model.footprint_bytes {
            Some(bytes) => format!("{} in its process; {peak}", bytes_text(bytes)),
            None => peak,
        });
    }
    if let Some(need) = &model.need {
        lines.push(format!(
            "{} set aside, with a full context of {} tokens",
            bytes_text(need.total_bytes()),
            need.context_length
        ));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn queue_text(status: &Status) -> String {
    let models: Vec<&str> = status.queue.iter().map(|ask| &*ask.model).collect();
    match models.len() {
        0 => "nobody waits".to_owned(),
        1 => format!("1 waits, for {}", models.join(", ")),
        n => format!("{n} wait, for {}", models.join(", ")),
    }
}
