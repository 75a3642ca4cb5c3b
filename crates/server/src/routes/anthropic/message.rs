//! The form of a message: its blocks, its end and its usage.

use serde_json::{Value, json};
use transom_engine::{FinishReason, Section};

use super::request::MessageRequest;
use crate::generation::{Choice, End};
use crate::ids::random_id;
use crate::routes::tools;

/// Writes one message.
pub(super) struct MessageForm {
    id: String,
    model: String,
    /// The stop sequences of the request.
    stop: Vec<String>,
    shows_thinking: bool,
}

impl MessageForm {
    /// Returns the form of the message that `model` responds to `request`.
    pub(super) fn new(model: &str, request: &MessageRequest) -> Self {
        Self {
            id: random_id("msg_"),
            model: model.to_owned(),
            stop: request.params.stop.clone(),
            shows_thinking: request.shows_thinking,
        }
    }

    /// Returns the whole message.
    pub(super) fn whole(&self, choice: &Choice) -> Value {
        let mut content = Vec::new();
        if !choice.reasoning.is_empty() {
            content.push(json!({
                "type": "thinking",
                "thinking": self.shown(Section::Reasoning, &choice.reasoning),
                "signature": signature(),
            }));
        }
        // Clients read the first block, so a message without any text has an empty one.
        if !choice.text.is_empty() || content.is_empty() && choice.calls.is_empty() {
            content.push(json!({ "type": "text", "text": choice.text }));
        }
        content.extend(choice.calls.iter().map(|call| {
            json!({
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": tools::arguments(call),
            })
        }));
        let end = &choice.end;
        let mut message = self.envelope(content, &usage_of(end));
        let (reason, sequence) = self.stop_reason(end);
        message["stop_reason"] = json!(reason);
        message["stop_sequence"] = json!(sequence);
        message
    }

    /// Returns a message that has not ended.
    pub(super) fn envelope(&self, content: Vec<Value>, usage: &Value) -> Value {
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage,
        })
    }

    /// Returns the data of the event that ends a streamed message.
    pub(super) fn delta(&self, end: &End) -> Value {
        let (reason, sequence) = self.stop_reason(end);
        json!({
            "type": "message_delta",
            "delta": { "stop_reason": reason, "stop_sequence": sequence },
            "usage": usage_of(end),
        })
    }

    /// Returns what of a section's text the client wants to see.
    pub(super) fn shown<'a>(&self, section: Section, text: &'a str) -> &'a str {
        match section {
            Section::Reasoning if !self.shows_thinking => "",
            Section::Reasoning | Section::Answer => text,
        }
    }

    /// Returns why the response ended, and the stop sequence that ended it.
    fn stop_reason(&self, end: &End) -> (&'static str, Option<&str>) {
        let index = end.stats.matched_stop;
        let sequence = index.and_then(|index| self.stop.get(index));
        match (end.reason, sequence.map(String::as_str)) {
            (FinishReason::Length, _) => ("max_tokens", None),
            (FinishReason::Stop, _) if end.has_called => ("tool_use", None),
            (_, Some(sequence)) => ("stop_sequence", Some(sequence)),
            (FinishReason::Stop | FinishReason::Canceled | FinishReason::Shed, None) => {
                ("end_turn", None)
            }
        }
    }
}

/// Returns a signature of reasoning. Clients send it back, and nothing reads it.
pub(super) fn signature() -> String {
    random_id("sig_")
}

/// Returns the usage: tokens that came from the KV cache do not count as input.
pub(super) fn usage(prompt_tokens: usize, cached_tokens: usize, output_tokens: usize) -> Value {
    json!({
        "input_tokens": prompt_tokens.saturating_sub(cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached_tokens,
        "output_tokens": output_tokens,
    })
}

fn usage_of(end: &End) -> Value {
    let stats = &end.stats;
    usage(
        stats.prompt_tokens,
        stats.cached_tokens,
        stats.generated_tokens,
    )
}
