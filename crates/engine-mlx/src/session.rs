//! A session: the tokens of a conversation and their KV cache, of which the next prompt reuses its
//! prefix.
//!
//! Rule: all layers are at the same position, which every layer can continue exactly. If a prompt
//! leaves the cached tokens at a position that some layer cannot rewind to, the session rewinds to
//! the last position before it that all layers can rewind to.

use mlx_rs::Array;
use mlx_rs::transforms::eval;
use transom_catalog::fit::mlx::SMALL_CHECKPOINT_BYTES;
use transom_engine::generation::common_prefix_len;
use transom_engine::{ConversationId, ParkedState};

use crate::error::MlxResult;
use crate::kv_cache::LayerCache;
use crate::nn::Transformer;

/// The cached tokens and the caches of all layers, which contain exactly these tokens.
#[derive(Debug)]
pub(crate) struct Session {
    tokens: Vec<u32>,
    caches: Vec<LayerCache>,
    /// The conversation of the last request, if it has an id.
    conversation: Option<ConversationId>,
    /// See [`Transformer::quantizes_parked`].
    quantizes_parked: bool,
}

impl Session {
    pub(crate) fn new(transformer: &Transformer) -> Self {
        let caches = transformer.new_caches();
        Self::from_saved(Vec::new(), caches, None, transformer.quantizes_parked)
    }

    pub(crate) fn from_saved(
        tokens: Vec<u32>,
        caches: Vec<LayerCache>,
        conversation: Option<ConversationId>,
        quantizes_parked: bool,
    ) -> Self {
        Self {
            tokens,
            caches,
            conversation,
            quantizes_parked,
        }
    }

    pub(crate) fn quantizes_parked(&self) -> bool {
        self.quantizes_parked
    }

    pub(crate) fn caches(&self) -> &[LayerCache] {
        &self.caches
    }

    /// Returns the caches, to append tokens. [`Session::processed`] must follow.
    pub(crate) fn caches_mut(&mut self) -> &mut [LayerCache] {
        &mut self.caches
    }

    pub(crate) fn processed(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
    }

    /// Returns all arrays of the caches, to be evaluated.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.caches.iter().flat_map(LayerCache::arrays)
    }

    /// Returns how many tokens of `prompt` would not need prefill with this session: fewer than
    /// `prompt` has, because the logits after its last token are needed.
    pub(crate) fn reusable_tokens(&self, prompt: &[u32]) -> usize {
        let shared = common_prefix_len(&self.tokens, prompt);
        self.rewind_target(shared.min(prompt.len().saturating_sub(1))) as usize
    }

    /// Keeps the first `n_tokens` tokens, which [`Session::reusable_tokens`] returned for a prompt
    /// of this conversation. If the session was parked, it can append tokens again.
    ///
    /// # Errors
    /// The session cannot be used any more.
    pub(crate) fn continue_from(
        &mut self,
        n_tokens: usize,
        conversation: Option<ConversationId>,
    ) -> MlxResult<()> {
        self.rewind(n_tokens);
        self.conversation = conversation;
        self.caches.iter_mut().try_for_each(LayerCache::dequantize)
    }

    /// Prepares the session to be parked: computes all arrays, and converts complete blocks to 8 bits if
    /// the model does that. One layer after another, so no more than one is in memory twice.
    ///
    /// # Errors
    /// The session cannot be used any more.
    pub(crate) fn quantize(&mut self) -> MlxResult<()> {
        self.evaluate()?;
        match self.quantizes_parked {
            true => self.caches.iter_mut().try_for_each(LayerCache::quantize),
            false => Ok(()),
        }
    }

    /// Returns a session with the first `n_tokens` tokens, which [`Session::reusable_tokens`]
    /// returned, and a checkpoint after them. Neither session ever writes to an array of the other.
    pub(crate) fn fork(&self, n_tokens: usize) -> MlxResult<Self> {
        let caches = self.caches.iter();
        let caches = caches.map(|cache| cache.fork(n_tokens as i32));
        let tokens = self.tokens[..n_tokens].to_vec();
        let caches = caches.collect::<MlxResult<_>>()?;
        let mut fork = Self::from_saved(tokens, caches, None, self.quantizes_parked);
        fork.evaluate()?;
        fork.add_checkpoint();
        Ok(fork)
    }

    /// Computes all arrays. An array that was not computed keeps those in memory that it depends on.
    pub(crate) fn evaluate(&self) -> MlxResult<()> {
        eval(self.arrays())
    }

    /// Returns the last position, at or before `n_tokens`, to which all layers can rewind.
    fn rewind_target(&self, n_tokens: usize) -> i32 {
        let mut position = n_tokens.min(self.tokens.len()) as i32;
        loop {
            let targets = self
                .caches
                .iter()
                .map(|cache| cache.rewind_target(position));
            match targets.min() {
                Some(target) if target < position => position = target,
                _ => return position,
            }
        }
    }

    /// Rewinds to `n_tokens`, or to the last position before it to which all layers can rewind.
    pub(crate) fn rewind(&mut self, n_tokens: usize) {
        let position = self.rewind_target(n_tokens);
        for cache in &mut self.caches {
            cache.rewind(position);
        }
        self.tokens.truncate(position as usize);
    }

    /// Saves a checkpoint of this position in every layer.
    pub(crate) fn add_checkpoint(&mut self) {
        if self.tokens.is_empty() {
            return;
        }
        let bytes: u64 = self.caches.iter().map(LayerCache::checkpoint_bytes).sum();
        let n_checkpoints = if bytes <= SMALL_CHECKPOINT_BYTES {
            2
        } else {
            1
        };
        for cache in &mut self.caches {
            cache.add_checkpoint(n_checkpoints);
        }
    }

    /// Returns true if a layer has a recurrent state, which can rewind only to checkpoints.
    pub(crate) fn has_states(&self) -> bool {
        let is_state = |cache: &LayerCache| matches!(cache, LayerCache::State(_));
        self.caches.iter().any(is_state)
    }

    /// Returns true if a layer has the keys of all tokens.
    pub(crate) fn has_growing_caches(&self) -> bool {
        self.caches.iter().any(|cache| !cache.has_checkpoints())
    }

    /// Rewinds the caches to the recorded tokens, if a failed or canceled step appended more.
    pub(crate) fn drop_unrecorded(&mut self) {
        let n_tokens = self.tokens.len() as i32;
        if self.caches.iter().any(|cache| cache.n_tokens() != n_tokens) {
            self.rewind(self.tokens.len());
        }
    }

    pub(crate) fn clear(&mut self) {
        self.rewind(0);
    }
}

impl ParkedState for Session {
    fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    fn conversation(&self) -> Option<ConversationId> {
        self.conversation
    }

    fn bytes(&self) -> u64 {
        self.caches.iter().map(LayerCache::bytes).sum()
    }

    fn parked_bytes(&self) -> u64 {
        match self.quantizes_parked {
            true => self.caches.iter().map(LayerCache::quantized_bytes).sum(),
            false => self.bytes(),
        }
    }
}

#[cfg(test)]
mod tests;
