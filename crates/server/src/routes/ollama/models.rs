//! `/api/version`, `/api/tags`, `/api/ps` and `/api/show`: the server and its models.

use axum::response::Response;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::door::Caller;
use crate::error::ApiError;
use crate::ids::unix_seconds;
use crate::json::Fields;
use crate::models::{ListedModel, context_length, loaded_info};
use crate::routes::json_response;
use crate::routes::models::rfc3339;

/// The version of Ollama whose protocol this is. Clients refuse servers that are older than what they
/// need.
const OLLAMA_VERSION: &str = "0.12.6";

/// `GET /api/version`
pub(super) async fn version() -> Response {
    json_response(&json!({ "version": OLLAMA_VERSION }))
}

/// `GET /api/tags`: the installed models.
pub(super) async fn tags(caller: Caller) -> Result<Response, ApiError> {
    let models = caller.state.models.list().await?;
    let models: Vec<Value> = models.iter().map(entry).collect();
    Ok(json_response(&json!({ "models": models })))
}

/// `GET /api/ps`: the loaded models.
pub(super) async fn running(caller: Caller) -> Result<Response, ApiError> {
    let listed = caller.state.models.list().await?;
    let status = caller.state.supervisor().current_status().await;
    let loaded = status.models.iter().filter_map(|model| {
        let info = model.info.as_ref()?;
        let mut entry = entry(listed.iter().find(|listed| listed.id == model.id)?);
        let bytes = model.memory.map_or(0, |memory| memory.total_bytes());
        entry["size"] = bytes.into();
        // Macs have one memory.
        entry["size_vram"] = bytes.into();
        entry["context_length"] = info.context_length.into();
        if let Some(time) = model.unloads_in {
            entry["expires_at"] = rfc3339(unix_seconds() + time.as_secs()).into();
        }
        Some(entry)
    });
    let loaded: Vec<Value> = loaded.collect();
    Ok(json_response(&json!({ "models": loaded })))
}

/// `POST /api/show`
pub(super) async fn show(caller: Caller, mut body: Fields) -> Result<Response, ApiError> {
    let state = &caller.state;
    // `name` is the older word.
    let older = body.take("name");
    let name = body.required("model").or_else(|error| older.ok_or(error))?;
    for field in ["verbose", "system", "template"] {
        body.refuse(field, &[])?;
    }
    body.finish();
    let model = state.models.listed(&name.text()?).await?;
    let status = state.supervisor().status().borrow().clone();
    let context_length = context_length(&model, loaded_info(&status, &model.id));
    let architecture = &model.architecture;
    let mut capabilities = vec![if model.is_embedder {
        "embedding"
    } else {
        "completion"
    }];
    if model.chat_template.is_some() && !model.is_embedder {
        capabilities.push("tools");
    }
    if model.may_reason() {
        capabilities.push("thinking");
    }
    Ok(json_response(&json!({
        "modelfile": "",
        "parameters": format!("num_ctx {context_length}"),
        "template": model.chat_template.as_deref().unwrap_or(""),
        "details": details(&model),
        "model_info": {
            "general.architecture": architecture,
            "general.basename": model.title,
            "general.parameter_count": model.n_parameters,
            (format!("{architecture}.context_length")): model.trained_context,
            (format!("{architecture}.embedding_length")): model.hidden_size,
        },
        "capabilities": capabilities,
        "modified_at": rfc3339(model.created),
    })))
}

/// Returns a model in a list.
fn entry(model: &ListedModel) -> Value {
    json!({
        "name": model.name,
        "model": model.name,
        "modified_at": rfc3339(model.created),
        "size": model.size_bytes,
        "digest": digest(model),
        "details": details(model),
    })
}

fn details(model: &ListedModel) -> Value {
    json!({
        "parent_model": "",
        "format": model.format,
        "family": model.architecture,
        "families": [model.architecture],
        "parameter_size": parameter_size(model.n_parameters),
        "quantization_level": model.quantization,
    })
}

/// Returns 64 hexadecimal digits that change with the model's files. To read gigabytes for the digest
/// of their content would take too long.
fn digest(model: &ListedModel) -> String {
    let identity = format!("{}\n{}\n{}", model.name, model.size_bytes, model.created);
    let digest = Sha256::digest(identity.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a number of parameters as people write it: `1.7B`, `270M`.
fn parameter_size(n_parameters: u64) -> String {
    let millions = n_parameters as f64 / 1e6;
    match millions < 999.5 {
        true => format!("{millions:.0}M"),
        false => format!("{:.1}B", millions / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_counted_in_millions_and_billions() {
        assert_eq!(parameter_size(268_000_000), "268M");
        assert_eq!(parameter_size(999_900_000), "1.0B");
        assert_eq!(parameter_size(1_720_000_000), "1.7B");
        assert_eq!(parameter_size(120_000_000_000), "120.0B");
    }
}
