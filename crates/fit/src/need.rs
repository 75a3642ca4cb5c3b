//! The memory that one model needs.

use serde::{Deserialize, Serialize};

/// How keys and values are kept. An engine with one form of cache has that one whatever is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvCacheChoice {
    /// As is fastest on this device.
    #[default]
    Automatic,
    /// In 16 bits or more, even where fewer are faster.
    Full,
    /// In as few bytes as the engine can without visible loss, even where that is slower.
    Small,
}

/// Bytes that a model will need, by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryNeed {
    /// Weights, in the form in which this machine computes with them.
    pub weight_bytes: u64,
    /// KV cache with the context full; 0 where the files do not say enough.
    pub kv_cache_bytes: u64,
    /// Activations at their peak: a prefill step, or the logits.
    pub activation_bytes: u64,
    /// Caches that may be dropped: freed buffers kept for reuse, prompt cache.
    pub cache_bytes: u64,
    /// Tokens of context that `kv_cache_bytes` is for: the least of the model's own limit and the
    /// caller's.
    pub context_length: usize,
}

impl MemoryNeed {
    /// All parts together.
    pub fn total_bytes(&self) -> u64 {
        [
            self.weight_bytes,
            self.kv_cache_bytes,
            self.activation_bytes,
            self.cache_bytes,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}
