//! The tokens in a KV cache, and how many of them a prompt can reuse.

use std::ops::Range;

use transom_engine::ConversationId;
use transom_engine::generation::common_prefix_len;

use super::search::last_longest_prefix;
use crate::native::Context;

/// Minimum number of tokens that are worth moving.
const MIN_MOVED: usize = 32;

/// A prompt to process, and how it may reuse the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionPrompt<'a> {
    pub(crate) tokens: &'a [u32],
    /// The conversation that the prompt belongs to, if known.
    pub(crate) conversation: Option<ConversationId>,
    /// Number of messages that were dropped from the prompt.
    pub(crate) dropped_messages: usize,
    /// True if cached tokens may be reused that were computed after text that is no longer in the
    /// prompt.
    pub(crate) may_shift: bool,
    /// See [`transom_engine::GenerationParams::is_private`].
    pub(crate) is_private: bool,
}

/// A position that a model with recurrent states can rewind to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) n_tokens: usize,
    /// The recurrent states after `n_tokens` tokens.
    pub(crate) states: Vec<u8>,
}

/// Describes the contents of a cache. Saved together with the cache.
#[derive(Debug, Clone, Default)]
pub(crate) struct CachedConversation {
    pub(crate) tokens: Vec<u32>,
    /// Number of tokens at the start that are in the cache as a fresh prefill would compute them.
    /// The others were computed after text that has since been removed, so only the same
    /// conversation may reuse them.
    pub(crate) n_exact: usize,
    /// The conversation of the last prompt.
    pub(crate) id: Option<ConversationId>,
    /// Number of messages that were dropped from the last prompt.
    pub(crate) dropped_messages: usize,
    /// Oldest first. Only for models with recurrent states.
    pub(crate) checkpoints: Vec<Checkpoint>,
}

/// What a cache can do with its tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheRules {
    /// The cache rewinds to no lower position but 0; see [`Context::first_rewind`].
    pub(super) first_rewind: usize,
    /// The cache rewinds only to checkpoints: the model has recurrent states.
    pub(super) needs_checkpoint: bool,
    /// Tokens can be moved down.
    pub(super) can_move: bool,
}

/// The tokens of a cache that a prompt reuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reuse {
    /// Number of tokens at the start.
    pub(super) n_kept: usize,
    /// Later tokens, which are moved down to follow them.
    pub(super) moved: Option<Range<usize>>,
}

impl SessionPrompt<'_> {
    /// Returns true if `conversation` is the one that the prompt belongs to.
    pub(super) fn continues(&self, conversation: &CachedConversation) -> bool {
        self.conversation.is_some() && self.conversation == conversation.id
    }
}

impl Reuse {
    pub(super) fn n_tokens(&self) -> usize {
        self.n_kept + self.moved.as_ref().map_or(0, |moved| moved.len())
    }
}

impl CachedConversation {
    /// Returns what `prompt` reuses of a cache with these contents: at most one token fewer than the
    /// prompt has, because the last one must be processed for its logits.
    ///
    /// If messages of the same conversation were dropped since its last prompt, the tokens after
    /// them are moved down to their position in the prompt.
    pub(super) fn reusable(&self, prompt: &SessionPrompt<'_>, rules: CacheRules) -> Reuse {
        let wanted = &prompt.tokens[..prompt.tokens.len().saturating_sub(1)];
        let may_shift = prompt.may_shift && prompt.continues(self);
        let n_usable = match may_shift {
            true => self.tokens.len(),
            false => self.n_exact,
        };
        let start = common_prefix_len(&self.tokens[..n_usable], wanted);
        let has_dropped = may_shift && prompt.dropped_messages > self.dropped_messages;
        if has_dropped
            && rules.can_move
            && let Some(moved) = self.find_movable(start, &wanted[start..])
            && self.rewound(moved.end, rules) == moved.end
        {
            return Reuse {
                n_kept: start,
                moved: Some(moved),
            };
        }
        Reuse {
            n_kept: self.rewound(start, rules),
            moved: None,
        }
    }

    /// Returns the tokens after `start` that equal the beginning of `wanted`; `None` if they are
    /// too few.
    fn find_movable(&self, start: usize, wanted: &[u32]) -> Option<Range<usize>> {
        let first = start + 1;
        let found = last_longest_prefix(wanted, self.tokens.get(first..)?);
        (found.len() >= MIN_MOVED).then(|| found.start + first..found.end + first)
    }

    /// Returns the number of tokens that are left if the cache is truncated to `n` tokens.
    fn rewound(&self, n: usize, rules: CacheRules) -> usize {
        if n == self.tokens.len() {
            return n;
        }
        let position = if rules.needs_checkpoint {
            let mut earlier = self.checkpoints.iter().rev();
            let last = earlier.find(|checkpoint| checkpoint.n_tokens <= n);
            last.map_or(0, |checkpoint| checkpoint.n_tokens)
        } else {
            n
        };
        match position >= rules.first_rewind {
            true => position,
            false => 0,
        }
    }

    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        let checkpoints = self.checkpoints.iter();
        let sizes = checkpoints.map(|checkpoint| checkpoint.states.len() as u64);
        sizes.sum()
    }

    pub(super) fn drop_checkpoints_after(&mut self, n_tokens: usize) {
        let is_before = |checkpoint: &Checkpoint| checkpoint.n_tokens <= n_tokens;
        self.checkpoints.retain(is_before);
    }

    /// Rewinds `context` to the last checkpoint. Returns the number of tokens then in the cache; 0
    /// if no checkpoint can be restored.
    pub(super) fn rewind_to_checkpoint(&mut self, context: &mut Context) -> usize {
        if let Some(last) = self.checkpoints.last()
            && context.set_recurrent_state(&last.states)
            && context.remove(0, last.n_tokens..self.tokens.len())
            && context.has_window_before(last.n_tokens)
        {
            return last.n_tokens;
        }
        context.clear();
        self.checkpoints.clear();
        0
    }
}

#[cfg(test)]
mod tests;
