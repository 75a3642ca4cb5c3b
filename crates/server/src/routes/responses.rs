//! `POST /v1/responses` and the routes below it: OpenAI's newer API, without a store.
//!
//! Rule: nothing of a request is kept, so what needs an earlier response is refused by name. A whole
//! response and a stream come from the same [`output::ResponseObject`].

mod input;
mod output;
mod request;
mod stream;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use transom_engine::Prompt;
use transom_library::{LoadSettings, default_thinking};

use super::openai::blame;
use super::{json_response, name_ignored};
use crate::door::Caller;
use crate::error::{ApiError, ErrorKind};
use crate::generation::{Generation, Job, count_tokens};
use crate::json::{Fields, Ignored};
use crate::models::Model;
use crate::state::ServerState;
use output::ResponseObject;
use request::ResponsesRequest;
use stream::ResponsesStream;

/// The field of the prompt.
const INPUT: &str = "input";

/// `POST /v1/responses`
pub(super) async fn respond(
    State(state): State<Arc<ServerState>>,
    Extension(caller): Extension<Caller>,
    fields: Fields,
) -> Result<Response, ApiError> {
    let mut ignored = Ignored::default();
    let request = ResponsesRequest::read(fields, &mut ignored)?;
    let model = find(&state, &request, &mut ignored).await?;
    let job = Job {
        model,
        prompts: vec![Prompt::Chat(request.prompt)],
        n: 1,
        params: request.params,
        truncation: request.truncation,
    };
    let mut generation = Generation::start(state, job, &caller);
    let mut object = ResponseObject::new(generation.model_name(), request.repeated);
    let response = if request.is_streamed {
        let response = crate::stream::respond(generation, ResponsesStream::new(object)).await;
        response.map_err(|error| blame(error, INPUT))?
    } else {
        let blame = |error| blame(error, INPUT);
        while let Some(event) = generation.next().await.map_err(blame)? {
            object.add(&event);
        }
        object.set_sampling(generation.sampling());
        name_ignored(json_response(&object.view()), &generation.ignored_schemas())
    };
    Ok(name_ignored(response, &ignored))
}

/// `POST /v1/responses/input_tokens`: the number of tokens of a request, without a response.
pub(super) async fn count(
    State(state): State<Arc<ServerState>>,
    Extension(caller): Extension<Caller>,
    mut fields: Fields,
) -> Result<Response, ApiError> {
    let mut ignored = Ignored::default();
    fields.refuse("stream", &[])?;
    let request = ResponsesRequest::read(fields, &mut ignored)?;
    let model = find(&state, &request, &mut ignored).await?;
    let (prompt, keep_alive) = (Prompt::Chat(request.prompt), request.params.keep_alive);
    let count = count_tokens(&state, &model, prompt, &caller, keep_alive).await;
    let count = count.map_err(|error| blame(error, INPUT))?;
    let response = json!({ "object": "response.input_tokens", "input_tokens": count });
    Ok(name_ignored(json_response(&response), &ignored))
}

/// `GET` and `DELETE /v1/responses/{id}`
pub(super) async fn stored() -> ApiError {
    let message = "responses are not stored here, so none can be fetched or deleted later";
    ApiError::new(StatusCode::NOT_FOUND, ErrorKind::NotFound, message)
}

/// Returns the model of a request.
async fn find(
    state: &ServerState,
    request: &ResponsesRequest,
    ignored: &mut Ignored,
) -> Result<Model, ApiError> {
    let settings = LoadSettings::default();
    let model = state.find_model(&request.model, settings).await?;
    let facts = model.installed.facts.as_ref().ok();
    if request.has_effort && facts.and_then(|facts| default_thinking(facts)).is_none() {
        // The model reasons always, or never.
        ignored.add("reasoning.effort");
    }
    Ok(model)
}
