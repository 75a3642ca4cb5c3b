//! How a model runs on this machine: the choices that were measured, in one place.
//!
//! | | GPU | CPU |
//! |---|---|---|
//! | layers | all on the GPU | |
//! | flash attention | on | off, unless the cache is Q8_0 |
//! | keys and values, unless they are chosen | Q8_0 | F16; Q8_0 where memory asks for it |
//!
//! On x86 flash attention over Q8_0 keys and values halves both prefill and decode.
//!
//! Rule: the same model on the same machine always takes the same steps, so that the same prompt
//! rounds the same way.

use transom_engine::{KvCacheChoice, Limits};

use crate::native::{self, CacheType, ContextParams};

/// Most tokens that are guessed ahead and checked in one step.
pub(crate) const MAX_DRAFT: usize = 16;

/// Most tokens of a prefill step. More bring no speed on any device, and a step on a GPU cannot be
/// stopped inside.
const MAX_PREFILL: usize = 512;

/// Where the work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    /// A GPU that llama.cpp was built for, such as Metal.
    Gpu,
    /// The processor.
    Cpu,
}

impl Device {
    /// What llama.cpp finds here.
    pub(crate) fn detect() -> Self {
        if native::supports_gpu() {
            Self::Gpu
        } else {
            Self::Cpu
        }
    }

    /// How keys and values are kept under `limits`. `head_sizes` are those of keys and values;
    /// blocks of Q8_0 need multiples of 32.
    pub(crate) fn cache_type(self, limits: &Limits, head_sizes: [u64; 2]) -> CacheType {
        let has_whole_blocks = head_sizes.iter().all(|size| *size > 0 && size % 32 == 0);
        let is_wanted = match limits.kv_cache {
            KvCacheChoice::Automatic => self == Self::Gpu,
            KvCacheChoice::Full => false,
            KvCacheChoice::Small => true,
        };
        if has_whole_blocks && is_wanted {
            CacheType::Q8_0
        } else {
            CacheType::F16
        }
    }

    /// Most tokens of a prefill step of a model with `n_parameters`.
    ///
    /// On a CPU a step shall take a second or two, for progress and for a thermal limit to take hold.
    pub(crate) fn prefill_chunk(self, limits: &Limits, n_parameters: u64) -> usize {
        let most = match (self, n_parameters) {
            (Self::Cpu, 2_500_000_000..) => 128,
            (Self::Cpu, 1_000_000_000..) => 256,
            (Self::Cpu | Self::Gpu, _) => MAX_PREFILL,
        };
        limits.prefill_chunk.clamp(1, most)
    }

    /// A context for `n_tokens`.
    pub(crate) fn context_params(
        self,
        n_tokens: usize,
        prefill_chunk: usize,
        cache_type: CacheType,
    ) -> ContextParams {
        ContextParams {
            n_tokens,
            n_batch: prefill_chunk.max(MAX_DRAFT + 1),
            n_logits: MAX_DRAFT + 1,
            cache_type,
            flash_attention: self == Self::Gpu || cache_type == CacheType::Q8_0,
        }
    }

    /// For people.
    pub(crate) fn describe(self, n_threads: usize, cache_type: CacheType) -> String {
        let cache = match cache_type {
            CacheType::F16 => "f16",
            CacheType::Q8_0 => "q8_0",
        };
        match self {
            Self::Gpu => format!("packed weights on the GPU, {cache} KV cache"),
            Self::Cpu => {
                let threads = if n_threads == 1 { "thread" } else { "threads" };
                format!("packed weights on the CPU with {n_threads} {threads}, {cache} KV cache")
            }
        }
    }
}
