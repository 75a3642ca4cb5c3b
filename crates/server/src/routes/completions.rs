//! `POST /v1/completions`: text that continues a prompt, without a chat template.
//!
//! Rule: the text of a choice is all that the model wrote, with its reasoning.

mod request;
mod stream;

use axum::response::Response;
use serde_json::{Value, json};
use transom_engine::Truncation;

use super::chunks::Envelope;
use super::json_response;
use super::logprobs::TextLogprobs;
use super::openai::{blame, finish_reason, timings, usage_of_prompts};
use crate::door::Caller;
use crate::error::ApiError;
use crate::generation::{End, Event, Generation, Job};
use crate::json::Fields;
use request::CompletionRequest;
use stream::CompletionStream;

/// The field of the prompt.
const PROMPT: &str = "prompt";

/// `POST /v1/completions`
pub(super) async fn complete(caller: Caller, fields: Fields) -> Result<Response, ApiError> {
    let request = CompletionRequest::read(fields)?;
    let model = caller.state.find_model(&request.model, None).await?;
    let echoes = Echoes {
        n: request.n,
        prompts: request.echoes,
    };
    let job = Job {
        model,
        prompts: request.prompts,
        n: request.n,
        params: request.params,
        truncation: Truncation::Disabled,
    };
    let mut generation = Generation::start(job, caller);
    if request.streaming.is_on {
        let include_usage = request.streaming.include_usage;
        let stream = CompletionStream::new(generation.model_name(), include_usage, echoes);
        let response = crate::stream::respond(generation, stream).await;
        return response.map_err(|error| blame(error, PROMPT));
    }
    let choices = collect(&mut generation, &echoes).await;
    let choices = choices.map_err(|error| blame(error, PROMPT))?;
    Ok(json_response(&whole(&generation, &choices, echoes.n)))
}

/// The prompts that come before the text of their choices.
#[derive(Debug)]
struct Echoes {
    /// Number of choices of each prompt.
    n: usize,
    /// The text of each prompt; empty if the request does not ask for it.
    prompts: Vec<String>,
}

impl Echoes {
    /// Returns the prompt of a choice.
    fn of(&self, choice: usize) -> Option<&str> {
        let prompt = self.prompts.get(choice / self.n.max(1));
        prompt.map(String::as_str)
    }
}

/// A complete choice.
struct CompleteText {
    text: String,
    logprobs: TextLogprobs,
    end: End,
}

/// Waits for the texts of all choices.
async fn collect(
    generation: &mut Generation,
    echoes: &Echoes,
) -> Result<Vec<CompleteText>, ApiError> {
    let mut choices = Vec::new();
    let mut text = String::new();
    let mut logprobs = TextLogprobs::default();
    while let Some(event) = generation.next().await? {
        match event {
            Event::Queued { .. }
            | Event::Loading
            | Event::Started { .. }
            | Event::Prefill { .. }
            | Event::ToolCall { .. } => {}
            Event::Text {
                text: next,
                logprobs: tokens,
                ..
            } => {
                text.push_str(&next);
                logprobs.add(&tokens);
            }
            Event::Finished { choice, end } => {
                let prompt = echoes.of(choice).unwrap_or_default();
                choices.push(CompleteText {
                    text: format!("{prompt}{text}"),
                    logprobs: std::mem::take(&mut logprobs),
                    end,
                });
                text.clear();
            }
        }
    }
    Ok(choices)
}

/// Returns the whole response.
fn whole(generation: &Generation, choices: &[CompleteText], n: usize) -> Value {
    let ends: Vec<End> = choices.iter().map(|choice| choice.end).collect();
    let has_logprobs = generation.has_logprobs();
    let sampling = generation.sampling();
    let timings = ends.last().map(|end| timings(end, sampling.as_ref()));
    let choices = choices.iter().enumerate();
    let choices = choices.map(|(index, complete)| {
        let logprobs = has_logprobs.then(|| complete.logprobs.view());
        let reason = finish_reason(&complete.end);
        choice(index, &complete.text, &logprobs.into(), Some(reason))
    });
    let envelope = Envelope::new("cmpl-", "text_completion", generation.model_name());
    let mut whole = envelope.with(&choices.collect::<Vec<_>>());
    whole["usage"] = usage_of_prompts(&ends, n);
    whole["timings"] = json!(timings);
    whole
}

/// Returns a choice, or a part of it.
fn choice(index: usize, text: &str, logprobs: &Value, finish_reason: Option<&str>) -> Value {
    json!({
        "index": index,
        "text": text,
        "logprobs": logprobs,
        "finish_reason": finish_reason,
    })
}
