//! Sessions of one model that are used in turns, each by a response in progress.
//!
//! Rule: the parked conversations and the joint context belong to the model. They are in the session that
//! is being used, and in the idle one between two steps.

use std::mem;

use transom_engine::parked::FEW_TOKENS;

use super::conversation::SessionPrompt;
use super::parked::ParkedConversation;
use super::{Session, warn};

/// Tokens that are copied, and restored, in less time than the prefill of one token takes.
const MAX_COPY_RATIO: usize = 32;

impl Session {
    /// Returns an empty session of the same model.
    pub(crate) fn sibling(&self) -> Self {
        Self::new(
            self.model.clone(),
            self.threads.clone(),
            self.config.clone(),
        )
    }

    /// Exchanges what belongs to the model with a sibling.
    pub(crate) fn swap_shared(&mut self, sibling: &mut Self) {
        mem::swap(&mut self.shared, &mut sibling.shared);
    }

    /// Replaces a session by the one of a response that has ended, and parks the conversation of the
    /// former one, which has the parked conversations.
    pub(crate) fn replace(&mut self, mut ended: Self) {
        if let Err(error) = self.move_to_own_context(&mut ended) {
            tracing::warn!(%error, "a conversation is read again");
        }
        self.shared.sharing_failed = false;
        // It has another conversation if a response began and ended meanwhile.
        let n_tokens = self.tokens().len();
        self.park(n_tokens, 0);
        self.swap_shared(&mut ended);
        *self = ended;
        if n_tokens > 0 {
            transom_engine::trim_heap();
        }
    }

    /// Parks the conversation of a response that has ended while others are in progress, and frees its
    /// cache, which is reserved for responses in progress only.
    pub(crate) fn park_ended(&mut self, mut ended: Self) {
        self.swap_shared(&mut ended);
        ended.park(ended.tokens().len(), 0);
        self.swap_shared(&mut ended);
        self.dismiss(ended);
    }

    /// Frees the cache of a response that has ended while others are in progress.
    pub(crate) fn dismiss(&mut self, ended: Self) {
        if let (Some(seat), Some(joint)) = (ended.seat, &mut self.shared.joint) {
            joint.free(seat);
        }
        drop(ended);
        transom_engine::trim_heap();
    }

    /// Parks a copy of the conversation of `running`, the session of a response in progress, if
    /// `prompt` reuses more of it than of every other conversation, and enough of it. The copy is
    /// dropped when it was restored.
    pub(crate) fn park_copy_of(&mut self, running: &Self, prompt: &SessionPrompt<'_>) {
        let reusable = |session: &Self| {
            let conversation = &session.conversation;
            conversation.reusable(prompt, session.rules()).n_tokens()
        };
        let parked = self.shared.parked.iter();
        let of_parked = parked.map(|parked: &ParkedConversation| parked.reusable_by(prompt));
        let best = of_parked.max().unwrap_or(0).max(reusable(self));
        let n_reused = reusable(running);
        // All of its tokens are copied, and take the place of other conversations.
        let is_worth_it = n_reused > best + FEW_TOKENS
            && n_reused.saturating_mul(MAX_COPY_RATIO) >= running.tokens().len();
        // Keys whose rotation is pending cannot be copied.
        let can_copy = is_worth_it && !running.shift_is_pending;
        if let (true, Some(seat), Some(joint)) = (can_copy, running.seat, &mut self.shared.joint) {
            // The copy has exactly the tokens of the session.
            joint.withdraw(seat);
        }
        let Some(cache) = self.cache_of(running).filter(|_| can_copy) else {
            return;
        };
        let n_bytes = ParkedConversation::copy_bytes(&running.conversation, cache);
        if !self.shared.parked.make_room(n_bytes) {
            return;
        }
        let copy = self.cache_of(running).and_then(|cache| {
            ParkedConversation::copy(&running.conversation, cache, running.rules())
        });
        match copy {
            Some(mut copy) => {
                copy.is_spare = true;
                self.shared.parked.park(copy);
            }
            None => warn("the KV cache of a response in progress was not copied"),
        }
    }
}
