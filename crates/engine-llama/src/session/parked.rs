//! A conversation whose KV cache was copied out of the context.

use transom_engine::{ConversationId, ParkedState};

use super::conversation::{CacheRules, CachedConversation, SessionPrompt};
use crate::native::Context;

/// A conversation that is not the current one. Its KV cache is in memory and never in a file.
#[derive(Debug)]
pub(super) struct ParkedConversation {
    pub(super) conversation: CachedConversation,
    /// See [`Context::state`].
    pub(super) state: Vec<u8>,
    /// Those of the restored cache.
    rules: CacheRules,
    /// The conversation is that of a response in progress, so it is dropped after it was restored.
    pub(super) is_spare: bool,
}

impl ParkedConversation {
    /// Copies the contents of a cache. Returns `None` if that failed, such as for lack of memory.
    pub(super) fn copy(
        conversation: &CachedConversation,
        (context, sequence): (&Context, usize),
        rules: CacheRules,
    ) -> Option<Self> {
        Some(Self {
            state: context.state(sequence)?,
            conversation: conversation.clone(),
            rules,
            is_spare: false,
        })
    }

    /// Returns the size in bytes that [`ParkedConversation::copy`] would have.
    pub(super) fn copy_bytes(
        conversation: &CachedConversation,
        (context, sequence): (&Context, usize),
    ) -> u64 {
        bytes(conversation, context.state_size(sequence))
    }

    /// Replaces the contents of `context`. Returns false if that failed; then the cache is empty.
    pub(super) fn restore(&self, context: &mut Context) -> bool {
        context.set_state(0, &self.state)
    }

    /// Returns how many tokens of `prompt` would not need prefill.
    pub(super) fn reusable_by(&self, prompt: &SessionPrompt<'_>) -> usize {
        self.conversation.reusable(prompt, self.rules).n_tokens()
    }
}

impl ParkedState for ParkedConversation {
    fn tokens(&self) -> &[u32] {
        &self.conversation.tokens
    }

    fn conversation(&self) -> Option<ConversationId> {
        self.conversation.id
    }

    fn bytes(&self) -> u64 {
        bytes(&self.conversation, self.state.len())
    }
}

fn bytes(conversation: &CachedConversation, state_bytes: usize) -> u64 {
    let tokens = size_of_val(&*conversation.tokens);
    (state_bytes + tokens) as u64 + conversation.checkpoint_bytes()
}
