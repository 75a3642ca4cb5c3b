//! The stream of a completion request.

use serde_json::Value;

use super::{Echoes, PROMPT, choice};
use crate::error::ApiError;
use crate::generation::{Event, Generation};
use crate::routes::chunks::{Chunks, Envelope};
use crate::routes::logprobs::TextLogprobs;
use crate::routes::openai::{blame, finish_reason, usage_of_prompts};
use crate::stream::{Encoder, Frames, Progress, SSE};

/// Writes chunks in the form of OpenAI's older API.
pub(super) struct CompletionStream {
    chunks: Chunks,
    echoes: Echoes,
    /// Of the present choice.
    logprobs: TextLogprobs,
}

impl CompletionStream {
    pub(super) fn new(model: &str, include_usage: bool, echoes: Echoes) -> Self {
        let envelope = Envelope::new("cmpl-", "text_completion", model);
        Self {
            chunks: Chunks::new(envelope, include_usage),
            echoes,
            logprobs: TextLogprobs::default(),
        }
    }

    /// Writes the prompt of a choice before anything else of it.
    fn open_choice(&mut self, index: usize, out: &mut Frames) {
        if !self.chunks.opens(index) {
            return;
        }
        self.logprobs = TextLogprobs::default();
        if let Some(prompt) = self.echoes.of(index) {
            let part = choice(index, prompt, &Value::Null, None);
            self.chunks.write(part, out);
        }
    }
}

impl Encoder for CompletionStream {
    const CONTENT_TYPE: &'static str = SSE;

    fn open(&mut self, _: &Generation, out: &mut Frames) {
        self.open_choice(0, out);
    }

    fn event(&mut self, event: Event, generation: &Generation, out: &mut Frames) {
        match event {
            Event::Queued { .. }
            | Event::Loading
            | Event::Started { .. }
            | Event::Prefill { .. }
            | Event::ToolCall { .. } => {}
            Event::Text {
                choice: index,
                text,
                logprobs,
                ..
            } => {
                self.open_choice(index, out);
                self.logprobs.add(&logprobs);
                let logprobs = match logprobs.is_empty() {
                    true => Value::Null,
                    false => self.logprobs.take(),
                };
                self.chunks
                    .write(choice(index, &text, &logprobs, None), out);
            }
            Event::Finished { choice: index, end } => {
                self.open_choice(index, out);
                let last = choice(index, "", &Value::Null, Some(finish_reason(&end)));
                self.chunks.end(last, end, generation, out);
            }
        }
    }

    fn heartbeat(&mut self, progress: &Progress, beat: u32, out: &mut Frames) {
        let empty = |index| choice(index, "", &Value::Null, None);
        self.chunks.heartbeat(progress, beat, empty, out);
    }

    fn close(&mut self, _: &Generation, out: &mut Frames) {
        let n = self.echoes.n;
        self.chunks.close(|ends| usage_of_prompts(ends, n), out);
    }

    fn fail(&mut self, error: &ApiError, out: &mut Frames) {
        out.data(&blame(error.clone(), PROMPT).openai_body());
    }
}
