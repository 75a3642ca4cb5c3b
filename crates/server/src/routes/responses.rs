//! `POST /v1/responses` and the routes below it: OpenAI's newer API, without a store.
//!
//! Rule: nothing of a request is kept, so what needs an earlier response is refused by name. A whole
//! response and a stream come from the same [`output::ResponseObject`].

mod input;
mod output;
mod request;
mod stream;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use transom_engine::Prompt;
use transom_library::default_thinking;

use super::json_response;
use super::openai::blame;
use crate::door::Caller;
use crate::error::{ApiError, ErrorKind};
use crate::generation::{Generation, Job, count_tokens};
use crate::json::Fields;
use crate::models::Model;
use output::ResponseObject;
use request::ResponsesRequest;
use stream::ResponsesStream;

/// The field of the prompt.
const INPUT: &str = "input";

/// `POST /v1/responses`
pub(super) async fn respond(caller: Caller, fields: Fields) -> Result<Response, ApiError> {
    let request = ResponsesRequest::read(fields)?;
    let model = find(&caller, &request).await?;
    let job = Job {
        model,
        prompts: vec![Prompt::Chat(request.prompt)],
        n: 1,
        params: request.params,
        truncation: request.truncation,
    };
    let mut generation = Generation::start(job, caller);
    let mut object = ResponseObject::new(generation.model_name(), request.repeated);
    let blame = |error| blame(error, INPUT);
    if request.is_streamed {
        let response = crate::stream::respond(generation, ResponsesStream::new(object)).await;
        return response.map_err(blame);
    }
    while let Some(event) = generation.next().await.map_err(blame)? {
        object.add(&event);
    }
    object.set_sampling(generation.sampling());
    Ok(json_response(&object.view()))
}

/// `POST /v1/responses/input_tokens`: the number of tokens of a request, without a response.
pub(super) async fn count(caller: Caller, mut fields: Fields) -> Result<Response, ApiError> {
    fields.refuse("stream", &[])?;
    let request = ResponsesRequest::read(fields)?;
    let model = find(&caller, &request).await?;
    let (prompt, keep_alive) = (Prompt::Chat(request.prompt), request.params.keep_alive);
    let count = count_tokens(&model, prompt, &caller, keep_alive).await;
    let count = count.map_err(|error| blame(error, INPUT))?;
    let response = json!({ "object": "response.input_tokens", "input_tokens": count });
    Ok(json_response(&response))
}

/// `GET` and `DELETE /v1/responses/{id}`
pub(super) async fn stored() -> ApiError {
    let message = "responses are not stored here, so none can be fetched or deleted later";
    ApiError::new(StatusCode::NOT_FOUND, ErrorKind::NotFound, message)
}

/// Returns the model of a request.
async fn find(caller: &Caller, request: &ResponsesRequest) -> Result<Model, ApiError> {
    let model = caller.state.find_model(&request.model, None).await?;
    let facts = model.installed.facts.as_ref().ok();
    if request.has_effort && facts.and_then(|facts| default_thinking(facts)).is_none() {
        // The model reasons always, or never.
        caller.ignored.add("reasoning.effort");
    }
    Ok(model)
}
