//! The conversation that the model holds: tokens, and what every layer remembers of them.
//!
//! Rule: all layers stand at the same place, and never at one that a layer cannot compute exactly
//! from. Where a prompt leaves the conversation at a place that is lost, the last one before it that
//! can be had is taken, and what follows is read anew.

use mlx_rs::Array;
use transom_catalog::fit::mlx::SMALL_PIN_BYTES;

use crate::kv_cache::LayerCache;
use crate::nn::Transformer;

/// Tokens at the end of a prompt that open the answer rather than belong to what was said: the next
/// prompt may have others in their place (an opened reasoning section is not repeated).
pub(super) const OPENING_TOKENS: usize = 8;

/// Tokens whose keys and values the cache holds, and the cache: what the next turn can reuse.
#[derive(Debug)]
pub(crate) struct Session {
    tokens: Vec<u32>,
    cache: Vec<LayerCache>,
}

impl Session {
    /// An empty session for `transformer`.
    pub(crate) fn new(transformer: &Transformer) -> Self {
        Self::holding(Vec::new(), transformer.new_cache())
    }

    /// A session that has processed `tokens`, of which each layer of `cache` holds what it needs.
    pub(crate) fn holding(tokens: Vec<u32>, cache: Vec<LayerCache>) -> Self {
        Self { tokens, cache }
    }

    /// The tokens processed so far.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// What the layers remember of them.
    pub(crate) fn cache(&self) -> &[LayerCache] {
        &self.cache
    }

    /// The same, to process more; [`Session::processed`] must follow.
    pub(super) fn cache_mut(&mut self) -> &mut [LayerCache] {
        &mut self.cache
    }

    /// Says that the cache was given these tokens too.
    pub(super) fn processed(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
    }

    /// All arrays of the cache, to be evaluated.
    pub(super) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.cache.iter().flat_map(LayerCache::arrays)
    }

    /// Keeps what `prompt` shares with the tokens processed so far and forgets the rest. Returns
    /// the tokens kept, at least one fewer than `prompt` has: the last must be processed for its
    /// logits.
    pub(super) fn reuse(&mut self, prompt: &[u32]) -> usize {
        let shared = self
            .tokens
            .iter()
            .zip(prompt)
            .take_while(|(a, b)| a == b)
            .count();
        let wanted = shared.min(prompt.len().saturating_sub(1));
        self.go_back(wanted);
        self.tokens.len()
    }

    /// Goes back to `n_tokens`, or to the last place before it that all layers reach.
    fn go_back(&mut self, n_tokens: usize) {
        let mut place = n_tokens.min(self.tokens.len()) as i32;
        loop {
            let reached = self.cache.iter().map(|layer| layer.reach(place)).min();
            match reached {
                Some(reached) if reached < place => place = reached,
                _ => break,
            }
        }
        for layer in &mut self.cache {
            layer.rewind(place);
        }
        self.tokens.truncate(place as usize);
    }

    /// Makes this place one to come back to.
    pub(super) fn pin(&mut self) {
        if self.tokens.is_empty() {
            return;
        }
        let bytes: u64 = self.cache.iter().map(LayerCache::pin_bytes).sum();
        let n_pins = if bytes <= SMALL_PIN_BYTES { 2 } else { 1 };
        for layer in &mut self.cache {
            layer.pin(n_pins);
        }
    }

    /// Whether a place must be pinned when it is reached, because a moment later it is lost.
    pub(super) fn has_states(&self) -> bool {
        let is_state = |layer: &LayerCache| matches!(layer, LayerCache::State(_));
        self.cache.iter().any(is_state)
    }

    /// Sees to it that the cache holds no more than the tokens do, after a step that failed.
    pub(super) fn settle(&mut self) {
        let n_tokens = self.tokens.len() as i32;
        if self.cache.iter().any(|layer| layer.n_tokens() != n_tokens) {
            self.go_back(self.tokens.len());
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.go_back(0);
    }

    /// Bytes of the cache.
    pub(crate) fn bytes(&self) -> u64 {
        self.cache.iter().map(LayerCache::bytes).sum()
    }
}
