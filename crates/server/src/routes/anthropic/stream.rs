//! Writes a message as server-sent events.
//!
//! Rule: the events are `message_start`, then for each block `content_block_start`,
//! `content_block_delta`… and `content_block_stop`, then `message_delta` and `message_stop`.

use serde_json::{Value, json};
use transom_engine::{Section, ToolCallDelta};

use super::message::{MessageForm, signature, usage};
use crate::error::{ApiError, Protocol};
use crate::generation::{Event, Generation};
use crate::stream::{Encoder, Frames, Progress, SSE};

/// Every second heartbeat is a `ping`: clients that count events wait for minutes, but some wait for
/// less than 15 s.
const BEATS_OF_A_PING: u32 = 2;

/// Writes the events of one message.
pub(super) struct MessageStream {
    form: MessageForm,
    request_id: String,
    has_started: bool,
    /// The section of the open block.
    open_section: Option<Section>,
    /// The open block is a tool call.
    in_call: bool,
    /// Number of blocks that were opened.
    n_blocks: usize,
}

impl MessageStream {
    /// Returns the writer of a message. Errors repeat `request_id`.
    pub(super) fn new(form: MessageForm, request_id: String) -> Self {
        Self {
            form,
            request_id,
            has_started: false,
            open_section: None,
            in_call: false,
            n_blocks: 0,
        }
    }

    /// Writes an event.
    fn write(&mut self, event: Event, out: &mut Frames) {
        match event {
            Event::Queued { .. } | Event::Loading | Event::Prefill { .. } => {}
            Event::Started {
                prompt_tokens,
                cached_tokens,
                ..
            } => self.start(&usage(prompt_tokens, cached_tokens, 0), out),
            Event::Text { section, text, .. } => self.text(section, &text, out),
            Event::ToolCall { delta, .. } => self.call(delta, out),
            Event::Finished { end, .. } => {
                if self.n_blocks == 0 {
                    // The whole message has an empty text too.
                    self.open_block(Section::Answer, out);
                }
                self.close_block(out);
                out.event("message_delta", &self.form.delta(&end));
            }
        }
    }

    fn start(&mut self, usage: &Value, out: &mut Frames) {
        if !self.has_started {
            self.has_started = true;
            let message = self.form.envelope(Vec::new(), usage);
            let data = json!({ "type": "message_start", "message": message });
            out.event("message_start", &data);
        }
    }

    fn text(&mut self, section: Section, text: &str, out: &mut Frames) {
        if text.is_empty() {
            return;
        }
        if self.open_section != Some(section) {
            self.close_block(out);
            self.open_block(section, out);
        }
        let text = self.form.shown(section, text);
        if !text.is_empty() {
            let delta = match section {
                Section::Reasoning => json!({ "type": "thinking_delta", "thinking": text }),
                Section::Answer => json!({ "type": "text_delta", "text": text }),
            };
            self.delta(&delta, out);
        }
    }

    fn call(&mut self, delta: ToolCallDelta, out: &mut Frames) {
        match delta {
            ToolCallDelta::Begin { id, name } => {
                self.close_block(out);
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                self.begin_block(&block, out);
                self.in_call = true;
            }
            ToolCallDelta::Arguments(json) => {
                let delta = json!({ "type": "input_json_delta", "partial_json": json });
                self.delta(&delta, out);
            }
            ToolCallDelta::End => self.close_block(out),
        }
    }

    fn open_block(&mut self, section: Section, out: &mut Frames) {
        let block = match section {
            Section::Reasoning => json!({ "type": "thinking", "thinking": "", "signature": "" }),
            Section::Answer => json!({ "type": "text", "text": "" }),
        };
        self.begin_block(&block, out);
        self.open_section = Some(section);
    }

    fn begin_block(&mut self, block: &Value, out: &mut Frames) {
        let data = json!({
            "type": "content_block_start",
            "index": self.n_blocks,
            "content_block": block,
        });
        out.event("content_block_start", &data);
        self.n_blocks += 1;
    }

    fn close_block(&mut self, out: &mut Frames) {
        let section = self.open_section.take();
        let was_in_call = std::mem::take(&mut self.in_call);
        if section.is_none() && !was_in_call {
            return;
        }
        if section == Some(Section::Reasoning) {
            let signature = signature();
            let delta = json!({ "type": "signature_delta", "signature": signature });
            self.delta(&delta, out);
        }
        let data = json!({ "type": "content_block_stop", "index": self.n_blocks - 1 });
        out.event("content_block_stop", &data);
    }

    /// Adds a delta of the block that was opened last.
    fn delta(&self, delta: &Value, out: &mut Frames) {
        let data = json!({
            "type": "content_block_delta",
            "index": self.n_blocks - 1,
            "delta": delta,
        });
        out.event("content_block_delta", &data);
    }
}

impl Encoder for MessageStream {
    const CONTENT_TYPE: &'static str = SSE;

    /// The first event says how long the prompt is, so it waits for the engine, or a heartbeat.
    fn open(&mut self, _: &Generation, _: &mut Frames) {}

    fn event(&mut self, event: Event, _: &Generation, out: &mut Frames) {
        self.write(event, out);
    }

    fn heartbeat(&mut self, progress: &Progress, beat: u32, out: &mut Frames) {
        self.start(&usage(0, 0, 0), out);
        match beat % BEATS_OF_A_PING {
            0 => out.event("ping", &json!({ "type": "ping" })),
            _ => out.comment(&progress.comment()),
        }
    }

    fn close(&mut self, _: &Generation, out: &mut Frames) {
        out.event("message_stop", &json!({ "type": "message_stop" }));
    }

    fn fail(&mut self, error: &ApiError, out: &mut Frames) {
        out.event("error", &error.body(Protocol::Anthropic, &self.request_id));
    }
}

#[cfg(test)]
mod tests;
