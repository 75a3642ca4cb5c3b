//! The stream of a completion request.

use serde_json::{Value, json};

use super::{Echoes, PROMPT, choice};
use crate::error::ApiError;
use crate::generation::{End, Event, Generation};
use crate::ids::{random_id, unix_seconds};
use crate::routes::logprobs::TextLogprobs;
use crate::routes::openai::{FINGERPRINT, blame, finish_reason, timings, usage_of_prompts};
use crate::stream::{Encoder, Frames, Progress, SSE};

/// Every third heartbeat is a chunk, because some clients do not count comments.
const CHUNK_BEAT: u32 = 3;

/// Writes chunks in the form of OpenAI's older API.
pub(super) struct CompletionStream {
    id: String,
    created: u64,
    model: String,
    include_usage: bool,
    echoes: Echoes,
    /// Number of choices whose prompt was written.
    n_opened: usize,
    /// Of the present choice.
    logprobs: TextLogprobs,
    ends: Vec<End>,
}

impl CompletionStream {
    pub(super) fn new(model: &str, include_usage: bool, echoes: Echoes) -> Self {
        Self {
            id: random_id("cmpl-"),
            created: unix_seconds(),
            model: model.to_owned(),
            include_usage,
            echoes,
            n_opened: 0,
            logprobs: TextLogprobs::default(),
            ends: Vec::new(),
        }
    }

    fn chunk(&self, choices: &[Value], usage: Value) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "text_completion",
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

    fn part(&self, index: usize, text: &str, finish_reason: Option<&str>) -> Value {
        self.part_with(index, text, &Value::Null, finish_reason)
    }

    fn part_with(
        &self,
        index: usize,
        text: &str,
        logprobs: &Value,
        finish_reason: Option<&str>,
    ) -> Value {
        let choice = choice(index, text, logprobs, finish_reason);
        self.chunk(&[choice], Value::Null)
    }

    /// Writes the prompt of a choice before anything else of it.
    fn open_choice(&mut self, choice: usize, out: &mut Frames) {
        if choice < self.n_opened {
            return;
        }
        self.n_opened = choice + 1;
        self.logprobs = TextLogprobs::default();
        if let Some(prompt) = self.echoes.of(choice) {
            out.data(&self.part(choice, prompt, None));
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
                choice,
                text,
                logprobs,
                ..
            } => {
                self.open_choice(choice, out);
                self.logprobs.add(&logprobs);
                let logprobs = match logprobs.is_empty() {
                    true => Value::Null,
                    false => self.logprobs.take(),
                };
                out.data(&self.part_with(choice, &text, &logprobs, None));
            }
            Event::Finished { choice, end } => {
                self.open_choice(choice, out);
                let mut chunk = self.part(choice, "", Some(finish_reason(&end)));
                chunk["timings"] = timings(&end, generation.sampling().as_ref());
                out.data(&chunk);
                self.ends.push(end);
            }
        }
    }

    fn heartbeat(&mut self, progress: &Progress, beat: u32, out: &mut Frames) {
        if beat.is_multiple_of(CHUNK_BEAT) {
            let choice = self.n_opened.saturating_sub(1);
            out.data(&self.part(choice, "", None));
        } else {
            out.comment(&progress.comment());
        }
    }

    fn close(&mut self, _: &Generation, out: &mut Frames) {
        if self.include_usage {
            let usage = usage_of_prompts(&self.ends, self.echoes.n);
            out.data(&self.chunk(&[], usage));
        }
        out.text("[DONE]");
    }

    fn fail(&mut self, error: &ApiError, out: &mut Frames) {
        out.data(&blame(error.clone(), PROMPT).openai_body());
    }
}
