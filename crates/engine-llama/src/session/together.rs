//! Sessions of one model that are used in turns, each by a response in progress.
//!
//! Rule: the parked conversations belong to the model. They are in the session that is being used, and
//! in the idle one between two steps.

use std::mem;

use transom_engine::parked::FEW_TOKENS;

use super::Session;
use super::conversation::SessionPrompt;
use super::parked::ParkedConversation;

impl Session {
    /// Returns an empty session of the same model.
    pub(crate) fn sibling(&self) -> Self {
        Self::new(
            self.model.clone(),
            self.threads.clone(),
            self.config.clone(),
        )
    }

    /// Exchanges the parked conversations with those of a sibling.
    pub(crate) fn swap_parked(&mut self, sibling: &mut Self) {
        mem::swap(&mut self.parked, &mut sibling.parked);
    }

    /// Replaces a session by the one of a response that has ended, and parks the conversation of the
    /// former one, which has the parked conversations.
    pub(crate) fn replace(&mut self, mut ended: Self) {
        // It has another conversation if a response began and ended meanwhile.
        let n_tokens = self.tokens().len();
        self.park(n_tokens, 0);
        self.swap_parked(&mut ended);
        *self = ended;
        if n_tokens > 0 {
            transom_engine::trim_heap();
        }
    }

    /// Parks a copy of the conversation of `running`, the session of a response in progress, if
    /// `prompt` reuses more of it than of every other conversation.
    pub(crate) fn park_copy_of(&mut self, running: &mut Self, prompt: &SessionPrompt<'_>) {
        let reusable = |session: &Self| {
            let conversation = &session.conversation;
            conversation.reusable(prompt, session.rules()).n_tokens()
        };
        let parked = self.parked.iter();
        let of_parked = parked.map(|parked: &ParkedConversation| parked.reusable_by(prompt));
        let best = of_parked.max().unwrap_or(0).max(reusable(self));
        // Keys whose rotation is pending cannot be copied.
        if running.shift_is_pending || reusable(running) <= best + FEW_TOKENS {
            return;
        }
        self.swap_parked(running);
        running.park(running.tokens().len(), 0);
        self.swap_parked(running);
    }
}
