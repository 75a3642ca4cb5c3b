//! All choices of a generation at once, for responses that are not streamed.

use transom_engine::{Section, TokenLogprobs};

use super::{End, Event, Generation};
use crate::error::ApiError;

/// A complete choice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// Of the tokens of the text, not of the reasoning, if the request asks for them.
    pub(crate) logprobs: Vec<TokenLogprobs>,
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
                Event::Finished { end, .. } => collected.choices.push(Choice {
                    text: std::mem::take(&mut answer),
                    reasoning: std::mem::take(&mut reasoning),
                    logprobs: std::mem::take(&mut answer_logprobs),
                    end,
                }),
            }
        }
        Ok(collected)
    }
}
