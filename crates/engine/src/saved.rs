//! KV caches of conversations as bytes, to be kept outside the model's process.
//!
//! A saved conversation consists of its tokens, of blocks and of a head. A block has keys and values
//! of consecutive tokens in those layers that only ever append, so it never changes. The head has
//! everything else: recurrent states, sliding windows and their checkpoints after the last token.
//!
//! Rule: an engine checks whatever it is given, and restores a conversation as a whole or not at
//! all.

use std::ops::Range;

use crate::error::EngineError;
use crate::request::ConversationId;

/// Largest number of tokens of a block.
pub const BLOCK_TOKENS: usize = 256;

/// A conversation whose KV cache is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedConversation<'a> {
    /// The conversation, if its requests had an id.
    pub id: Option<ConversationId>,
    /// The tokens in the KV cache.
    pub tokens: &'a [u32],
}

/// A saved conversation, to be restored.
pub struct SavedConversation<'a> {
    /// The conversation, if its requests had an id.
    pub id: Option<ConversationId>,
    /// All tokens.
    pub tokens: &'a [u32],
    /// What [`SavableCache::save_head`] returned.
    pub head: &'a [u8],
    /// The tokens of each block, in order and without gaps. Empty if the engine has no blocks.
    pub blocks: &'a [Range<usize>],
    /// Returns what [`SavableCache::save_block`] returned for the block with this index. Called in
    /// order, so that only one block has to be in memory.
    pub read_block: &'a mut dyn FnMut(usize) -> Result<Vec<u8>, EngineError>,
}

/// The KV caches of a model that can be saved.
pub trait SavableCache {
    /// Returns the conversations in memory: the current one first, then the others, the most
    /// recently used one first.
    fn conversations(&self) -> Vec<CachedConversation<'_>>;

    /// Returns true if conversations have blocks. Otherwise their heads contain everything.
    fn has_blocks(&self) -> bool;

    /// Returns a block of the `index`-th of [`SavableCache::conversations`].
    ///
    /// # Errors
    /// [`EngineError::Backend`] if the data cannot be read.
    fn save_block(&self, index: usize, tokens: Range<usize>) -> Result<Vec<u8>, EngineError>;

    /// Returns the head of the `index`-th of [`SavableCache::conversations`].
    ///
    /// # Errors
    /// [`EngineError::Backend`] if the data cannot be read.
    fn save_head(&self, index: usize) -> Result<Vec<u8>, EngineError>;

    /// Restores a conversation, which becomes the current one. The former one is parked.
    ///
    /// # Errors
    /// Nothing was restored, because the data belongs to another model, engine or KV type, is
    /// damaged, or needs too much memory. The model can be used; the former conversation may be
    /// parked.
    fn restore(&mut self, saved: SavedConversation<'_>) -> Result<(), EngineError>;
}

/// Returns an error for data that does not fit the model.
pub fn bad_saved_data(reason: impl ToString) -> EngineError {
    EngineError::backend("restoring a conversation", reason)
}

/// Splits tokens that have no block yet into blocks.
pub fn new_blocks(tokens: Range<usize>) -> Vec<Range<usize>> {
    let starts = tokens.clone().step_by(BLOCK_TOKENS);
    starts
        .map(|start| start..tokens.end.min(start + BLOCK_TOKENS))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_tokens_once() {
        assert!(new_blocks(0..0).is_empty());
        assert_eq!(new_blocks(0..256).len(), 1);
        assert_eq!(new_blocks(10..600), [10..266, 266..522, 522..600]);
    }
}
