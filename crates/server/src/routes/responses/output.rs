//! A response in the making: its items of output, and the whole of it as clients read it.

use serde_json::{Map, Value, json};
use transom_engine::{FinishReason, SamplingParams, Section, TokenLogprobs, ToolCallDelta};

use crate::error::{ApiError, ErrorKind};
use crate::generation::{End, Event};
use crate::ids::{random_id, unix_seconds};
use crate::routes::logprobs;
use crate::routes::openai::timings;

/// A response, which grows with the events of its generation.
#[derive(Debug)]
pub(super) struct ResponseObject {
    id: String,
    created: u64,
    model: String,
    /// The fields of the request that every view repeats.
    repeated: Map<String, Value>,
    items: Vec<Item>,
    dropped_messages: usize,
    end: Option<End>,
    error: Option<Value>,
    sampling: Option<SamplingParams>,
}

/// An item of the output: a message, reasoning, or a tool call.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) section: Section,
    /// The text, or the arguments of a call.
    pub(super) text: String,
    /// Of the tokens of the text, if the request asks for them.
    logprobs: Vec<TokenLogprobs>,
    pub(super) call: Option<Call>,
}

/// What a tool call has besides its arguments.
#[derive(Debug)]
pub(super) struct Call {
    id: String,
    name: String,
    pub(super) is_complete: bool,
}

impl ResponseObject {
    /// Creates a response without output.
    pub(super) fn new(model: &str, repeated: Map<String, Value>) -> Self {
        Self {
            id: random_id("resp_"),
            created: unix_seconds(),
            model: model.to_owned(),
            repeated,
            items: Vec::new(),
            dropped_messages: 0,
            end: None,
            error: None,
            sampling: None,
        }
    }

    /// Adds an event. At most one item begins with it.
    pub(super) fn add(&mut self, event: &Event) {
        match event {
            Event::Queued { .. } | Event::Loading | Event::Prefill { .. } => {}
            Event::Started {
                dropped_messages, ..
            } => self.dropped_messages = *dropped_messages,
            Event::Text {
                section,
                text,
                logprobs,
                ..
            } => match self.items.last_mut() {
                Some(item) if item.section == *section && item.call.is_none() => {
                    item.text.push_str(text);
                    item.logprobs.extend_from_slice(logprobs);
                }
                _ => self.items.push(Item::new(*section, text, logprobs)),
            },
            Event::ToolCall { delta, .. } => self.add_call(delta),
            Event::Finished { end, .. } => {
                self.end = Some(*end);
                // Every complete response has a message, even an empty one.
                let last = self.items.last().map(|item| item.section);
                let is_cut = last.is_some() && end.reason == FinishReason::Length;
                if last != Some(Section::Answer) && !is_cut {
                    self.items.push(Item::new(Section::Answer, "", &[]));
                }
            }
        }
    }

    fn add_call(&mut self, delta: &ToolCallDelta) {
        if let ToolCallDelta::Begin { id, name } = delta {
            let call = Call {
                id: id.clone(),
                name: name.clone(),
                is_complete: false,
            };
            self.items.push(Item {
                id: random_id("fc_"),
                section: Section::Answer,
                text: String::new(),
                logprobs: Vec::new(),
                call: Some(call),
            });
            return;
        }
        let Some(item) = self.items.last_mut() else {
            return;
        };
        match (delta, &mut item.call) {
            (ToolCallDelta::Arguments(json), Some(_)) => item.text.push_str(json),
            (ToolCallDelta::End, Some(call)) => call.is_complete = true,
            _ => {}
        }
    }

    /// Ends the response with an error.
    pub(super) fn fail(&mut self, error: &ApiError) {
        let code = error_code(error);
        self.error = Some(json!({ "code": code, "message": error.message }));
    }

    /// Sets the sampling in force, once it is known.
    pub(super) fn set_sampling(&mut self, sampling: Option<SamplingParams>) {
        self.sampling = sampling;
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Returns the status: `in_progress`, `completed`, `incomplete` or `failed`.
    pub(super) fn status(&self) -> &'static str {
        match (&self.error, self.end.map(|end| end.reason)) {
            (Some(_), _) => "failed",
            (None, None) => "in_progress",
            (None, Some(FinishReason::Length)) => "incomplete",
            (None, Some(FinishReason::Stop | FinishReason::Canceled | FinishReason::Shed)) => {
                "completed"
            }
        }
    }

    /// Returns an item of the output as it is now.
    pub(super) fn item(&self, index: usize) -> Option<Value> {
        let item = self.items.get(index)?;
        let is_last = index + 1 == self.items.len();
        let status = match self.status() {
            "failed" if is_last => "incomplete",
            // It was cut off, or is broken.
            "completed" | "incomplete" if item.is_open_call() => "incomplete",
            "incomplete" if item.call.is_some() => "completed",
            status if is_last => status,
            _ => "completed",
        };
        Some(match item.call {
            Some(_) => item.view(status, &[]),
            None => item.view(status, &[item.part()]),
        })
    }

    /// Returns the whole response as it is now.
    pub(super) fn view(&self) -> Value {
        let status = self.status();
        let items = (0..self.items.len()).filter_map(|index| self.item(index));
        let reason = (status == "incomplete").then(|| json!({ "reason": "max_output_tokens" }));
        let completed = (status == "completed").then(unix_seconds);
        let mut view = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "completed_at": completed,
            "status": status,
            "error": self.error,
            "incomplete_details": reason,
            "model": self.model,
            "output": items.collect::<Vec<_>>(),
            "usage": self.end.as_ref().map(usage),
        });
        for (name, value) in &self.repeated {
            view[name.as_str()] = value.clone();
        }
        if let Some(sampling) = &self.sampling {
            for (name, value) in [
                ("temperature", sampling.temperature),
                ("top_p", sampling.top_p),
                ("presence_penalty", sampling.presence_penalty),
                ("frequency_penalty", sampling.frequency_penalty),
            ] {
                if view[name].is_null() {
                    view[name] = decimal(value);
                }
            }
        }
        if let Some(end) = &self.end {
            view["timings"] = timings(end, self.sampling.as_ref());
        }
        if self.dropped_messages > 0 {
            view["dropped_messages"] = self.dropped_messages.into();
        }
        view
    }
}

impl Item {
    fn new(section: Section, text: &str, logprobs: &[TokenLogprobs]) -> Self {
        let prefix = match section {
            Section::Answer => "msg_",
            Section::Reasoning => "rs_",
        };
        Self {
            id: random_id(prefix),
            section,
            text: text.to_owned(),
            logprobs: logprobs.to_vec(),
            call: None,
        }
    }

    /// Returns true for a tool call that is not complete.
    pub(super) fn is_open_call(&self) -> bool {
        self.call.as_ref().is_some_and(|call| !call.is_complete)
    }

    /// Returns the name of an event about the text: that of a `delta`, or that it is `done`.
    pub(super) fn text_event(&self, what: &str) -> String {
        let kind = match self.section {
            Section::Answer => "output_text",
            Section::Reasoning => "reasoning_text",
        };
        format!("response.{kind}.{what}")
    }

    /// Returns the item when it begins.
    pub(super) fn opened(&self) -> Value {
        self.view("in_progress", &[])
    }

    /// Returns the only part of its content.
    pub(super) fn part(&self) -> Value {
        self.part_with(&self.text, self.logprobs())
    }

    /// Returns the part of its content when it begins.
    pub(super) fn empty_part(&self) -> Value {
        self.part_with("", json!([]))
    }

    /// Returns the log probabilities of the text, an array.
    pub(super) fn logprobs(&self) -> Value {
        logprobs::of_tokens(&self.logprobs)
    }

    fn part_with(&self, text: &str, logprobs: Value) -> Value {
        match self.section {
            Section::Answer => json!({
                "type": "output_text",
                "text": text,
                "annotations": [],
                "logprobs": logprobs,
            }),
            Section::Reasoning => json!({ "type": "reasoning_text", "text": text }),
        }
    }

    fn view(&self, status: &str, content: &[Value]) -> Value {
        if let Some(call) = &self.call {
            return json!({
                "id": self.id,
                "type": "function_call",
                "status": status,
                "call_id": call.id,
                "name": call.name,
                "arguments": self.text,
            });
        }
        match self.section {
            Section::Answer => json!({
                "id": self.id,
                "type": "message",
                "status": status,
                "role": "assistant",
                "content": content,
            }),
            Section::Reasoning => json!({
                "id": self.id,
                "type": "reasoning",
                "status": status,
                "summary": [],
                "content": content,
            }),
        }
    }
}

fn usage(end: &End) -> Value {
    let (prompt, generated) = (end.stats.prompt_tokens, end.stats.generated_tokens);
    json!({
        "input_tokens": prompt,
        "input_tokens_details": { "cached_tokens": end.stats.cached_tokens },
        "output_tokens": generated,
        "output_tokens_details": { "reasoning_tokens": end.reasoning_tokens },
        "total_tokens": prompt + generated,
    })
}

/// Returns the code of an error, which the protocol has few of.
fn error_code(error: &ApiError) -> &'static str {
    match (error.code, error.kind) {
        // Not one of them, but clients shorten the conversation when they read it.
        (Some(code @ "context_length_exceeded"), _) => code,
        // Clients wait and retry.
        (_, ErrorKind::RateLimit | ErrorKind::Overloaded) => "rate_limit_exceeded",
        (_, ErrorKind::InvalidRequest | ErrorKind::NotFound | ErrorKind::TooLarge) => {
            "invalid_prompt"
        }
        (_, ErrorKind::Authentication | ErrorKind::Permission | ErrorKind::Internal) => {
            "server_error"
        }
    }
}

/// Returns the shortest decimal number that is `value`: 0.95 instead of 0.949999988.
fn decimal(value: f32) -> Value {
    value
        .to_string()
        .parse::<f64>()
        .map_or(Value::Null, Value::from)
}
