//! `POST /v1/chat/completions`: a conversation in OpenAI's form, and the number of its tokens.

mod messages;
mod request;
mod stream;

use axum::response::Response;
use serde_json::{Value, json};
use transom_engine::{Prompt, Truncation};
use transom_library::{default_thinking, knows_names};

use super::chunks::Envelope;
use super::openai::{finish_reason, timings, usage};
use super::{json_response, logprobs, tools};
use crate::door::Caller;
use crate::error::ApiError;
use crate::generation::{Choice, Collected, End, Generation, Job, count_tokens};
use crate::json::Fields;
use crate::models::Model;
use request::ChatRequest;
use stream::ChatStream;

/// `POST /v1/chat/completions`
pub(super) async fn complete(caller: Caller, fields: Fields) -> Result<Response, ApiError> {
    let request = ChatRequest::read(fields)?;
    let model = find(&caller, &request).await?;
    let job = Job {
        model,
        prompts: vec![Prompt::Chat(request.prompt)],
        n: request.n,
        params: request.params,
        truncation: Truncation::Disabled,
    };
    let mut generation = Generation::start(job, caller);
    if request.streaming.is_on {
        let stream = ChatStream::new(generation.model_name(), request.streaming.include_usage);
        return crate::stream::respond(generation, stream).await;
    }
    let collected = generation.collect().await?;
    Ok(json_response(&whole(&generation, &collected)))
}

/// `POST /v1/chat/completions/input_tokens`: the number of tokens of the prompt. The fields for the
/// response are checked, and change nothing.
pub(super) async fn count(caller: Caller, fields: Fields) -> Result<Response, ApiError> {
    let request = ChatRequest::read(fields)?;
    let model = find(&caller, &request).await?;
    let (prompt, keep_alive) = (Prompt::Chat(request.prompt), request.params.keep_alive);
    let count = count_tokens(&model, prompt, &caller, keep_alive).await?;
    let body = json!({ "object": "response.input_tokens", "input_tokens": count });
    Ok(json_response(&body))
}

/// Returns the model of a request, and notes the fields that its chat template leaves out.
async fn find(caller: &Caller, request: &ChatRequest) -> Result<Model, ApiError> {
    let model = caller.state.find_model(&request.model, None).await?;
    let facts = model.installed.facts.as_ref().ok();
    if request.has_effort && facts.and_then(|facts| default_thinking(facts)).is_none() {
        // The model reasons always, or never.
        caller.ignored.add("reasoning_effort");
    }
    if !request.names.is_empty() && !facts.is_some_and(|facts| knows_names(facts)) {
        for path in &request.names {
            caller.ignored.add(path);
        }
    }
    Ok(model)
}

/// Returns the whole response.
fn whole(generation: &Generation, collected: &Collected) -> Value {
    let choices = &collected.choices;
    let ends: Vec<End> = choices.iter().map(|choice| choice.end).collect();
    let sampling = generation.sampling();
    let timings = ends.last().map(|end| timings(end, sampling.as_ref()));
    let has_logprobs = generation.has_logprobs();
    let logprobs = |choice: &Choice| has_logprobs.then(|| logprobs::of_chat(&choice.logprobs));
    let choices = choices.iter().enumerate().map(|(index, choice)| {
        json!({
            "index": index,
            "message": message(choice),
            "logprobs": logprobs(choice),
            "finish_reason": finish_reason(&choice.end),
        })
    });
    let envelope = Envelope::new("chatcmpl-", "chat.completion", generation.model_name());
    let mut whole = envelope.with(&choices.collect::<Vec<_>>());
    whole["usage"] = usage(&ends);
    whole["timings"] = json!(timings);
    whole
}

/// Returns the message. Clients read its reasoning in one of two fields.
fn message(choice: &Choice) -> Value {
    let mut message = json!({
        "role": "assistant",
        "content": choice.text,
        "refusal": null,
    });
    if !choice.calls.is_empty() {
        message["tool_calls"] = tools::chat_calls(&choice.calls);
        if choice.text.is_empty() {
            message["content"] = Value::Null;
        }
    }
    if !choice.reasoning.is_empty() {
        message["reasoning"] = choice.reasoning.as_str().into();
        message["reasoning_content"] = choice.reasoning.as_str().into();
    }
    message
}
