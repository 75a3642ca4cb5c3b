//! All choices of a generation at once, for responses that are not streamed.

use transom_engine::{Section, TokenLogprobs, ToolCallDelta};

use super::{End, Event, Generation};
use crate::error::ApiError;

/// A complete tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Called {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The text of a JSON object.
    pub(crate) arguments: String,
}

/// A tool call that is being generated, if there is one.
#[derive(Debug, Default)]
pub(crate) struct OpenCall(Option<Called>);

impl OpenCall {
    /// Adds a part of a call. Returns the call when it is complete.
    pub(crate) fn add(&mut self, delta: ToolCallDelta) -> Option<Called> {
        match (delta, &mut self.0) {
            (ToolCallDelta::Begin { id, name }, open) => {
                *open = Some(Called {
                    id,
                    name,
                    arguments: String::new(),
                });
            }
            (ToolCallDelta::Arguments(json), Some(call)) => call.arguments.push_str(&json),
            (ToolCallDelta::Arguments(_), None) => {}
            (ToolCallDelta::End, open) => return open.take(),
        }
        None
    }
}

/// A complete choice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// Of the tokens of the text, not of the reasoning, if the request asks for them.
    pub(crate) logprobs: Vec<TokenLogprobs>,
    /// Complete calls. One that was cut off is left out.
    pub(crate) calls: Vec<Called>,
    pub(crate) end: End,
}

/// The result of a whole generation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Collected {
    /// The choices, in order.
    pub(crate) choices: Vec<Choice>,
    /// Messages that were dropped because the request allowed it.
    pub(crate) dropped_messages: usize,
}

impl Collected {
    /// Returns the choice of a request for one.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn only_choice(&self) -> Result<&Choice, ApiError> {
        let choice = self.choices.first();
        choice.ok_or_else(|| ApiError::internal("the response is missing"))
    }
}

impl Generation {
    /// Waits for all choices.
    ///
    /// # Errors
    /// The error of the first choice that fails.
    pub(crate) async fn collect(&mut self) -> Result<Collected, ApiError> {
        let mut collected = Collected {
            choices: Vec::new(),
            dropped_messages: 0,
        };
        let (mut answer, mut reasoning) = (String::new(), String::new());
        let mut answer_logprobs = Vec::new();
        let (mut calls, mut open) = (Vec::new(), OpenCall::default());
        while let Some(event) = self.next().await? {
            match event {
                Event::Queued { .. } | Event::Loading | Event::Prefill { .. } => {}
                Event::Started {
                    dropped_messages, ..
                } => collected.dropped_messages = dropped_messages,
                Event::Text {
                    section,
                    text,
                    logprobs,
                    ..
                } => match section {
                    Section::Answer => {
                        answer.push_str(&text);
                        answer_logprobs.extend(logprobs);
                    }
                    Section::Reasoning => reasoning.push_str(&text),
                },
                Event::ToolCall { delta, .. } => calls.extend(open.add(delta)),
                Event::Finished { end, .. } => {
                    open = OpenCall::default();
                    collected.choices.push(Choice {
                        text: std::mem::take(&mut answer),
                        reasoning: std::mem::take(&mut reasoning),
                        logprobs: std::mem::take(&mut answer_logprobs),
                        calls: std::mem::take(&mut calls),
                        end,
                    });
                }
            }
        }
        Ok(collected)
    }
}
