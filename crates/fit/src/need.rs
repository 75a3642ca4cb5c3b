//! The memory that one model needs.

use serde::{Deserialize, Serialize};

/// The choice of the KV cache type. MLX uses it only for parked and saved conversations, because its
/// responses attend to only one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvCacheChoice {
    /// The fastest type on this device.
    #[default]
    Automatic,
    /// 16 bits or more, even if fewer bits are faster.
    Full,
    /// The smallest type without visible loss, even if it is slower.
    Small,
}

/// The memory that a model needs, by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryNeed {
    /// Weights, in the type in which this machine computes with them.
    pub weight_bytes: u64,
    /// KV cache of a full context; 0 if the files do not say enough.
    pub kv_cache_bytes: u64,
    /// Peak of the activations: a prefill step, or the logits.
    pub activation_bytes: u64,
    /// Caches that can be freed: buffers for reuse, checkpoints.
    pub cache_bytes: u64,
    /// Maximum of the KV caches of other conversations, which can be freed.
    #[serde(default)]
    pub parked_bytes: u64,
    /// The context length that `kv_cache_bytes` is for: the lower of the limits of the model and
    /// the caller.
    pub context_length: usize,
}

impl MemoryNeed {
    /// Returns the sum of all parts.
    pub fn total_bytes(&self) -> u64 {
        [
            self.weight_bytes,
            self.kv_cache_bytes,
            self.activation_bytes,
            self.cache_bytes,
            self.parked_bytes,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// Returns the bytes that the model needs for each response beyond the first that it generates at the
    /// same time: a KV cache and the buffers of its steps.
    pub fn further_response_bytes(&self) -> u64 {
        let parts = [self.kv_cache_bytes, self.activation_bytes, self.cache_bytes];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    /// Returns the need of this model with a draft model beside it, which needs `draft` and has no KV
    /// caches of other conversations.
    #[must_use]
    pub fn with_draft(&self, draft: &Self) -> Self {
        Self {
            weight_bytes: self.weight_bytes.saturating_add(draft.weight_bytes),
            kv_cache_bytes: self.kv_cache_bytes.saturating_add(draft.kv_cache_bytes),
            activation_bytes: self.activation_bytes.saturating_add(draft.activation_bytes),
            cache_bytes: self.cache_bytes.saturating_add(draft.cache_bytes),
            ..*self
        }
    }
}
