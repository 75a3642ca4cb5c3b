//! `GET /health` and `GET /`: whether the server runs. They need no key and tell nothing else.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;
use transom_supervisor::Status;
use transom_supervisor::status::PhaseStatus;

use super::json_response;
use crate::state::ServerState;

/// `GET /`
pub(super) async fn root() -> &'static str {
    "Transom is running"
}

/// `GET /health`
pub(super) async fn health(State(state): State<Arc<ServerState>>) -> Response {
    let status = state.supervisor().status().borrow().clone();
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
