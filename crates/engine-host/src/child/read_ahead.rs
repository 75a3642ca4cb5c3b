//! Reading ahead: after a response to a conversation, while nothing else is to be done, the model reads what
//! the conversation's next turn will begin with.
//!
//! That is the end of the response and the text of the template up to the user's next message. If the model
//! reasoned, it is the whole answer: templates leave out the reasoning of earlier turns, so the answer gets
//! other positions in the KV cache. Without reading ahead, the next turn would wait for this.
//!
//! Rule: reading ahead never makes anything else wait longer than a short step, reads no more than the
//! response again, and leaves everything in the KV cache that the same prompt needs for another response.

use transom_engine::generation::{OPENING_TOKENS, common_prefix_len};
use transom_engine::{
    ChatPrompt, EngineError, FinishReason, GenerationParams, JobControl, LoadedModel, Message,
    PreparedPrompt, Prompt, Section, Stats, TokenEvent, Truncation, truncation,
};

use crate::wire::{JobId, Request};

/// Tokens of a step. A new request waits for the end of one.
const STEP_TOKENS: usize = 64;

/// What may be read ahead: the turn after the newest response to a conversation.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    next: Option<NextTurn>,
}

/// The turn after a response.
#[derive(Debug)]
struct NextTurn {
    /// The job of the response.
    job: JobId,
    /// The conversation without the response.
    chat: ChatPrompt,
    truncation: Truncation,
    params: GenerationParams,
    dropped_messages: usize,
    /// The text of the response, without its reasoning.
    answer: String,
    /// How many tokens may be read; 0 while the response is in progress.
    max_tokens: usize,
}

impl ReadAhead {
    /// Records that a response begins.
    pub(super) fn begin(&mut self, job: JobId, request: &Request) {
        let next = self.next.as_ref();
        if next.is_some_and(|it| it.params.conversation == request.params.conversation) {
            self.clear();
        }
        let Prompt::Chat(chat) = &request.prompt else {
            return;
        };
        if !request.params.may_read_ahead() || chat.continue_final_message {
            return;
        }
        self.next = Some(NextTurn {
            job,
            chat: chat.clone(),
            truncation: request.truncation,
            params: GenerationParams {
                prefill_chunk: Some(STEP_TOKENS),
                max_tokens: Some(1),
                conversation: request.params.conversation,
                is_private: request.params.is_private,
                shift_context: request.params.shift_context,
                speculate: false,
                ..GenerationParams::default()
            },
            dropped_messages: 0,
            answer: String::new(),
            max_tokens: 0,
        });
    }

    /// Records an event of a response.
    pub(super) fn on_event(&mut self, job: JobId, event: &TokenEvent) {
        let Some(next) = self.next.as_mut().filter(|next| next.job == job) else {
            return;
        };
        match event {
            TokenEvent::Started {
                dropped_messages, ..
            } => next.dropped_messages = *dropped_messages,
            TokenEvent::Text {
                section: Section::Answer,
                text,
                ..
            } => next.answer.push_str(text),
            // Not the user's message is next, but the result of the tool.
            TokenEvent::ToolCall { .. } => self.clear(),
            _ => {}
        }
    }

    /// Records the end of a response. One that is not complete may be edited or continued.
    pub(super) fn end(&mut self, job: JobId, end: Option<(FinishReason, &Stats)>) {
        let Some(next) = self.next.as_mut().filter(|next| next.job == job) else {
            return;
        };
        match end {
            // After a context shift, the next turn begins with other tokens.
            Some((FinishReason::Stop, stats)) if stats.shifted_tokens == 0 => {
                next.max_tokens = stats.generated_tokens + 2 * OPENING_TOKENS;
            }
            _ => self.clear(),
        }
    }

    /// Forgets the conversation.
    pub(super) fn clear(&mut self) {
        self.next = None;
    }

    /// Returns true if a response is complete and its next turn was not read.
    pub(super) fn is_due(&self) -> bool {
        self.next.as_ref().is_some_and(|next| next.max_tokens > 0)
    }

    /// Reads the next turn, which is due, on a model that nothing else uses. If `control` stops that, the rest
    /// is still due.
    ///
    /// # Errors
    /// Those of [`LoadedModel::prepare`] and [`LoadedModel::generate`].
    pub(super) fn read(
        &mut self,
        model: &mut dyn LoadedModel,
        control: &JobControl,
    ) -> Result<(), EngineError> {
        let Some(next) = self.next.take() else {
            return Ok(());
        };
        let is_read = next.read(model, control)?;
        self.next = Some(next).filter(|_| !is_read);
        Ok(())
    }
}

impl NextTurn {
    /// Returns false if `control` stopped it.
    fn read(&self, model: &mut dyn LoadedModel, control: &JobControl) -> Result<bool, EngineError> {
        let Some(prompt) = self.prompt(model)? else {
            return Ok(true);
        };
        let cached = model.savable_cache().map_or(0, |cache| {
            let all = cache.conversations().into_iter();
            let in_common = all.map(|it| common_prefix_len(it.tokens, &prompt.tokens));
            in_common.max().unwrap_or(0)
        });
        if prompt.tokens.len() - cached > self.max_tokens {
            // Other conversations took its place in the KV cache, and would lose theirs.
            return Ok(true);
        }
        let (reason, _) = model.generate(&prompt, &self.params, control, &mut |_| ())?;
        Ok(reason != FinishReason::Canceled)
    }

    /// Returns the tokens with which the next turn begins, whatever the user writes; `None` if it will not
    /// continue this conversation as it is.
    fn prompt(&self, model: &dyn LoadedModel) -> Result<Option<PreparedPrompt>, EngineError> {
        let [one, other] = ["a", "b"].map(|message| {
            let mut chat = self.chat.clone();
            chat.messages.push(Message::assistant(&*self.answer));
            chat.messages.push(Message::user(message));
            truncation::prepare(model, &Prompt::Chat(chat), self.truncation)
        });
        let (mut prompt, other) = (one?, other?);
        prompt
            .tokens
            .truncate(common_prefix_len(&prompt.tokens, &other.tokens));
        let is_same = prompt.dropped_messages == self.dropped_messages;
        Ok(Some(PreparedPrompt {
            starts_in_reasoning: None,
            tools: None,
            keeps_checkpoints: true,
            ..prompt
        })
        .filter(|prompt| is_same && !prompt.tokens.is_empty()))
    }
}

#[cfg(test)]
mod tests;
