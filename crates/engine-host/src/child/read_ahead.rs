//! Reading ahead: after a response to a conversation, while nothing else is to be done, the model reads what
//! the conversation's next turn will begin with.
//!
//! That is the end of the response and the text of the template up to the user's next message. If the model
//! reasoned, it is the whole answer: templates leave out the reasoning of earlier turns, so the answer gets
//! other positions in the KV cache. Without reading ahead, the next turn would wait for this.
//!
//! Rule: any task of this model stops it within a short step. It reads no more than the response again, takes no
//! other conversation's place in the KV cache, and leaves there what the same prompt needs for another response.

use transom_engine::generation::{OPENING_TOKENS, common_prefix_len};
use transom_engine::{
    ChatPrompt, EngineError, FinishReason, GenerationParams, JobControl, LoadedModel, Message,
    PreparedPrompt, Prompt, Section, Stats, TokenEvent, Truncation, truncation,
};

use crate::saved_state::tokens_in_memory;
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
    /// What to read, once it is known.
    prompt: Option<PreparedPrompt>,
}

impl ReadAhead {
    /// Records that a response begins. What was due stays due only if it is of another conversation with an
    /// id: the app asks for a title after the first response.
    pub(super) fn begin(&mut self, job: JobId, request: &Request) {
        let id = request.params.conversation;
        if id.is_none()
            || self
                .next
                .as_ref()
                .is_some_and(|it| it.params.conversation == id)
        {
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
            prompt: None,
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
            // The answer is read at another position. For a request without a conversation, the engine would
            // keep the response, too, and need memory for both.
            TokenEvent::Text {
                section: Section::Reasoning,
                ..
            } if next.params.conversation.is_none() => self.clear(),
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
        let Some(mut next) = self.next.take() else {
            return Ok(());
        };
        if !next.read(model, control)? {
            self.next = Some(next);
        }
        Ok(())
    }
}

impl NextTurn {
    /// Returns false if `control` stopped it.
    fn read(
        &mut self,
        model: &mut dyn LoadedModel,
        control: &JobControl,
    ) -> Result<bool, EngineError> {
        if self.prompt.is_none() {
            let one = self.prepare("a", model)?;
            if control.is_stopped() {
                return Ok(false);
            }
            self.prompt = Some(beginning(one, &self.prepare("b", model)?));
        }
        let Some(prompt) = &self.prompt else {
            return Ok(true);
        };
        let n_tokens = prompt.tokens.len();
        let cached = model.savable_cache();
        let cached = cached.map_or(0, |cache| tokens_in_memory(cache, &prompt.tokens));
        let is_same = prompt.dropped_messages == self.dropped_messages;
        if !is_same || n_tokens - cached > self.max_tokens {
            // The next turn continues another prompt, or other conversations took the place of this one.
            return Ok(true);
        }
        let mut is_over = false;
        let mut sink = |event| match event {
            // The KV cache can't rewind to where the prompt differs.
            TokenEvent::Started { cached_tokens, .. }
                if n_tokens - cached_tokens > self.max_tokens =>
            {
                is_over = true;
                control.cancel();
            }
            TokenEvent::Prefill { done, total } => is_over |= done == total,
            _ => {}
        };
        let (reason, _) = model.generate(prompt, &self.params, control, &mut sink)?;
        Ok(is_over || reason != FinishReason::Canceled)
    }

    /// Prepares a prompt in which the user's next message is `message`.
    fn prepare(
        &self,
        message: &str,
        model: &dyn LoadedModel,
    ) -> Result<PreparedPrompt, EngineError> {
        let mut chat = self.chat.clone();
        chat.messages.push(Message::assistant(&*self.answer));
        chat.messages.push(Message::user(message));
        truncation::prepare(model, &Prompt::Chat(chat), self.truncation)
    }
}

/// Returns what two prompts begin with that differ in their last message.
fn beginning(one: PreparedPrompt, other: &PreparedPrompt) -> PreparedPrompt {
    let n_tokens = common_prefix_len(&one.tokens, &other.tokens);
    PreparedPrompt {
        tokens: one.tokens[..n_tokens].to_vec(),
        starts_in_reasoning: None,
        tools: None,
        keeps_checkpoints: true,
        ..one
    }
}

#[cfg(test)]
mod tests;
