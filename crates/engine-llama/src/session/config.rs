//! How much memory a KV cache takes, and how it is computed.

use transom_catalog::KvType;
use transom_catalog::fit::llama::{self, MAX_DRAFT, context_capacity};
use transom_engine::Limits;

use crate::files::ModelFiles;
use crate::memory;
use crate::native::{ContextParams, Model};

#[derive(Debug, Clone)]
pub(crate) struct CacheConfig {
    pub(crate) cache_type: KvType,
    /// Computes attention without storing the matrix of scores.
    pub(crate) flash_attention: bool,
    pub(crate) prefill_chunk: usize,
    /// Maximum number of tokens.
    pub(crate) context_length: usize,
    /// Bytes of keys and values per token.
    pub(crate) bytes_per_token: u64,
    /// Bytes of recurrent states, which do not depend on the number of tokens.
    pub(crate) state_bytes: u64,
    /// See [`crate::files::ModelFiles::can_shift`].
    pub(crate) can_shift: bool,
    /// Keys are rotated for long texts; see [`crate::files::ModelFiles::original_context_entry`].
    pub(crate) is_for_long_text: bool,
    /// See [`transom_engine::Limits::parked_bytes`].
    pub(crate) parked_bytes: u64,
    /// Minimum number of responses that share steps; `usize::MAX` if none do.
    pub(crate) min_sharing: usize,
}

/// How many responses share steps. A step mostly waits for the weights, which it reads once for all.
const MIN_SHARING: usize = 2;

/// The same on a CPU with less than [`SMALL_WEIGHTS`], which are partly in its cache; see
/// `docs/benchmarks.md`.
const MIN_SHARING_SMALL: usize = 3;

const SMALL_WEIGHTS: u64 = 128 << 20;

impl CacheConfig {
    /// Returns the configuration for a model within `limits`, on a GPU or on the CPU.
    pub(crate) fn new(files: &ModelFiles, model: &Model, has_gpu: bool, limits: &Limits) -> Self {
        let facts = &files.facts;
        let cache_type = llama::kv_type(facts, has_gpu, limits.kv_cache);
        let kv_bytes = |n_tokens| llama::kv_cache_bytes(facts, n_tokens, cache_type);
        let max_chunk = llama::max_prefill(has_gpu) as usize;
        let context_length = memory::context_length(facts, limits);
        Self {
            cache_type,
            flash_attention: llama::uses_flash_attention(has_gpu, cache_type),
            prefill_chunk: limits.prefill_chunk.clamp(1, max_chunk),
            context_length,
            bytes_per_token: kv_bytes(1) - kv_bytes(0),
            state_bytes: kv_bytes(0),
            can_shift: files.can_shift(model.sliding_window(), cache_type),
            is_for_long_text: files.original_context_entry(context_length).is_some(),
            parked_bytes: limits.parked_bytes,
            min_sharing: if !model.attends_to_all() {
                usize::MAX
            } else if !has_gpu && model.n_bytes() < SMALL_WEIGHTS {
                MIN_SHARING_SMALL
            } else {
                MIN_SHARING
            },
        }
    }

    /// Returns the number of tokens for which a cache is allocated that holds `n_tokens`. It doubles
    /// up to the context length.
    pub(super) fn capacity(&self, n_tokens: usize) -> usize {
        let capacity = usize::try_from(context_capacity(n_tokens as u64));
        capacity.map_or(self.context_length, |n| n.min(self.context_length))
    }

    /// Returns how many tokens a step may have: those of a part of the prompt, or of a draft and the token
    /// before it.
    pub(crate) fn max_step(&self) -> usize {
        self.prefill_chunk.max(MAX_DRAFT + 1)
    }

    /// Returns the parameters of a context for `n_sequences`, each of up to `n_tokens` tokens.
    pub(super) fn context(&self, n_sequences: usize, n_tokens: usize) -> ContextParams {
        ContextParams {
            n_sequences,
            n_tokens,
            n_batch: self.max_step().max(n_sequences),
            n_logits: n_sequences.max(MAX_DRAFT + 1),
            cache_type: self.cache_type,
            flash_attention: self.flash_attention,
            embeds: false,
        }
    }

    /// Returns the bytes of a full cache beyond those of one for `capacity` tokens.
    pub(super) fn unallocated_bytes(&self, capacity: usize) -> u64 {
        self.context_length.saturating_sub(capacity) as u64 * self.bytes_per_token
    }
}
