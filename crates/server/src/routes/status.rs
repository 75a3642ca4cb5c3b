//! `GET /v1/status` and `GET /metrics`: what the supervisor and this server do.
//!
//! Rule: both contain names of models, numbers and states, but no path, which a model's id or an
//! error can be.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Duration, timeout};
use transom_library::is_path;
use transom_supervisor::Status;
use transom_supervisor::status::{ModelStatus, RequestStatus};

use super::json_response;
use crate::door::Caller;
use crate::limits::READER_TIMEOUT;
use crate::metrics::{family, single};
use crate::state::ServerState;
use crate::stream::{Frames, SSE, response};

/// Time without a change after which the stream of the status gets a comment.
const STATUS_HEARTBEAT: Duration = Duration::from_secs(15);

/// Unread snapshots of the status; a newer one replaces those that were not sent yet.
const MAX_UNREAD: usize = 2;

/// `GET /v1/status`: a snapshot, or with `Accept: text/event-stream` each change.
pub(super) async fn status(caller: Caller, headers: HeaderMap) -> Response {
    let accepted = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    if accepted.is_some_and(|accepted| accepted.contains("text/event-stream")) {
        let (frames, receiver) = mpsc::channel(MAX_UNREAD);
        tokio::spawn(watch(caller.state, frames));
        return response(SSE, receiver);
    }
    let status = caller.state.supervisor().current_status().await;
    json_response(&view(&caller.state, &status))
}

/// Sends the status and its changes until the reader leaves or the supervisor is gone.
async fn watch(state: Arc<ServerState>, frames: mpsc::Sender<Bytes>) {
    let mut statuses = state.supervisor().status();
    loop {
        let status = statuses.borrow_and_update().clone();
        let mut out = Frames::default();
        out.event("status", &view(&state, &status));
        loop {
            let sent = timeout(READER_TIMEOUT, frames.send(out.take())).await;
            if !matches!(sent, Ok(Ok(()))) {
                return;
            }
            let changed = tokio::select! {
                () = frames.closed() => return,
                changed = timeout(STATUS_HEARTBEAT, statuses.changed()) => changed,
            };
            match changed {
                Ok(Ok(())) => break,
                Ok(Err(_)) => return,
                Err(_) => out.comment("no change"),
            }
        }
    }
}

fn view(state: &ServerState, status: &Status) -> Value {
    let models: Vec<Value> = status.models.iter().map(model_view).collect();
    let limits = status.restrictions.limits.iter();
    let limits: Vec<String> = limits.map(ToString::to_string).collect();
    let blocked_by = status.restrictions.blocked_by.as_ref();
    json!({
        "revision": status.revision,
        "models": models,
        "queue": status.queue.len(),
        "jobs": status.running.iter().chain(&status.queue).map(job_view).collect::<Vec<_>>(),
        "requests": state.metrics.n_open(),
        "budget_bytes": status.budget_bytes,
        "in_use_bytes": status.in_use_bytes,
        "signals": status.signals,
        "limits": limits,
        "blocked_by": blocked_by.map(ToString::to_string),
        "is_paused": status.is_paused,
    })
}

/// Returns a running or queued request: who asks, and its tokens and rate. A client of this server has
/// the name of its key, after `api:`.
fn job_view(job: &RequestStatus) -> Value {
    json!({
        "client": job.client.to_string(),
        "class": job.class,
        "model": job.model,
        "state": job.state,
    })
}

fn model_view(model: &ModelStatus) -> Value {
    let context_length = model.info.as_ref().map(|info| info.context_length);
    json!({
        "id": name_of(model),
        "name": model.name,
        "state": model.phase,
        "engine": model.info.as_ref().map(|info| &info.engine),
        "context_length": context_length,
        "memory_bytes": model.memory.as_ref().map(|memory| memory.total_bytes()),
        "footprint_bytes": model.footprint_bytes,
        "load_seconds": model.load_time.map(|time| time.as_secs_f64()),
        "unloads_in_seconds": model.unloads_in.map(|time| time.as_secs_f64()),
        "responses": model.n_answered,
    })
}

/// Returns the id of a model, or its name if the id is a path.
fn name_of(model: &ModelStatus) -> &str {
    match is_path(&model.id) {
        true => &model.name,
        false => &model.id,
    }
}

/// `GET /metrics`
pub(super) async fn metrics(caller: Caller) -> Response {
    let metrics = &caller.state.metrics;
    let status = caller.state.supervisor().current_status().await;
    let signals = status.signals;
    let loaded = status.models.iter().map(|model| {
        let plain = |c: char| !c.is_control() && c != '"' && c != '\\';
        let name: String = name_of(model).chars().filter(|c| plain(*c)).collect();
        let is_loaded = f64::from(u8::from(model.info.is_some()));
        (format!("model_loaded{{model=\"{name}\"}}"), is_loaded)
    });
    let gauge = |name: &str, help: &str, value: u64| single(name, "gauge", help, value);
    let text = [
        metrics.text(),
        gauge(
            "queue_depth",
            "Waiting requests.",
            status.queue.len() as u64,
        ),
        gauge(
            "open_requests",
            "Open requests of this server.",
            metrics.n_open(),
        ),
        gauge("memory_bytes", "Memory of models.", status.in_use_bytes),
        gauge(
            "memory_budget_bytes",
            "Memory that models may use.",
            status.budget_bytes,
        ),
        gauge(
            "memory_pressure",
            "0 normal, 1 warning, 2 critical.",
            signals.memory as u64,
        ),
        gauge(
            "thermal_state",
            "0 nominal to 3 critical.",
            signals.thermal as u64,
        ),
        family("model_loaded", "gauge", "1 if loaded.", loaded),
    ]
    .concat();
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}
