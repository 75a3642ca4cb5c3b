//! The stream of a chat request.

use serde_json::{Value, json};
use transom_engine::Section;

use crate::error::ApiError;
use crate::generation::{Event, Generation};
use crate::routes::chunks::{Chunks, Envelope};
use crate::routes::openai::{finish_reason, usage};
use crate::routes::{logprobs, tools};
use crate::stream::{Encoder, Frames, Progress, SSE};

/// Writes chunks in OpenAI's form.
pub(super) struct ChatStream(Chunks);

impl ChatStream {
    pub(super) fn new(model: &str, include_usage: bool) -> Self {
        let envelope = Envelope::new("chatcmpl-", "chat.completion.chunk", model);
        Self(Chunks::new(envelope, include_usage))
    }

    /// Writes the role of a choice before anything else of it.
    fn open_choice(&mut self, choice: usize, out: &mut Frames) {
        if self.0.opens(choice) {
            let delta = json!({ "role": "assistant", "content": "" });
            self.0.write(part(choice, &delta, None), out);
        }
    }
}

/// Returns a part of a choice.
fn part(choice: usize, delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({
        "index": choice,
        "delta": delta,
        "logprobs": null,
        "finish_reason": finish_reason,
    })
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
                let delta = match section {
                    Section::Answer => json!({ "content": text }),
                    Section::Reasoning => json!({ "reasoning": text, "reasoning_content": text }),
                };
                let mut part = part(choice, &delta, None);
                if section == Section::Answer && !logprobs.is_empty() {
                    part["logprobs"] = logprobs::of_chat(&logprobs);
                }
                self.0.write(part, out);
            }
            Event::ToolCall {
                choice,
                index,
                delta,
            } => {
                self.open_choice(choice, out);
                if let Some(delta) = tools::chat_delta(index, &delta) {
                    self.0.write(part(choice, &delta, None), out);
                }
            }
            Event::Finished { choice, end } => {
                self.open_choice(choice, out);
                let last = part(choice, &json!({}), Some(finish_reason(&end)));
                self.0.end(last, end, generation, out);
            }
        }
    }

    fn heartbeat(&mut self, progress: &Progress, beat: u32, out: &mut Frames) {
        let empty = |choice| part(choice, &json!({}), None);
        self.0.heartbeat(progress, beat, empty, out);
    }

    fn close(&mut self, _: &Generation, out: &mut Frames) {
        self.0.close(usage, out);
    }

    fn fail(&mut self, error: &ApiError, out: &mut Frames) {
        out.data(&error.openai_body());
    }
}
