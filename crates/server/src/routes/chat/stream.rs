//! The stream of a chat request.

use serde_json::{Value, json};
use transom_engine::Section;

use crate::error::ApiError;
use crate::generation::{End, Event, Generation};
use crate::ids::{random_id, unix_seconds};
use crate::routes::openai::{FINGERPRINT, finish_reason, timings, usage};
use crate::routes::{logprobs, tools};
use crate::stream::{Encoder, Frames, Progress, SSE};

/// Every third heartbeat is a chunk, because some clients do not count comments.
const CHUNK_BEAT: u32 = 3;

/// Writes chunks in OpenAI's form.
pub(super) struct ChatStream {
    id: String,
    created: u64,
    model: String,
    include_usage: bool,
    /// Number of choices that have their role.
    n_opened: usize,
    ends: Vec<End>,
}

impl ChatStream {
    pub(super) fn new(model: &str, include_usage: bool) -> Self {
        Self {
            id: random_id("chatcmpl-"),
            created: unix_seconds(),
            model: model.to_owned(),
            include_usage,
            n_opened: 0,
            ends: Vec::new(),
        }
    }

    fn chunk(&self, choices: &Value, usage: Value) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        });
        if self.include_usage {
            chunk["usage"] = usage;
        }
        chunk
    }

    fn delta(&self, choice: usize, delta: &Value, finish_reason: Option<&str>) -> Value {
        self.delta_with(choice, delta, &Value::Null, finish_reason)
    }

    fn delta_with(
        &self,
        choice: usize,
        delta: &Value,
        logprobs: &Value,
        finish_reason: Option<&str>,
    ) -> Value {
        let choice = json!({
            "index": choice,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        });
        self.chunk(&json!([choice]), Value::Null)
    }

    /// Writes the role of a choice before anything else of it.
    fn open_choice(&mut self, choice: usize, out: &mut Frames) {
        if choice >= self.n_opened {
            self.n_opened = choice + 1;
            let delta = json!({ "role": "assistant", "content": "" });
            out.data(&self.delta(choice, &delta, None));
        }
    }
}

impl Encoder for ChatStream {
    const CONTENT_TYPE: &'static str = SSE;

    fn open(&mut self, _: &Generation, out: &mut Frames) {
        self.open_choice(0, out);
    }

    fn event(&mut self, event: Event, generation: &Generation, out: &mut Frames) {
        match event {
            Event::Queued { .. }
            | Event::Loading
            | Event::Started { .. }
            | Event::Prefill { .. } => {}
            Event::Text {
                choice,
                section,
                text,
                logprobs,
            } => {
                self.open_choice(choice, out);
                let (delta, logprobs) = match section {
                    Section::Answer if !logprobs.is_empty() => {
                        (json!({ "content": text }), logprobs::of_chat(&logprobs))
                    }
                    Section::Answer => (json!({ "content": text }), Value::Null),
                    Section::Reasoning => {
                        let delta = json!({ "reasoning": text, "reasoning_content": text });
                        (delta, Value::Null)
                    }
                };
                out.data(&self.delta_with(choice, &delta, &logprobs, None));
            }
            Event::ToolCall {
                choice,
                index,
                delta,
            } => {
                self.open_choice(choice, out);
                if let Some(delta) = tools::chat_delta(index, &delta) {
                    out.data(&self.delta(choice, &delta, None));
                }
            }
            Event::Finished { choice, end } => {
                self.open_choice(choice, out);
                let mut chunk = self.delta(choice, &json!({}), Some(finish_reason(&end)));
                chunk["timings"] = timings(&end, generation.sampling().as_ref());
                out.data(&chunk);
                self.ends.push(end);
            }
        }
    }

    fn heartbeat(&mut self, progress: &Progress, beat: u32, out: &mut Frames) {
        if beat.is_multiple_of(CHUNK_BEAT) {
            let choice = self.n_opened.saturating_sub(1);
            out.data(&self.delta(choice, &json!({}), None));
        } else {
            out.comment(&progress.comment());
        }
    }

    fn close(&mut self, _: &Generation, out: &mut Frames) {
        if self.include_usage {
            out.data(&self.chunk(&json!([]), usage(&self.ends)));
        }
        out.text("[DONE]");
    }

    fn fail(&mut self, error: &ApiError, out: &mut Frames) {
        out.data(&error.openai_body());
    }
}
