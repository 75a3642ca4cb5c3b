//! The status as text, with the most important lines first.

use std::time::Duration;

use transom_supervisor::status::{ModelStatus, PhaseStatus, RequestState, RequestStatus};
use transom_supervisor::{Class, Status};
use transom_terminal::{
    Layout, Rows, bar, memory_text, of_memory, parameters_text, rate_text, rough_time, seconds,
};

use crate::status_text::{
    limits_text, memory_use_text, passed_over_text, percent, signals_text, unload_reason_text,
    unload_text,
};
use crate::text::runs_text;

/// Columns of the labels, with the space after them.
const LABEL_WIDTH: usize = 13;

/// Columns of the bar that shows the memory budget.
const BAR_WIDTH: usize = 24;

/// Returns `status`, which was received `age` ago. Every line ends with a newline.
pub fn text(status: &Status, age: Duration, layout: Layout) -> String {
    let mut rows = Rows::new(LABEL_WIDTH, layout);
    let (paused, none) = match status.is_paused {
        true => ("questions wait; `transom resume` continues", "none loaded"),
        false => ("", "none loaded; the next question loads one"),
    };
    rows.row("paused", paused);
    if status.models.is_empty() {
        rows.row("model", none);
    }
    for model in &status.models {
        add_model(model, age, &mut rows);
    }
    let (used, budget) = (status.in_use_bytes, status.budget_bytes);
    let bar = bar(used, budget, BAR_WIDTH);
    rows.row("budget", &format!("{bar}  {}", of_memory(used, budget)));
    let running: Vec<String> = status.running.iter().map(request_text).collect();
    rows.row("running", &running.join("\n"));
    rows.row("queue", &queue_text(status));
    rows.row("signals", &signals_text(&status.signals));
    rows.row("limits", &limits_text(&status.restrictions));
    if status.keeps_awake {
        let text = "the computer is kept awake until the response is complete";
        rows.row("awake", text);
    }
    if let Some(record) = &status.last_unload {
        let reason = unload_reason_text(record.why);
        let text = format!("{}: {reason}\n{}", record.name, unload_text(record));
        rows.row("last unload", &text);
    }
    rows.row("last error", status.last_error.as_deref().unwrap_or(""));
    rows.row("process", &status.process_id.to_string());
    rows.finish()
}

fn add_model(model: &ModelStatus, age: Duration, rows: &mut Rows) {
    rows.row("model", &format!("{}: {}", model.name, phase_text(model)));
    if let Some(info) = &model.info {
        let parameters = parameters_text(info.n_parameters);
        let description = format!(
            "{}, {parameters} parameters, {}; context of {} tokens",
            info.architecture, info.stored_as, info.context_length
        );
        rows.row("", &description);
        let load_time = model.load_time.map(seconds);
        let load_time = load_time.map_or(String::new(), |time| format!(", loaded in {time}"));
        rows.row("", &(runs_text(info) + &load_time));
    }
    for form in &model.passed_over {
        rows.row("", &passed_over_text(form));
    }
    if model.saved_tokens > 0 {
        let n_tokens = model.saved_tokens;
        rows.row("", &format!("found a saved KV cache of {n_tokens} tokens"));
    }
    let mut memory = match &model.memory {
        Some(in_use) => memory_use_text(in_use, model.footprint_bytes),
        None => Vec::new(),
    };
    if let Some(need) = &model.need {
        let (bytes, length) = (memory_text(need.total_bytes()), need.context_length);
        let others = match need.parked_bytes {
            0 => "",
            _ => " and for other conversations",
        };
        memory.push(format!(
            "{bytes} reserved, for a full context of {length} tokens{others}"
        ));
    }
    rows.row("memory", &memory.join("\n"));
    if let Some(time) = model.unloads_in {
        let left = rough_time(time.saturating_sub(age));
        rows.row("unloads in", &format!("{left}, unless it is used"));
    }
}

fn phase_text(model: &ModelStatus) -> String {
    let text = match &model.phase {
        PhaseStatus::Measuring => "reading its files",
        PhaseStatus::WaitingForRoom => "waiting until another model is unloaded",
        PhaseStatus::Loading { progress } => match progress.and_then(percent) {
            Some(percent) => return format!("loading, {percent} %"),
            None => "loading",
        },
        PhaseStatus::Ready => match model.n_answered {
            0 => "ready",
            1 => "ready, 1 response",
            n => return format!("ready, {n} responses"),
        },
        PhaseStatus::Generating { is_stopping, .. } => match is_stopping {
            true => "stopping the response",
            false => "generating",
        },
        PhaseStatus::Unloading { why } => {
            return format!("unloading: {}", unload_reason_text(*why));
        }
    };
    text.to_owned()
}

fn queue_text(status: &Status) -> String {
    if status.queue.is_empty() {
        return "empty".to_owned();
    }
    let waiting = [format!("{} waiting", status.queue.len())].into_iter();
    let lines: Vec<String> = waiting
        .chain(status.queue.iter().map(request_text))
        .collect();
    lines.join("\n")
}

/// Returns who asks for what, and how far it is.
fn request_text(request: &RequestStatus) -> String {
    let rank = match request.class {
        Class::Interactive => "",
        Class::Background => " (background)",
    };
    let state = match &request.state {
        RequestState::Queued => String::new(),
        RequestState::Prefill { total: 0, .. } => ", starting".to_owned(),
        RequestState::Prefill { done, total } => format!(", prompt {done} of {total} tokens"),
        RequestState::Generating {
            tokens,
            tokens_per_second,
        } => match tokens_per_second {
            Some(rate) => format!(", {tokens} tokens, {} tok/s", rate_text(*rate)),
            None => format!(", {tokens} tokens"),
        },
        RequestState::Stopping => ", stopping".to_owned(),
    };
    format!("{}{rank}: {}{state}", request.client, request.model)
}
