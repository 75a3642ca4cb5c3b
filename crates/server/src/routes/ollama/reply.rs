//! The form of replies: an object for each piece of text, and a last one with counts and times.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use transom_engine::{FinishReason, TokenLogprobs};

use super::request::Route;
use crate::generation::{Called, Choice, End};
use crate::routes::{logprobs, tools};

/// Writes the objects of one reply.
pub(super) struct Reply {
    route: Route,
    model: String,
    began: Instant,
}

impl Reply {
    /// Returns the reply of `model` to a request that just came.
    pub(super) fn new(route: Route, model: &str) -> Self {
        Self {
            route,
            model: model.to_owned(),
            began: Instant::now(),
        }
    }

    /// Returns an object with a piece of reasoning or text.
    pub(super) fn piece(&self, thinking: &str, text: &str) -> Value {
        let mut piece = json!({
            "model": self.model,
            "created_at": Timestamp::now().to_string(),
        });
        let (parent, name) = match self.route {
            Route::Chat => {
                piece["message"] = json!({ "role": "assistant" });
                (&mut piece["message"], "content")
            }
            Route::Generate => (&mut piece, "response"),
        };
        parent[name] = text.into();
        if !thinking.is_empty() {
            parent["thinking"] = thinking.into();
        }
        piece["done"] = false.into();
        piece
    }

    /// Returns the last object of a reply, with this reasoning and text.
    pub(super) fn last(&self, thinking: &str, text: &str, end: &End, n_dropped: usize) -> Value {
        let stats = &end.stats;
        let mut last = self.piece(thinking, text);
        last["done"] = true.into();
        last["done_reason"] = match end.reason {
            FinishReason::Length => "length".into(),
            FinishReason::Stop | FinishReason::Canceled | FinishReason::Shed => "stop".into(),
        };
        last["total_duration"] = nanoseconds(self.began.elapsed());
        last["load_duration"] = nanoseconds(end.load);
        last["prompt_eval_count"] = stats.prompt_tokens.into();
        last["prompt_eval_duration"] = nanoseconds(stats.prefill_time);
        last["eval_count"] = stats.generated_tokens.into();
        last["eval_duration"] = nanoseconds(stats.decode_time);
        if n_dropped > 0 {
            // Not in Ollama's protocol, which does not tell.
            last["dropped_messages"] = n_dropped.into();
        }
        last
    }

    /// Returns the whole reply.
    pub(super) fn whole(&self, choice: &Choice, n_dropped: usize) -> Value {
        let (reasoning, text) = (&choice.reasoning, &choice.text);
        let mut whole = self.last(reasoning, text, &choice.end, n_dropped);
        add_logprobs(&mut whole, &choice.logprobs);
        if !choice.calls.is_empty() {
            let calls = choice.calls.iter().enumerate();
            let calls: Vec<Value> = calls.map(|(index, call)| tool_call(index, call)).collect();
            whole["message"]["tool_calls"] = calls.into();
        }
        whole
    }

    /// Returns an object with a complete call.
    pub(super) fn call(&self, index: usize, call: &Called) -> Value {
        let mut piece = self.piece("", "");
        piece["message"]["tool_calls"] = json!([tool_call(index, call)]);
        piece
    }

    /// Returns the reply to a request without a prompt.
    pub(super) fn without_text(&self, reason: &str) -> Value {
        let mut reply = self.piece("", "");
        reply["done"] = true.into();
        reply["done_reason"] = reason.into();
        reply
    }
}

/// Returns a call, whose arguments are an object in this protocol.
fn tool_call(index: usize, call: &Called) -> Value {
    json!({
        "id": call.id,
        "function": { "index": index, "name": call.name, "arguments": tools::arguments(call) },
    })
}

/// Adds the log probabilities of tokens, if there are any.
pub(super) fn add_logprobs(reply: &mut Value, tokens: &[TokenLogprobs]) {
    if !tokens.is_empty() {
        reply["logprobs"] = logprobs::of_chat(tokens)["content"].take();
    }
}

fn nanoseconds(time: Duration) -> Value {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).into()
}
