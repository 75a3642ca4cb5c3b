//! `GET /v1/models` and `GET /v1/models/{name}`: the installed models.
//!
//! Clients that send `anthropic-version` get the list in Anthropic's form.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::HeaderMap;
use axum::response::Response;
use jiff::Timestamp;
use serde_json::{Value, json};
use transom_engine::ModelInfo;

use super::json_response;
use crate::door::Caller;
use crate::error::{ApiError, Protocol};
use crate::models::{ListedModel, context_length, loaded_info};
use crate::state::ServerState;

/// `GET /v1/models`
pub(super) async fn list(caller: Caller, headers: HeaderMap) -> Result<Response, ApiError> {
    let models = caller.state.models.list().await?;
    let protocol = Protocol::of("/v1/models", &headers);
    let views = models
        .iter()
        .map(|model| view(&caller.state, protocol, model));
    let views: Vec<Value> = views.collect();
    let body = match protocol {
        Protocol::Anthropic => json!({
            "first_id": models.first().map(|model| &model.name),
            "last_id": models.last().map(|model| &model.name),
            "has_more": false,
            "data": views,
        }),
        Protocol::OpenAi | Protocol::Ollama => json!({ "object": "list", "data": views }),
    };
    Ok(json_response(&body))
}

/// `GET /v1/models/{name}`
pub(super) async fn one(
    caller: Caller,
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let not_text = |_| ApiError::field("model", "the name of the model is not UTF-8 text");
    let Path(name) = name.map_err(not_text)?;
    let model = caller.state.models.listed(&name).await?;
    let protocol = Protocol::of("/v1/models", &headers);
    Ok(json_response(&view(&caller.state, protocol, &model)))
}

fn view(state: &ServerState, protocol: Protocol, model: &ListedModel) -> Value {
    let status = state.supervisor().status().borrow().clone();
    let loaded = loaded_info(&status, &model.id);
    match protocol {
        Protocol::Anthropic => json!({
            "type": "model",
            "id": model.name,
            "display_name": model.title,
            "created_at": rfc3339(model.created),
        }),
        Protocol::OpenAi | Protocol::Ollama => openai_view(model, loaded),
    }
}

fn openai_view(model: &ListedModel, loaded: Option<&ModelInfo>) -> Value {
    let context_length = context_length(model, loaded);
    let template = model.chat_template.as_deref().unwrap_or("");
    json!({
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "transom",
        "name": model.title,
        "context_length": context_length,
        "max_model_len": context_length,
        "loaded": loaded.is_some(),
        "quantization": model.quantization,
        "architecture": model.architecture,
        "capabilities": {
            "chat": !template.is_empty() && !model.is_embedder,
            "completion": !model.is_embedder,
            "structured_output": !model.is_embedder,
            "tools": !template.is_empty() && !model.is_embedder,
            "vision": false,
            "reasoning": model.may_reason(),
            "embeddings": model.is_embedder,
        },
        "meta": {
            "n_ctx_train": model.trained_context,
            "n_params": model.n_parameters,
            "size": model.size_bytes,
        },
    })
}

/// Returns a time in seconds since 1970 as text: `2026-08-20T16:49:53Z`.
pub(super) fn rfc3339(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or_default();
    let time = Timestamp::from_second(seconds).unwrap_or_default();
    time.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_787_244_593), "2026-08-20T16:49:53Z");
    }
}
