//! The stream of a response.
//!
//! Rule: every event has a number, and everything that was opened is closed with its whole text, in
//! the order of OpenAI's API.

use serde_json::{Value, json};
use transom_engine::{Section, TokenLogprobs, ToolCallDelta};

use super::INPUT;
use super::output::{Item, ResponseObject};
use crate::error::ApiError;
use crate::generation::{Event, Generation};
use crate::routes::logprobs;
use crate::routes::openai::blame;
use crate::stream::{Encoder, Frames, Progress, SSE};

/// Every third heartbeat is an event, because some clients do not count comments.
const EVENT_BEAT: u32 = 3;

/// Writes the events of a response.
pub(super) struct ResponsesStream {
    object: ResponseObject,
    /// Number of events so far.
    n_events: u64,
}

impl ResponsesStream {
    pub(super) fn new(object: ResponseObject) -> Self {
        Self {
            object,
            n_events: 0,
        }
    }

    fn send(&mut self, name: &str, mut event: Value, out: &mut Frames) {
        event["type"] = name.into();
        event["sequence_number"] = self.n_events.into();
        self.n_events += 1;
        out.event(name, &event);
    }

    /// Writes an event with the whole response.
    fn send_response(&mut self, name: &str, out: &mut Frames) {
        let response = self.object.view();
        self.send(name, json!({ "response": response }), out);
    }

    fn begin(&mut self, out: &mut Frames) {
        self.send_response("response.created", out);
        self.send_response("response.in_progress", out);
    }

    fn add(&mut self, event: &Event, out: &mut Frames) {
        let n_items = self.object.items().len();
        self.object.add(event);
        if self.object.items().len() > n_items {
            if let Some(last) = n_items.checked_sub(1) {
                self.close_item(last, out);
            }
            self.open_item(n_items, out);
        }
        match event {
            Event::Text { text, logprobs, .. } => self.send_text(text, logprobs, out),
            Event::Finished { .. } => {
                if let Some(last) = self.object.items().len().checked_sub(1) {
                    self.close_item(last, out);
                }
            }
            Event::Queued { .. }
            | Event::Loading
            | Event::Started { .. }
            | Event::Prefill { .. } => {}
            Event::ToolCall { delta, .. } => {
                if let ToolCallDelta::Arguments(json) = delta {
                    self.send_arguments(json, out);
                }
            }
        }
    }

    fn open_item(&mut self, index: usize, out: &mut Frames) {
        let Some(item) = self.object.items().get(index) else {
            return;
        };
        let added = json!({ "output_index": index, "item": item.opened() });
        if item.call.is_some() {
            return self.send("response.output_item.added", added, out);
        }
        let part = content(item, index, "part", item.empty_part());
        self.send("response.output_item.added", added, out);
        self.send("response.content_part.added", part, out);
    }

    fn send_arguments(&mut self, json: &str, out: &mut Frames) {
        let items = self.object.items();
        let Some(item) = items.last() else {
            return;
        };
        let index = items.len() - 1;
        let delta = json!({ "item_id": item.id, "output_index": index, "delta": json });
        self.send("response.function_call_arguments.delta", delta, out);
    }

    /// Writes the next text of the last item.
    fn send_text(&mut self, text: &str, logprobs: &[TokenLogprobs], out: &mut Frames) {
        let items = self.object.items();
        let Some(item) = items.last() else {
            return;
        };
        let mut delta = content(item, items.len() - 1, "delta", text.into());
        let name = item.text_event("delta");
        if item.section == Section::Answer {
            delta["logprobs"] = logprobs::of_tokens(logprobs);
        }
        self.send(&name, delta, out);
    }

    fn close_item(&mut self, index: usize, out: &mut Frames) {
        let (items, done) = (self.object.items(), self.object.item(index));
        let Some(item) = items.get(index) else {
            return;
        };
        if item.call.is_some() {
            let is_open = item.is_open_call();
            let arguments = json!({
                "item_id": item.id,
                "output_index": index,
                "arguments": item.text,
            });
            let done = json!({ "output_index": index, "item": done });
            if !is_open {
                self.send("response.function_call_arguments.done", arguments, out);
            }
            return self.send("response.output_item.done", done, out);
        }
        let mut text = content(item, index, "text", item.text.as_str().into());
        let part = content(item, index, "part", item.part());
        let name = item.text_event("done");
        if item.section == Section::Answer {
            text["logprobs"] = item.logprobs();
        }
        let done = json!({ "output_index": index, "item": done });
        self.send(&name, text, out);
        self.send("response.content_part.done", part, out);
        self.send("response.output_item.done", done, out);
    }

    /// Writes the last event.
    fn end(&mut self, out: &mut Frames) {
        let name = match self.object.status() {
            "incomplete" => "response.incomplete",
            "failed" => "response.failed",
            _ => "response.completed",
        };
        self.send_response(name, out);
    }
}

/// Returns an event about the content of an item, with this field.
fn content(item: &Item, index: usize, name: &str, value: Value) -> Value {
    let mut event = json!({ "item_id": item.id, "output_index": index, "content_index": 0 });
    event[name] = value;
    event
}

impl Encoder for ResponsesStream {
    const CONTENT_TYPE: &'static str = SSE;

    fn open(&mut self, generation: &Generation, out: &mut Frames) {
        self.object.set_sampling(generation.sampling());
        self.begin(out);
    }

    fn event(&mut self, event: Event, generation: &Generation, out: &mut Frames) {
        if matches!(event, Event::Started { .. }) {
            self.object.set_sampling(generation.sampling());
        }
        self.add(&event, out);
    }

    fn heartbeat(&mut self, progress: &Progress, beat: u32, out: &mut Frames) {
        if beat.is_multiple_of(EVENT_BEAT) {
            self.send_response("response.in_progress", out);
        } else {
            out.comment(&progress.comment());
        }
    }

    fn close(&mut self, _: &Generation, out: &mut Frames) {
        self.end(out);
    }

    fn fail(&mut self, error: &ApiError, out: &mut Frames) {
        self.object.fail(&blame(error.clone(), INPUT));
        self.end(out);
    }
}

#[cfg(test)]
mod tests;
