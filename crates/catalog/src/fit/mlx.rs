//! What a folder of safetensors needs where MLX runs it, and the sizes that this follows from: the
//! room that runs it takes both from here, so what people are shown is what decides at a load.
//!
//! The sums follow what that room allocates, so a change of what is kept or copied there is a change
//! here. Its `tests/memory_need.rs` holds them against MLX's own count.

use transom_fit::MemoryNeed;

use super::{product, sum, tokens};
use crate::facts::{LayerKind, ModelFacts};

/// FreedSpace buffers that MLX may keep for reuse. Enough for the temporaries of a prefill chunk of a
/// large model; without a bound MLX keeps whatever the longest prompt needed.
pub const ALLOCATOR_CACHE_BYTES: u64 = 256 << 20;

/// Tokens of a prefill step on a Mac or a processor: enough to fill the device, few enough that it
/// can be cancelled within a second or so.
pub const PREFILL_CHUNK: u64 = 512;

/// Tokens by which the buffers of a cache grow: rare enough to make copies cheap, small enough to
/// waste little (mlx-lm grows by the same step).
pub const GROWTH_STEP: u64 = 256;

/// Tokens that are kept beyond the window, so that a conversation whose last few tokens come back
/// in another form is still taken up where they begin.
pub const WINDOW_SLACK: u64 = 16;

/// Where a pin of all layers takes no more than this, two are kept, else one.
pub const SMALL_PIN_BYTES: u64 = 64 << 20;

/// Rows of a token that live at once in the chunked delta rule.
const RECURRENT_COPIES: u64 = 36;

/// Rows of a key head's memory: all hybrid models of today have 128.
const MEMORY_DEPTH: u64 = 128;

/// Copies of the logits that the sampler's filters make: sorted values, their order, probabilities.
const SAMPLER_COPIES: u64 = 8;

/// The form in which weights are computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// As stored, on a GPU.
    AsStored,
    /// Dense f32, on a processor.
    Dense,
    /// TensorTypeStats words as stored and all other numbers in f32, on a processor.
    TensorTypeStats,
}

/// Returns true if dense f32 weights take at most `dense_limit_bytes`.
pub fn fits_dense(facts: &ModelFacts, dense_limit_bytes: u64) -> bool {
    facts.n_parameters.saturating_mul(4) <= dense_limit_bytes
}

/// A quarter of the memory: dense f32 weights of up to this size leave room for a browser beside
/// them.
pub fn dense_limit_bytes(memory_bytes: u64) -> u64 {
    memory_bytes / 4
}

/// What the model needs with its weights in this form and steps of at most `prefill_chunk` tokens.
/// `context_length` is at most the model's own.
pub fn need(
    facts: &ModelFacts,
    weights: Weights,
    prefill_chunk: u64,
    context_length: u64,
) -> MemoryNeed {
    let element_bytes = element_bytes(facts, weights);
    let chunk = prefill_chunk.min(context_length);
    MemoryNeed {
        weight_bytes: weight_bytes(facts, weights),
        kv_cache_bytes: kv_cache_bytes(facts, context_length, element_bytes),
        activation_bytes: sum(&[
            step_bytes(facts, weights, chunk, context_length, element_bytes),
            product(&[SAMPLER_COPIES, facts.vocab_size.unwrap_or(0), 4]),
        ]),
        cache_bytes: ALLOCATOR_CACHE_BYTES.saturating_add(pinned_bytes(
            facts,
            context_length,
            element_bytes,
        )),
        context_length: tokens(context_length),
    }
}

/// Bytes of an activation's element, and of one of the cache: f32 on a processor, else as wide as
/// the widest float in the files.
pub(super) fn element_bytes(facts: &ModelFacts, weights: Weights) -> u64 {
    let is_wide = facts.mix.iter().any(|packed| packed.kind == "F32");
    if is_wide || weights != Weights::AsStored {
        4
    } else {
        2
    }
}

fn weight_bytes(facts: &ModelFacts, weights: Weights) -> u64 {
    match weights {
        Weights::AsStored => facts.weight_bytes,
        Weights::Dense => facts.n_parameters.saturating_mul(4),
        Weights::Packed => {
            let kinds = facts.mix.iter();
            let widened = kinds.map(|packed| match packed.kind.as_str() {
                "BF16" | "F16" => packed.bytes.saturating_mul(2),
                _ => packed.bytes,
            });
            widened.fold(0, u64::saturating_add)
        }
    }
}

/// A token's keys and values in all layers that attend to everything, and in all with a window.
struct Rows {
    full: u64,
    windowed: u64,
}

impl Rows {
    fn of(facts: &ModelFacts, element_bytes: u64) -> Self {
        let row = |length: u64| length.checked_mul(element_bytes);
        Self {
            full: facts.kept(1, 0, row).unwrap_or(0),
            windowed: facts.kept(0, 1, row).unwrap_or(0),
        }
    }
}

/// Tokens that the buffers of a layer without a window have room for at most when they hold
/// `n_tokens`.
fn capacity(n_tokens: u64) -> u64 {
    n_tokens.saturating_add(GROWTH_STEP)
}

/// Tokens that the buffers of a layer with a window of `window` tokens have room for at most after
/// `n_tokens`: never more than window + 271, however long the conversation. While a chunk is
/// prefilled, its keys and those of the window before it live beside them. Each pinned place (one,
/// or two where [`SMALL_PIN_BYTES`] allows) takes at most as much again, once the window has moved
/// past it.
pub fn windowed_capacity(n_tokens: u64, window: u64) -> u64 {
    // Beside itself a token sees one less than the window; one at least is kept.
    let needed = window.saturating_sub(1).max(1);
    let limit = needed.saturating_add(WINDOW_SLACK + GROWTH_STEP);
    capacity(n_tokens).min(limit)
}

/// What all layers keep with the context full: keys and values in whole growth steps, of layers with
/// a window no more than that asks for, and states. Of those, a convolution's counts as wide as the
/// rest, though it may have two bytes an element.
fn kv_cache_bytes(facts: &ModelFacts, context: u64, element_bytes: u64) -> u64 {
    let rows = Rows::of(facts, element_bytes);
    let window = facts.sliding_window.unwrap_or(0);
    sum(&[
        product(&[rows.full, capacity(context)]),
        product(&[rows.windowed, windowed_capacity(context, window)]),
        facts.state_bytes().unwrap_or(u64::MAX),
    ])
}

/// What pinned places keep, to which a conversation may come back: all that windows and states would
/// lose. Nothing while no window has moved.
fn pinned_bytes(facts: &ModelFacts, context: u64, element_bytes: u64) -> u64 {
    let rows = Rows::of(facts, element_bytes);
    let most = windowed_capacity(u64::MAX, facts.sliding_window.unwrap_or(0));
    let windowed = match capacity(context) > most {
        true => product(&[rows.windowed, most]),
        false => 0,
    };
    let pin = windowed.saturating_add(facts.state_bytes().unwrap_or(u64::MAX));
    match pin <= SMALL_PIN_BYTES {
        true => 2 * pin,
        false => pin,
    }
}

/// The most that lives at once in a prefill step beside weights and cache: one layer's temporaries,
/// and one layer's cache while it grows into a new buffer.
fn step_bytes(
    facts: &ModelFacts,
    weights: Weights,
    chunk: u64,
    context: u64,
    element_bytes: u64,
) -> u64 {
    let heads = facts.n_heads.unwrap_or(1);
    let kv_heads = most_kv_heads(facts).unwrap_or(heads);
    let head_size = facts.key_length.unwrap_or(128);
    let hidden = facts.hidden_size.unwrap_or(product(&[heads, head_size]));
    let feed_forward = facts.feed_forward_length.unwrap_or(product(&[4, hidden]));
    let of_heads = product(&[heads.saturating_add(product(&[2, kv_heads])), head_size]);
    let widths = product(&[3, sum(&[hidden, of_heads, feed_forward])]);
    let layer = product(&[chunk, widths, element_bytes]);
    // Each expert works on a copy of the token.
    let copies = product(&[3, chunk, facts.n_used_experts, hidden, element_bytes]);
    let n_full = facts.n_layers_of(LayerKind::Full);
    let n_attending = n_full.saturating_add(facts.n_layers_of(LayerKind::Sliding));
    // Tokens that a token of the chunk may see, or that stand beside those in one product.
    let window = facts.sliding_window.unwrap_or(0);
    let in_window = context.min(window.saturating_add(chunk));
    let seen = if n_full > 0 { context } else { in_window };
    // Scores and their softmax; and one mask for all layers.
    let has_scores = weights != Weights::AsStored || !has_fused_attention(head_size);
    let mask = match has_scores && n_attending > 0 {
        true => product(&[chunk, seen, element_bytes]),
        false => 0,
    };
    let scores = product(&[2, heads, mask]);
    // Of the experts' copies and the scores not all lives at once: a layer is mostly through with the
    // one when it comes to the other (seen from 300 to 2,048 tokens of context).
    let most = scores.max(copies).saturating_add(scores.min(copies) / 2);
    let growing = growing_bytes(facts, context, chunk, element_bytes);
    sum(&[layer, mask, most, growing, recurrent_bytes(facts, chunk)])
}

/// Head sizes for which MLX's Metal and CUDA attention keeps no matrix of scores in prefill
/// (`ScaledDotProductAttention::use_fallback` in MLX 0.32).
fn has_fused_attention(head_size: u64) -> bool {
    matches!(head_size, 64 | 80 | 128)
}

/// Key-value heads of the layers whose heads `key_length` is of: those that attend to all, if any.
fn most_kv_heads(facts: &ModelFacts) -> Option<u64> {
    let heads = facts.n_kv_heads.iter().enumerate();
    let of_full = heads.filter(|(layer, _)| facts.layer(*layer) == LayerKind::Full);
    let of_full = of_full.map(|(_, &n)| n).max();
    of_full.or_else(|| facts.n_kv_heads.iter().copied().max())
}

/// One layer's cache while it grows into a new buffer.
fn growing_bytes(facts: &ModelFacts, context: u64, chunk: u64, element_bytes: u64) -> u64 {
    let rows = Rows::of(facts, element_bytes);
    let n_full = facts.n_layers_of(LayerKind::Full);
    let n_windowed = facts.n_layers_of(LayerKind::Sliding);
    if let Some(row) = rows.full.checked_div(n_full) {
        return product(&[2, capacity(context), row]);
    }
    match rows.windowed.checked_div(n_windowed) {
        Some(row) => {
            let held = windowed_capacity(context, facts.sliding_window.unwrap_or(0));
            product(&[2, held.saturating_add(chunk), row])
        }
        None => 0,
    }
}

/// What a recurrent layer works in: it goes through a chunk in f32, in rows as wide as its memory is
/// deep.
fn recurrent_bytes(facts: &ModelFacts, chunk: u64) -> u64 {
    if facts.n_layers_of(LayerKind::Linear) == 0 {
        return 0;
    }
    let elements = facts.linear_state_bytes / 4;
    let wide = product(&[RECURRENT_COPIES, elements]) / MEMORY_DEPTH;
    product(&[chunk, wide, 4])
}
