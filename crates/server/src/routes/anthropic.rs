//! `POST /v1/messages` and `POST /v1/messages/count_tokens`: Anthropic's protocol.
//!
//! Rule: the text of a stream is the text of the whole message, and both say in the same way why the
//! response ended.

mod message;
mod request;
mod stream;
mod tool_blocks;

use axum::Router;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use serde_json::json;
use transom_engine::{Prompt, Truncation};

use super::json_response;
use crate::door::Caller;
use crate::error::ApiError;
use crate::generation::{Generation, Job, count_tokens};
use crate::json::{Fields, Ignored};
use crate::models::Model;
use crate::stream::respond;

use message::MessageForm;
use request::{MessagePrompt, MessageRequest};
use stream::MessageStream;

/// The versions of the protocol that responses have the form of. An older one had other streams.
const VERSIONS: [&str; 2] = ["2023-06-01", "2026-10-21"];

/// The header with the version that a client asks for.
const VERSION_HEADER: &str = "anthropic-version";

/// Returns the routes of Anthropic's protocol.
pub(super) fn routes() -> Router {
    Router::new()
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count))
}

/// `POST /v1/messages`
async fn messages(caller: Caller, headers: HeaderMap, body: Fields) -> Result<Response, ApiError> {
    let request = MessageRequest::read(body)?;
    check_version(&headers, &caller.ignored)?;
    let model = find(&caller, &request.conversation).await?;
    let form = MessageForm::new(&model.name, &request);
    let job = Job {
        model,
        prompts: vec![Prompt::Chat(request.conversation.chat)],
        n: 1,
        params: request.params,
        truncation: Truncation::Disabled,
    };
    let request_id = caller.request_id.clone();
    let mut generation = Generation::start(job, caller);
    if request.is_streamed {
        return respond(generation, MessageStream::new(form, request_id)).await;
    }
    let collected = generation.collect().await?;
    Ok(json_response(&form.whole(collected.only_choice()?)))
}

/// `POST /v1/messages/count_tokens`
async fn count(caller: Caller, headers: HeaderMap, mut body: Fields) -> Result<Response, ApiError> {
    let conversation = MessagePrompt::read(&mut body)?;
    check_version(&headers, &caller.ignored)?;
    body.finish();
    let model = find(&caller, &conversation).await?;
    let prompt = Prompt::Chat(conversation.chat);
    let input_tokens = count_tokens(&model, prompt, &caller, None).await?;
    Ok(json_response(&json!({ "input_tokens": input_tokens })))
}

/// Finds the model. Notes `thinking` as ignored if it is on and the model can't reason, because
/// clients turn it on for every model.
async fn find(caller: &Caller, conversation: &MessagePrompt) -> Result<Model, ApiError> {
    let state = &caller.state;
    let model = state.find_model(&conversation.model, None).await?;
    let wants_thinking = conversation.chat.enable_thinking == Some(true);
    if wants_thinking && !state.models.listed(&model.name).await?.may_reason() {
        caller.ignored.add("thinking");
    }
    Ok(model)
}

/// Checks the version that a client asks for. Clients of other servers send none. A newer one than
/// this server knows is noted as ignored, because new clients would else stop working.
fn check_version(headers: &HeaderMap, ignored: &Ignored) -> Result<(), ApiError> {
    let Some(version) = headers.get(VERSION_HEADER) else {
        return Ok(());
    };
    let [oldest, newest] = VERSIONS;
    let version = version.to_str().unwrap_or_default();
    if VERSIONS.contains(&version) {
        return Ok(());
    }
    if is_date(version) && version > newest {
        ignored.add(VERSION_HEADER);
        return Ok(());
    }
    Err(ApiError::field(
        VERSION_HEADER,
        format!("the header `{VERSION_HEADER}` must be `{oldest}` or `{newest}`"),
    ))
}

/// Returns true for digits in the form of `2023-06-01`.
fn is_date(text: &str) -> bool {
    let is_right = |(index, byte): (usize, u8)| match index {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    text.len() == 10 && text.bytes().enumerate().all(is_right)
}
