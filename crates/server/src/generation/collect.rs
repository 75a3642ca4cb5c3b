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
        let (mut calls, mut open) = (Vec::new(), None);
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
                Event::ToolCall { delta, .. } => match delta {
                    ToolCallDelta::Begin { id, name } => {
                        open = Some(Called {
                            id,
                            name,
                            arguments: String::new(),
                        });
                    }
                    ToolCallDelta::Arguments(json) => {
                        if let Some(call) = &mut open {
                            call.arguments.push_str(&json);
                        }
                    }
                    ToolCallDelta::End => calls.extend(open.take()),
                },
                Event::Finished { end, .. } => collected.choices.push(Choice {
                    text: std::mem::take(&mut answer),
                    reasoning: std::mem::take(&mut reasoning),
                    logprobs: std::mem::take(&mut answer_logprobs),
                    calls: {
                        open = None;
                        std::mem::take(&mut calls)
                    },
                    end,
                }),
            }
        }
        Ok(collected)
    }
}
