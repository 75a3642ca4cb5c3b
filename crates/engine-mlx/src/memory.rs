//! What a model will need in memory, computed from its files; and giving back what is free.
//!
//! The figures follow what the rest of this room allocates, so a change of what is kept or copied
//! there is a change here. `tests/memory_need.rs` holds them against MLX's own count.

use mlx_rs::Dtype;
use transom_engine::{Limits, MemoryNeed};

use crate::device::Compute;
use crate::kv_cache;
use crate::models::ModelSize;
use crate::weights::WeightFiles;

/// Freed buffers that MLX may keep for reuse. Enough for the temporaries of a prefill chunk of a
/// large model; without a bound MLX keeps whatever the longest prompt needed.
pub(crate) const ALLOCATOR_CACHE_BYTES: usize = 256 << 20;

/// The need of a model of `n_parameters` and `size`, whose weights lie in `files`.
pub(crate) fn memory_need(
    files: &WeightFiles,
    size: &ModelSize,
    n_parameters: u64,
    compute: Compute,
    limits: &Limits,
) -> MemoryNeed {
    let context_length = context_length(size, limits);
    let element_bytes = activation_element_bytes(files, compute);
    let kv_cache_bytes = kv_cache_bytes(size, context_length, element_bytes);
    let chunk = limits.prefill_chunk.min(compute.prefill_chunk());
    let activation_bytes = activation_bytes(size, context_length, chunk, element_bytes, compute);
    MemoryNeed {
        weight_bytes: weight_bytes(files, n_parameters, compute),
        kv_cache_bytes,
        activation_bytes,
        cache_bytes: ALLOCATOR_CACHE_BYTES as u64
            + pinned_bytes(size, context_length, element_bytes),
        context_length,
    }
}

/// Tokens that a model attends to under `limits`.
pub(crate) fn context_length(size: &ModelSize, limits: &Limits) -> usize {
    size.context_length.min(limits.context_length).max(1)
}

fn weight_bytes(files: &WeightFiles, n_parameters: u64, compute: Compute) -> u64 {
    match compute {
        Compute::Metal | Compute::Cuda => files.total_bytes(),
        Compute::CpuDense => n_parameters * 4,
        // Packed words stay as stored, all that is a number becomes f32.
        Compute::CpuQuantized => files
            .iter()
            .map(|(_, tensor)| match tensor.dtype() {
                Dtype::Uint32 => tensor.n_bytes(),
                _ => tensor.n_elements() * 4,
            })
            .sum(),
    }
}

/// Bytes of an activation's element: f32 on a CPU, else as wide as the widest float in the files.
fn activation_element_bytes(files: &WeightFiles, compute: Compute) -> u64 {
    let is_wide = |dtype| dtype == Dtype::Float32;
    if compute.is_cpu() || files.iter().any(|(_, tensor)| is_wide(tensor.dtype())) {
        4
    } else {
        2
    }
}

/// Bytes of a token's keys and values in one layer.
fn row_bytes(size: &ModelSize, element_bytes: u64) -> u64 {
    2 * (size.n_kv_heads * size.head_dim) as u64 * element_bytes
}

/// Features of all layers' keys together: of layers that keep all, and of those with a window.
fn kv_widths(size: &ModelSize) -> (u64, u64) {
    let (full, windowed) = size.kv_widths.unwrap_or_else(|| {
        let width = size.n_kv_heads * size.head_dim;
        let n_full = size.n_layers - size.n_windowed_layers - size.n_recurrent_layers;
        (n_full * width, size.n_windowed_layers * width)
    });
    (full as u64, windowed as u64)
}

/// What all layers keep with the context full: keys and values in whole growth steps, of layers with
/// a window no more than that asks for, and states. Of those, a convolution's counts as wide as the
/// rest, though it may have two bytes an element.
fn kv_cache_bytes(size: &ModelSize, context_length: usize, element_bytes: u64) -> u64 {
    let full = 2 * kv_widths(size).0 * kv_cache::capacity(context_length) as u64;
    full * element_bytes + windowed_bytes(size, context_length, element_bytes) + state_bytes(size)
}

fn windowed_bytes(size: &ModelSize, context_length: usize, element_bytes: u64) -> u64 {
    let rows = kv_cache::windowed_capacity(context_length, size.window) as u64;
    2 * kv_widths(size).1 * rows * element_bytes
}

fn state_bytes(size: &ModelSize) -> u64 {
    (size.n_recurrent_layers * state_elements(size)) as u64 * 4
}

fn state_elements(size: &ModelSize) -> usize {
    size.memory_elements + size.conv_elements
}

/// What pinned places keep, to which a conversation may come back: all that windows and states would
/// lose. Nothing while no window has moved.
fn pinned_bytes(size: &ModelSize, context_length: usize, element_bytes: u64) -> u64 {
    let most = kv_cache::windowed_capacity(usize::MAX / 2, size.window);
    let has_moved = kv_cache::capacity(context_length) > most;
    let windowed = if has_moved {
        windowed_bytes(size, context_length, element_bytes)
    } else {
        0
    };
    let pin = windowed + state_bytes(size);
    if pin <= kv_cache::SMALL_PIN_BYTES {
        2 * pin
    } else {
        pin
    }
}

/// The most that lives at once beside weights and cache: in a prefill step, one layer's temporaries
/// and one layer's cache while it grows into a new buffer; in a decode step, the logits and what
/// the sampler makes of them.
fn activation_bytes(
    size: &ModelSize,
    context_length: usize,
    chunk: usize,
    element_bytes: u64,
    compute: Compute,
) -> u64 {
    let chunk = chunk.min(context_length) as u64;
    let heads = ((size.n_heads + 2 * size.n_kv_heads) * size.head_dim) as u64;
    let widths = 3 * (size.hidden_size as u64 + heads + size.intermediate_size as u64);
    let layer = chunk * widths * element_bytes;
    // Each expert works on a copy of the token.
    let copies = 3 * chunk * (size.n_used_experts * size.hidden_size) as u64 * element_bytes;
    let n_attending = size.n_layers - size.n_recurrent_layers;
    let has_full = n_attending > size.n_windowed_layers;
    // Tokens that a token of the chunk may see, or that stand beside those in one product.
    let in_window = context_length as u64;
    let in_window = in_window.min(size.window as u64 + chunk);
    let seen = if has_full {
        context_length as u64
    } else {
        in_window
    };
    // Scores and their softmax; and one mask for all layers.
    let has_scores = n_attending > 0 && (compute.is_cpu() || !has_fused_attention(size.head_dim));
    let mask = if has_scores {
        chunk * seen * element_bytes
    } else {
        0
    };
    let scores = 2 * size.n_heads as u64 * mask;
    let rows = if has_full {
        kv_cache::capacity(context_length) as u64
    } else if n_attending > 0 {
        kv_cache::windowed_capacity(context_length, size.window) as u64 + chunk
    } else {
        0
    };
    let growing = 2 * rows * row_bytes(size, element_bytes);
    // A recurrent layer works through a chunk in f32, in rows as wide as its memory is deep.
    let recurrent = if size.n_recurrent_layers > 0 {
        chunk * (RECURRENT_COPIES * state_elements(size) as u64 / MEMORY_DEPTH) * 4
    } else {
        0
    };
    let sampling = SAMPLER_COPIES * size.vocab_size as u64 * 4;
    // Of the experts' copies and the scores not all lives at once: a layer is mostly through with the
    // one when it comes to the other (seen from 300 to 2,048 tokens of context).
    let most = scores.max(copies) + scores.min(copies) / 2;
    layer + mask + most + growing + recurrent + sampling
}

/// Rows of a key head's memory: all hybrid models of today have 128.
const MEMORY_DEPTH: u64 = 128;

/// Rows of a token that live at once in the chunked delta rule.
const RECURRENT_COPIES: u64 = 36;

/// Copies of the logits that the sampler's filters make: sorted values, their order, probabilities.
const SAMPLER_COPIES: u64 = 8;

/// Head sizes for which MLX's Metal and CUDA attention keeps no matrix of scores in prefill
/// (`ScaledDotProductAttention::use_fallback` in MLX 0.32).
fn has_fused_attention(head_dim: usize) -> bool {
    matches!(head_dim, 64 | 80 | 128)
}

/// Gives buffers that are free back to the system: MLX keeps them for reuse, and so does the C
/// library below it.
pub(crate) fn give_spare_memory_back() {
    if let Err(error) = mlx_rs::memory::clear_cache() {
        tracing::warn!(%error, "the allocator's cache could not be cleared");
    }
    trim_heap();
}

/// glibc serves even large blocks from its heap once it has seen some freed, and gives them back
/// only when told to (`man malloc_trim`).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "malloc_trim has no safe form in libc")]
fn trim_heap() {
    // SAFETY: it takes a number and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim_heap() {}
