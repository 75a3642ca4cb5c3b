//! Copies conversations out of a session to save them, and restores them.

use std::borrow::Cow;
use std::ptr;

use transom_engine::EngineError;

use super::conversation::CachedConversation;
use super::parked::ParkedConversation;
use super::{Session, failed};
use crate::native::Context;

impl Session {
    /// Returns the conversations with tokens: the current one, and the others from the most recently
    /// used one on.
    pub(crate) fn conversations(&self) -> Vec<&CachedConversation> {
        let parked: Vec<&ParkedConversation> = self.shared.parked.iter().collect();
        let parked = parked.into_iter().rev().map(|parked| &parked.conversation);
        let all = std::iter::once(&self.conversation).chain(parked);
        all.filter(|conversation| !conversation.tokens.is_empty())
            .collect()
    }

    /// Returns the `index`-th of [`Session::conversations`] and the contents of its cache; `None` if
    /// they cannot be copied.
    pub(crate) fn copy(&self, index: usize) -> Option<(&CachedConversation, Cow<'_, [u8]>)> {
        let conversation = *self.conversations().get(index)?;
        let mut parked = self.shared.parked.iter();
        let state = match parked.find(|parked| ptr::eq(&parked.conversation, conversation)) {
            Some(parked) => Cow::Borrowed(&*parked.state),
            None => Cow::Owned(self.context.as_ref()?.state(0)?),
        };
        Some((conversation, state))
    }

    /// Makes a saved conversation the current one; `state` are the contents of its cache. Parks the
    /// former one. The saved state counts in the limit of the parked conversations; if it is larger,
    /// none is kept.
    ///
    /// # Errors
    /// [`EngineError::Backend`] if there is not enough memory, or if llama.cpp does not take the
    /// state; the session has no current conversation then.
    pub(crate) fn restore_saved(
        &mut self,
        conversation: CachedConversation,
        state: &[u8],
    ) -> Result<(), EngineError> {
        let capacity = self.config.capacity(conversation.tokens.len());
        let capacity = capacity.max(self.capacity());
        let spare_bytes = self.config.unallocated_bytes(capacity);
        let more_bytes = (state.len() as u64).saturating_sub(spare_bytes);
        if !self.shared.parked.make_room(more_bytes) {
            self.shared.parked.clear();
        }
        self.park(self.tokens().len(), more_bytes);
        // An empty cache grows without a copy.
        self.truncate(0);
        self.reserve(conversation.tokens.len())?;
        let restore = |context: &mut Context| context.set_state(0, state);
        if !self.context.as_mut().is_some_and(restore) {
            return Err(failed("restoring a conversation", "llama.cpp refuses it"));
        }
        self.conversation = conversation;
        Ok(())
    }
}
