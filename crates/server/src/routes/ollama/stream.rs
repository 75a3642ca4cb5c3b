//! Writes a reply as lines of JSON.

use transom_engine::Section;

use super::reply::{self, Reply};
use crate::error::{ApiError, Protocol};
use crate::generation::{Event, Generation, OpenCall};
use crate::stream::{Encoder, Frames, NDJSON, Progress};

/// Every third heartbeat, after 15 s, is a line without text. The protocol has no other sign of life.
const BEATS_OF_A_LINE: u32 = 3;

/// Writes the lines of one reply.
pub(super) struct ReplyStream {
    reply: Reply,
    n_dropped: usize,
    call: OpenCall,
}

impl ReplyStream {
    /// Returns the writer of a reply.
    pub(super) fn new(reply: Reply) -> Self {
        Self {
            reply,
            n_dropped: 0,
            call: OpenCall::default(),
        }
    }
}

impl Encoder for ReplyStream {
    const CONTENT_TYPE: &'static str = NDJSON;

    fn open(&mut self, _: &Generation, _: &mut Frames) {}

    fn event(&mut self, event: Event, _: &Generation, out: &mut Frames) {
        match event {
            Event::Queued { .. } | Event::Loading | Event::Prefill { .. } => {}
            Event::Started {
                dropped_messages, ..
            } => self.n_dropped = dropped_messages,
            Event::Text {
                section,
                text,
                logprobs,
                ..
            } => match section {
                Section::Reasoning => out.line(&self.reply.piece(&text, "")),
                Section::Answer => {
                    let mut piece = self.reply.piece("", &text);
                    reply::add_logprobs(&mut piece, &logprobs);
                    out.line(&piece);
                }
            },
            Event::ToolCall { index, delta, .. } => {
                // The protocol has complete calls only.
                if let Some(call) = self.call.add(delta) {
                    out.line(&self.reply.call(index, &call));
                }
            }
            Event::Finished { end, .. } => {
                out.line(&self.reply.last("", "", &end, self.n_dropped));
            }
        }
    }

    fn heartbeat(&mut self, _: &Progress, beat: u32, out: &mut Frames) {
        if beat.is_multiple_of(BEATS_OF_A_LINE) {
            out.line(&self.reply.piece("", ""));
        }
    }

    fn close(&mut self, _: &Generation, _: &mut Frames) {}

    fn fail(&mut self, error: &ApiError, out: &mut Frames) {
        out.line(&error.body(Protocol::Ollama, ""));
    }
}
