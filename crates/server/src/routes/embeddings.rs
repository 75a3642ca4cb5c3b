//! `POST /v1/embeddings`: the vectors of texts.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use transom_engine::EmbedInput;
use transom_library::LoadSettings;

use super::{inputs, json_response, keep_alive, name_ignored};
use crate::door::Caller;
use crate::embedding::{Dimensions, Side, cut};
use crate::error::ApiError;
use crate::generation::{Embedded, blame_input, embed};
use crate::json::{Fields, Ignored};
use crate::state::ServerState;

/// Most inputs of a request.
pub(super) const MAX_INPUTS: usize = 256;

const INPUT: &str = "input";

/// `POST /v1/embeddings`
pub(super) async fn embeddings(
    State(state): State<Arc<ServerState>>,
    Extension(caller): Extension<Caller>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let mut ignored = Ignored::default();
    let name = fields.required("model")?.text()?;
    let input = fields.required(INPUT)?;
    let is_list = input.value.as_array().is_some_and(|values| {
        let first = values.first();
        first.is_some_and(|first| !first.is_number())
    });
    let mut inputs = inputs::take(input, MAX_INPUTS)?;
    let empty = EmbedInput::Text(String::new());
    if let Some(index) = inputs.iter().position(|input| *input == empty) {
        let path = match is_list {
            true => format!("{INPUT}[{index}]"),
            false => INPUT.to_owned(),
        };
        let message = format!("`{path}` must be a text that is not empty");
        return Err(ApiError::field(path, message));
    }
    let formats = [("float", false), ("base64", true)];
    let is_base64 = fields.take("encoding_format");
    let is_base64 = is_base64
        .map(|format| format.choice(&formats))
        .transpose()?;
    let dimensions = Dimensions::take(&mut fields);
    let side = Side::take(&mut fields)?;
    let keep_alive = keep_alive::take(&mut fields)?;
    for name in ["truncate_prompt_tokens", "normalize", "embd_normalize"] {
        // Vectors always have length 1, which is the norm 2.
        fields.refuse(name, &[json!(true), json!(2)])?;
    }
    fields.tolerate(&["user"]);
    fields.finish(&mut ignored);
    let settings = LoadSettings::default();
    let model = state.models.find_embedder(&name, settings).await?;
    let dimensions = dimensions.of(&model)?;
    side.add_prefix(&model, &mut inputs, &mut ignored);
    let embedded = embed(&state, &model, inputs, caller.client(), keep_alive).await;
    let embedded = embedded.map_err(|error| blame_input(error, INPUT, is_list))?;
    let body = body(
        &model.name,
        embedded,
        dimensions,
        is_base64.unwrap_or(false),
    );
    Ok(name_ignored(json_response(&body), &ignored))
}

fn body(model: &str, embedded: Embedded, dimensions: Option<usize>, is_base64: bool) -> Value {
    let vectors = embedded.vectors.into_iter().enumerate();
    let data = vectors.map(|(index, mut vector)| {
        cut(&mut vector, dimensions);
        let embedding = match is_base64 {
            true => {
                let bytes = vector.iter().flat_map(|value| value.to_le_bytes());
                Value::String(STANDARD.encode(bytes.collect::<Vec<u8>>()))
            }
            false => json!(vector),
        };
        json!({ "object": "embedding", "index": index, "embedding": embedding })
    });
    json!({
        "object": "list",
        "data": data.collect::<Vec<_>>(),
        "model": model,
        "usage": {
            "prompt_tokens": embedded.n_tokens,
            "total_tokens": embedded.n_tokens,
        },
    })
}
