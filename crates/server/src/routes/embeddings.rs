//! `POST /v1/embeddings`: the vectors of texts.

use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use transom_engine::EmbedInput;
use transom_supervisor::KeepAlive;

use super::{inputs, json_response, keep_alive};
use crate::door::Caller;
use crate::embedding::{Dimensions, Side, cut};
use crate::error::ApiError;
use crate::generation::{Embedded, blame_input, embed};
use crate::json::Fields;

/// Most inputs of a request.
pub(super) const MAX_INPUTS: usize = 256;

/// The inputs of a request, and what Ollama's protocol has for their vectors too.
pub(super) struct Inputs {
    pub(super) inputs: Vec<EmbedInput>,
    /// The field of the inputs.
    pub(super) field: &'static str,
    pub(super) is_list: bool,
}

/// A request for vectors, checked.
pub(super) struct EmbedRequest {
    model: String,
    inputs: Inputs,
    dimensions: Dimensions,
    side: Side,
    keep_alive: Option<KeepAlive>,
}

impl EmbedRequest {
    /// Takes the fields that both protocols have.
    ///
    /// # Errors
    /// A field is wrong, or an input is empty.
    pub(super) fn take(fields: &mut Fields, inputs: Inputs) -> Result<Self, ApiError> {
        let empty = EmbedInput::Text(String::new());
        if let Some(index) = inputs.inputs.iter().position(|input| *input == empty) {
            let path = match inputs.is_list {
                true => format!("{}[{index}]", inputs.field),
                false => inputs.field.to_owned(),
            };
            let message = format!("`{path}` must be a text that is not empty");
            return Err(ApiError::field(path, message));
        }
        Ok(Self {
            model: fields.required("model")?.text()?,
            inputs,
            dimensions: Dimensions::take(fields),
            side: Side::take(fields)?,
            keep_alive: keep_alive::take(fields)?,
        })
    }

    /// Embeds the inputs with the model, loaded with this context length. Returns its name too.
    pub(super) async fn run(
        self,
        caller: &Caller,
        context_length: Option<usize>,
    ) -> Result<(String, Embedded), ApiError> {
        let models = &caller.state.models;
        let model = models.find_embedder(&self.model, context_length).await?;
        let dimensions = self.dimensions.of(&model)?;
        let Inputs {
            mut inputs,
            field,
            is_list,
        } = self.inputs;
        self.side.add_prefix(&model, &mut inputs, &caller.ignored);
        let embedded = embed(&model, inputs, caller, self.keep_alive).await;
        let mut embedded = embedded.map_err(|error| blame_input(error, field, is_list))?;
        for vector in &mut embedded.vectors {
            cut(vector, dimensions);
        }
        Ok((model.name, embedded))
    }
}

/// `POST /v1/embeddings`
pub(super) async fn embeddings(caller: Caller, mut fields: Fields) -> Result<Response, ApiError> {
    let input = fields.required("input")?;
    let first = input.value.as_array().and_then(|values| values.first());
    let inputs = Inputs {
        is_list: first.is_some_and(|first| !first.is_number()),
        inputs: inputs::take(input, MAX_INPUTS)?,
        field: "input",
    };
    let formats = [("float", false), ("base64", true)];
    let is_base64 = fields.choice("encoding_format", &formats)?.unwrap_or(false);
    let request = EmbedRequest::take(&mut fields, inputs)?;
    for name in ["truncate_prompt_tokens", "normalize", "embd_normalize"] {
        // Vectors always have length 1, which is the norm 2.
        fields.refuse(name, &[json!(true), json!(2)])?;
    }
    fields.tolerate(&["user"]);
    fields.finish();
    let (model, embedded) = request.run(&caller, None).await?;
    Ok(json_response(&body(&model, &embedded, is_base64)))
}

fn body(model: &str, embedded: &Embedded, is_base64: bool) -> Value {
    let vectors = embedded.vectors.iter().enumerate();
    let data = vectors.map(|(index, vector)| {
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
