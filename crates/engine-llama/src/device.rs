//! How a model runs on this machine. What its memory follows from is chosen in the catalogue's
//! `fit::llama`; all of it was measured.
//!
//! | | GPU | CPU |
//! |---|---|---|
//! | layers | all on the GPU | |
//! | flash attention | on | off, unless the cache is Q8_0 |
//! | keys and values, unless they are chosen | Q8_0 | F16; Q8_0 where memory asks for it |
//! | weights | pages of the file | the same, or read where llama.cpp rearranges them |
//!
//! On x86 flash attention over Q8_0 keys and values halves both prefill and decode.
//!
//! Rule: the same model on the same machine always takes the same steps, so that the same prompt
//! rounds the same way.

use transom_catalog::fit::llama::{self, MAX_DRAFT};
use transom_catalog::{KvType, ModelFacts};
use transom_engine::Limits;

use crate::native::{self, ContextParams};

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

    /// How keys and values are kept under `limits`.
    pub(crate) fn cache_type(self, limits: &Limits, facts: &ModelFacts) -> KvType {
        llama::kv_type(facts, self == Self::Gpu, limits.kv_cache)
    }

    /// Most tokens of a prefill step.
    pub(crate) fn prefill_chunk(self, limits: &Limits, facts: &ModelFacts) -> usize {
        let most = llama::most_prefill(facts, self == Self::Gpu) as usize;
        limits.prefill_chunk.clamp(1, most)
    }

    /// A context for `n_tokens`.
    pub(crate) fn context_params(
        self,
        n_tokens: usize,
        prefill_chunk: usize,
        cache_type: KvType,
    ) -> ContextParams {
        ContextParams {
            n_tokens,
            n_batch: prefill_chunk.max(MAX_DRAFT + 1),
            n_logits: MAX_DRAFT + 1,
            cache_type,
            flash_attention: llama::uses_flash_attention(self == Self::Gpu, cache_type),
        }
    }

    /// Whether the weights of a model stay pages of its file, which the system may drop and read
    /// again at any time.
    ///
    /// Weights that llama.cpp rearranges for this processor are in memory a second time then, a third
    /// more in all for a mix such as Q4_K_M. So those files are read, and their weights are there
    /// once.
    pub(crate) fn maps_weights(self, facts: &ModelFacts) -> bool {
        if self == Self::Gpu {
            return true;
        }
        let kinds = rearranged_kinds();
        let mix = facts.mix.iter();
        let rearranged = mix.filter(|packed| kinds.contains(&packed.kind.as_str()));
        let rearranged_bytes: u64 = rearranged.map(|packed| packed.bytes).sum();
        // A few tensors of such a kind are worth less than clean pages for all others.
        rearranged_bytes < facts.weight_bytes / 20
    }

    /// For people.
    pub(crate) fn describe(self, n_threads: usize, cache_type: KvType) -> String {
        let cache = describe_type(cache_type);
        match self {
            Self::Gpu => format!("packed weights on the GPU, {cache} KV cache"),
            Self::Cpu => {
                let threads = if n_threads == 1 { "thread" } else { "threads" };
                format!("packed weights on the CPU with {n_threads} {threads}, {cache} KV cache")
            }
        }
    }

    /// How the cache lies in memory: one of another kind cannot be loaded.
    pub(crate) fn describe_cache(self, cache_type: KvType) -> String {
        let values = match llama::uses_flash_attention(self == Self::Gpu, cache_type) {
            true => "by token",
            false => "transposed",
        };
        format!("{}, values {values}", describe_type(cache_type))
    }
}

fn describe_type(cache_type: KvType) -> &'static str {
    match cache_type {
        KvType::F16 => "f16",
        KvType::Q8_0 => "q8_0",
    }
}

/// Kinds of packed weights of which llama.cpp keeps a copy in an order that suits this processor
/// (`ggml_repack_get_optimal_repack_type`). `tests/weights.rs` holds this to what it allocates.
#[cfg(target_arch = "x86_64")]
fn rearranged_kinds() -> &'static [&'static str] {
    static KINDS: [&str; 5] = ["Q4_0", "Q4_K", "IQ4_NL", "MXFP4", "Q2_K"];
    if std::arch::is_x86_feature_detected!("avx512f") {
        &KINDS
    } else if std::arch::is_x86_feature_detected!("avx2") {
        &KINDS[..4]
    } else {
        &[]
    }
}

#[cfg(target_arch = "aarch64")]
fn rearranged_kinds() -> &'static [&'static str] {
    &[
        "Q1_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL", "MXFP4",
    ]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn rearranged_kinds() -> &'static [&'static str] {
    &[]
}
