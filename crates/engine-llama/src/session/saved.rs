//! Copies conversations out of a session to save them, and restores them.

use std::borrow::Cow;
use std::ops::Range;
use std::ptr;

use transom_engine::EngineError;

use super::conversation::CachedConversation;
use super::parked::ParkedConversation;
use super::{Session, failed};
use crate::native::{Context, part_of_state};

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

    /// Returns true if the contents of the cache can be copied and restored in blocks.
    pub(crate) fn has_blocks(&self) -> bool {
        self.model.attends_to_all()
    }

    /// Returns the `index`-th of [`Session::conversations`] and the contents of its cache; `None` if
    /// they cannot be copied.
    pub(crate) fn copy(&self, index: usize) -> Option<(&CachedConversation, Cow<'_, [u8]>)> {
        let conversation = *self.conversations().get(index)?;
        let state = match self.parked_state(conversation) {
            Some(state) => Cow::Borrowed(state),
            None => Cow::Owned(self.context.as_ref()?.state(0)?),
        };
        Some((conversation, state))
    }

    /// Returns the `index`-th of [`Session::conversations`] and a block of its cache, for
    /// [`Context::append_block`]; `None` if it cannot be copied.
    pub(crate) fn copy_block(
        &self,
        index: usize,
        tokens: Range<usize>,
    ) -> Option<(&CachedConversation, Vec<u8>)> {
        let conversation = *self.conversations().get(index)?;
        let block = match self.parked_state(conversation) {
            Some(state) => part_of_state(state, tokens)?,
            None => self.context.as_ref()?.block(tokens)?,
        };
        Some((conversation, block))
    }

    /// Returns the contents of the cache of a parked conversation; `None` if it is the current one.
    fn parked_state(&self, conversation: &CachedConversation) -> Option<&[u8]> {
        let mut parked = self.shared.parked.iter();
        let found = parked.find(|parked| ptr::eq(&parked.conversation, conversation));
        found.map(|parked| &*parked.state)
    }

    /// Makes a saved conversation the current one. `fill` restores the contents of its cache, of which
    /// at most `copy_bytes` are in memory twice. Parks the former one. The copy counts in the limit of the
    /// parked conversations; if it is larger, none is kept.
    ///
    /// # Errors
    /// Those of `fill`, and [`EngineError::Backend`] if there is not enough memory; the session has no
    /// current conversation then.
    pub(crate) fn restore_saved(
        &mut self,
        mut conversation: CachedConversation,
        copy_bytes: u64,
        fill: impl FnOnce(&mut Context, &mut CachedConversation) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let capacity = self.config.capacity(conversation.tokens.len());
        let capacity = capacity.max(self.capacity());
        let spare_bytes = self.config.unallocated_bytes(capacity);
        let more_bytes = copy_bytes.saturating_sub(spare_bytes);
        if !self.shared.parked.make_room(more_bytes) {
            self.shared.parked.clear();
        }
        self.park(self.tokens().len(), more_bytes);
        // An empty cache grows without a copy.
        self.truncate(0);
        self.reserve(conversation.tokens.len())?;
        let Some(context) = &mut self.context else {
            return Err(failed("restoring a conversation", "it has no KV cache"));
        };
        if let Err(error) = fill(context, &mut conversation) {
            context.clear();
            return Err(error);
        }
        self.conversation = conversation;
        Ok(())
    }
}
