//! How a model runs on this machine. The catalog's `fit::llama` makes the choices that determine
//! the memory need; all of them were measured.
//!
//! | | GPU | CPU |
//! |---|---|---|
//! | layers | all on the GPU | |
//! | flash attention | on | off, unless the cache is Q8_0 |
//! | keys and values, if the user did not choose | Q8_0 | F16; Q8_0 if memory is short |
//! | weights | mapped | mapped, or read if llama.cpp repacks them |
//!
//! On x86 flash attention over Q8_0 keys and values halves the speed of prefill and decode.
//!
//! Rule: the same model on the same machine always takes the same steps, so that the same prompt
//! rounds the same way.

use transom_catalog::{KvType, ModelFacts};

/// Returns true if the weights are mapped from the file, so the system can drop their pages and
/// read them again at any time.
///
/// llama.cpp repacks some weights for this CPU and keeps the copy in addition to the mapped pages:
/// a third more memory for a mix such as Q4_K_M. So such files are read instead, and their weights
/// are in memory once.
pub(crate) fn maps_weights(has_gpu: bool, facts: &ModelFacts) -> bool {
    if has_gpu {
        return true;
    }
    let types = repacked_types();
    let mix = facts.mix.iter();
    let repacked = mix.filter(|packed| types.contains(&packed.kind.as_str()));
    let repacked_bytes: u64 = repacked.map(|packed| packed.bytes).sum();
    // A few repacked tensors are less important than clean pages for all others.
    repacked_bytes < facts.weight_bytes / 20
}

pub(crate) fn describe(has_gpu: bool, n_threads: usize, cache_type: KvType) -> String {
    let cache = describe_type(cache_type);
    format!("{}, {cache} KV cache", describe_weights(has_gpu, n_threads))
}

/// Returns the description of a model without a KV cache that lasts.
pub(crate) fn describe_weights(has_gpu: bool, n_threads: usize) -> String {
    let device = match (has_gpu, n_threads) {
        (true, _) => "the GPU".to_owned(),
        (false, 1) => "the CPU with 1 thread".to_owned(),
        (false, n) => format!("the CPU with {n} threads"),
    };
    format!("packed weights on {device}")
}

/// Returns the memory layout of the cache. A saved cache with another layout cannot be loaded.
pub(crate) fn describe_cache(cache_type: KvType, flash_attention: bool) -> String {
    let values = match flash_attention {
        true => "by token",
        false => "transposed",
    };
    format!("{}, values {values}", describe_type(cache_type))
}

fn describe_type(cache_type: KvType) -> &'static str {
    match cache_type {
        KvType::F16 => "f16",
        KvType::Q8_0 => "q8_0",
    }
}

/// Weight types that llama.cpp repacks for this CPU (`ggml_repack_get_optimal_repack_type`).
/// `tests/weights.rs` compares this list with llama.cpp's allocations.
#[cfg(target_arch = "x86_64")]
fn repacked_types() -> &'static [&'static str] {
    static TYPES: [&str; 5] = ["Q4_0", "Q4_K", "IQ4_NL", "MXFP4", "Q2_K"];
    if std::arch::is_x86_feature_detected!("avx512f") {
        &TYPES
    } else if std::arch::is_x86_feature_detected!("avx2") {
        &TYPES[..4]
    } else {
        &[]
    }
}

#[cfg(target_arch = "aarch64")]
fn repacked_types() -> &'static [&'static str] {
    &[
        "Q1_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL", "MXFP4",
    ]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn repacked_types() -> &'static [&'static str] {
    &[]
}
