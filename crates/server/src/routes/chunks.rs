//! The objects that choices are in, whole or in chunks, in the form of OpenAI's chats and completions.

use serde_json::{Value, json};

use crate::generation::{End, Generation};
use crate::ids::{random_id, unix_seconds};
use crate::routes::openai::{FINGERPRINT, timings};
use crate::stream::{Frames, Progress};

/// Every third heartbeat is a chunk, because some clients do not count comments.
const CHUNK_BEAT: u32 = 3;

/// What all objects of one response begin with.
pub(super) struct Envelope {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
}

impl Envelope {
    /// Returns the envelope of a new response of this type.
    pub(super) fn new(id_prefix: &str, object: &'static str, model: &str) -> Self {
        Self {
            id: random_id(id_prefix),
            object,
            created: unix_seconds(),
            model: model.to_owned(),
        }
    }

    /// Returns an object with these choices.
    pub(super) fn with(&self, choices: &[Value]) -> Value {
        json!({
            "id": self.id,
            "object": self.object,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
        })
    }
}

/// Writes the chunks of a stream.
pub(super) struct Chunks {
    envelope: Envelope,
    include_usage: bool,
    /// Number of choices that were opened.
    n_opened: usize,
    ends: Vec<End>,
}

impl Chunks {
    /// Returns the writer of a response, whose last chunk has the usage if it is included.
    pub(super) fn new(envelope: Envelope, include_usage: bool) -> Self {
        Self {
            envelope,
            include_usage,
            n_opened: 0,
            ends: Vec::new(),
        }
    }

    /// Returns true if nothing of this choice was written before.
    pub(super) fn opens(&mut self, choice: usize) -> bool {
        let is_new = choice >= self.n_opened;
        self.n_opened = self.n_opened.max(choice + 1);
        is_new
    }

    /// Writes a part of a choice.
    pub(super) fn write(&self, choice: Value, out: &mut Frames) {
        out.data(&self.chunk(&[choice], Value::Null));
    }

    /// Writes the last part of a choice, with its timings.
    pub(super) fn end(&mut self, choice: Value, end: End, of: &Generation, out: &mut Frames) {
        let mut chunk = self.chunk(&[choice], Value::Null);
        chunk["timings"] = timings(&end, of.sampling().as_ref());
        out.data(&chunk);
        self.ends.push(end);
    }

    /// Writes a heartbeat, if it is a chunk with an empty part of the choice with this number.
    pub(super) fn heartbeat(
        &self,
        progress: &Progress,
        beat: u32,
        empty: impl FnOnce(usize) -> Value,
        out: &mut Frames,
    ) {
        match beat.is_multiple_of(CHUNK_BEAT) {
            true => self.write(empty(self.n_opened.saturating_sub(1)), out),
            false => out.comment(&progress.comment()),
        }
    }

    /// Writes the end of the stream.
    pub(super) fn close(&self, usage: impl FnOnce(&[End]) -> Value, out: &mut Frames) {
        if self.include_usage {
            out.data(&self.chunk(&[], usage(&self.ends)));
        }
        out.text("[DONE]");
    }

    fn chunk(&self, choices: &[Value], usage: Value) -> Value {
        let mut chunk = self.envelope.with(choices);
        if self.include_usage {
            chunk["usage"] = usage;
        }
        chunk
    }
}
