//! The routes, one file for each family.
//!
//! Rule: a path without a route, and a method that a route lacks, are errors in the form of the
//! path's protocol. [`crate::door`] is around all of them.

mod anthropic;
mod chat;
mod chunks;
mod completions;
mod content;
mod embeddings;
mod health;
pub(crate) mod inputs;
pub(crate) mod keep_alive;
pub(crate) mod logprobs;
mod models;
mod ollama;
pub(crate) mod openai;
mod responses;
mod status;
mod tokens;
mod tools;

pub(crate) use health::GREETING;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::Value;

use crate::door;
use crate::error::{ApiError, ErrorKind};
use crate::state::ServerState;

/// Returns all routes behind the door.
pub(crate) fn router(state: Arc<ServerState>) -> Router {
    Router::new()
        .route("/", get(health::root))
        .route("/health", get(health::health))
        .route("/v1/chat/completions", post(chat::complete))
        .route("/v1/chat/completions/input_tokens", post(chat::count))
        .route("/v1/completions", post(completions::complete))
        .route("/v1/embeddings", post(embeddings::embeddings))
        .route("/v1/responses", post(responses::respond))
        .route("/v1/responses/input_tokens", post(responses::count))
        .route(
            "/v1/responses/{id}",
            get(responses::stored).delete(responses::stored),
        )
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*name}", get(models::one))
        .route("/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .route("/v1/status", get(status::status))
        .route("/metrics", get(status::metrics))
        .merge(anthropic::routes())
        .merge(ollama::routes())
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(state, door::pass))
}

async fn not_found() -> ApiError {
    let message = "there is no such route; docs/api.md lists the routes";
    ApiError::new(StatusCode::NOT_FOUND, ErrorKind::NotFound, message)
}

async fn wrong_method(headers: HeaderMap) -> ApiError {
    let upgrade = headers.get(header::UPGRADE);
    let upgrade = upgrade.and_then(|protocol| protocol.to_str().ok());
    if upgrade.is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket")) {
        // Some clients try this first, and send their request with POST after this status.
        let (status, kind) = (StatusCode::UPGRADE_REQUIRED, ErrorKind::InvalidRequest);
        let message = "this server has no WebSockets; send the request with POST";
        return ApiError::new(status, kind, message);
    }
    let (status, kind) = (StatusCode::METHOD_NOT_ALLOWED, ErrorKind::InvalidRequest);
    let message = "this route has another method; the header `allow` names it";
    ApiError::new(status, kind, message)
}

/// Returns a response with this JSON.
pub(crate) fn json_response(value: &Value) -> Response {
    json_text(value.to_string())
}

/// Returns a response with this text, which is JSON.
pub(crate) fn json_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
