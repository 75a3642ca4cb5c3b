//! `/api/embed` and the older `/api/embeddings`: the vectors of texts.

use axum::response::Response;
use serde_json::{Value, json};
use tokio::time::Instant;
use transom_engine::EmbedInput;

use super::request::TOLERATED_OPTIONS;
use crate::door::Caller;
use crate::error::ApiError;
use crate::generation::Embedded;
use crate::json::Fields;
use crate::routes::embeddings::{EmbedRequest, Inputs, MAX_INPUTS};
use crate::routes::json_response;

/// `POST /api/embed`
pub(super) async fn embed_texts(caller: Caller, body: Fields) -> Result<Response, ApiError> {
    let began = Instant::now();
    let (model, embedded) = embed(&caller, body, "input").await?;
    Ok(json_response(&json!({
        "model": model,
        "embeddings": embedded.vectors,
        "total_duration": u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
        "load_duration": 0,
        "prompt_eval_count": embedded.n_tokens,
    })))
}

/// `POST /api/embeddings`
pub(super) async fn embed_prompt(caller: Caller, body: Fields) -> Result<Response, ApiError> {
    let (_, embedded) = embed(&caller, body, "prompt").await?;
    let first = embedded.vectors.first();
    let vector = first.map_or_else(|| json!([]), |vector| json!(vector));
    Ok(json_response(&json!({ "embedding": vector })))
}

/// Embeds the texts in `field`. Returns the name of the model too.
///
/// # Errors
/// A field is missing, wrong, or not supported.
async fn embed(
    caller: &Caller,
    mut body: Fields,
    field: &'static str,
) -> Result<(String, Embedded), ApiError> {
    let (mut texts, mut is_list) = (Vec::new(), false);
    if let Some(given) = body.take(field) {
        is_list = given.value.is_array();
        texts = match (field, &given.value) {
            ("input", _) => given.text_or_texts(MAX_INPUTS)?,
            (_, Value::String(_)) => vec![given.text()?],
            _ => return Err(given.must_be("a string")),
        };
    }
    if texts.len() == 1 && texts.first().is_some_and(String::is_empty) {
        // Clients load a model so.
        texts.clear();
    }
    // A text that is too long is an error in any case, and never cut in silence.
    body.flag("truncate")?;
    let mut context_length = None;
    if let Some(mut options) = body.object("options")? {
        options.tolerate(&TOLERATED_OPTIONS);
        context_length = options.count("num_ctx", 1)?;
        options.finish();
    }
    let inputs = Inputs {
        inputs: texts.into_iter().map(EmbedInput::Text).collect(),
        field,
        is_list,
    };
    let request = EmbedRequest::take(&mut body, inputs)?;
    body.finish();
    request.run(caller, context_length).await
}
