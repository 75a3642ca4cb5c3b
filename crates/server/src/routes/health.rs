//! `GET /health` and `GET /`: whether the server runs. They need no key and tell nothing else.

use axum::http::{HeaderMap, header};
use axum::response::Response;
use serde_json::json;
use transom_supervisor::Status;
use transom_supervisor::status::PhaseStatus;

use super::json_response;
use crate::door::{Caller, is_local};

/// What `GET /` returns, by which another program of Transom knows this server.
pub(crate) const GREETING: &str = "Transom is running";

/// `GET /`: at Ollama's port the words by which its clients know that it runs.
pub(super) async fn root(caller: Caller, headers: HeaderMap) -> &'static str {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let is_at = |port: u16| host.is_some_and(|host| is_local(host, port));
    match caller.state.ollama_port.is_some_and(is_at) {
        true => "Ollama is running",
        false => GREETING,
    }
}

/// `GET /health`
pub(super) async fn health(caller: Caller) -> Response {
    let status = caller.state.supervisor().status().borrow().clone();
    json_response(&json!({ "status": word(&status) }))
}

/// Returns the state in one word.
fn word(status: &Status) -> &'static str {
    let is_loading = |phase: &PhaseStatus| {
        matches!(
            phase,
            PhaseStatus::Measuring | PhaseStatus::WaitingForRoom | PhaseStatus::Loading { .. }
        )
    };
    if status.restrictions.blocked_by.is_some() {
        "hot"
    } else if status.models.iter().any(|model| is_loading(&model.phase)) {
        "loading"
    } else {
        "ok"
    }
}
