//! Computes the memory that a folder of safetensors needs in MLX, and the sizes that it depends on.
//!
//! `engine-mlx` takes both from here, so an estimate equals the decision at the load. The sums follow
//! the allocations of that crate: if it stores or copies something else, this module must change.
//! Its `tests/memory_need.rs` compares them with MLX's own count.

use transom_fit::{KvCacheChoice, MemoryNeed};

use super::{is_small, product, sum, tokens};
use crate::facts::{LayerKind, ModelFacts};
use crate::machine::GpuClass;

/// Freed buffers that MLX may keep for reuse. This is enough for the temporaries of a prefill chunk
/// of a large model. Without a limit MLX keeps everything that the longest prompt needed.
pub const ALLOCATOR_CACHE_BYTES: u64 = 256 << 20;

/// Tokens by which the buffers of a cache grow: rare enough to make copies cheap, small enough to
/// waste little (mlx-lm grows by the same step). MLX on CUDA uses its fastest attention only for
/// buffers of whole steps.
pub const GROWTH_STEP: u64 = 256;

/// Tokens that are kept in addition to the window, so that the cached prefix is still usable if the
/// last few tokens of a conversation change, and wrong draft tokens can be removed.
pub const WINDOW_SLACK: u64 = 16;

/// Maximum tokens that one step of speculative decoding verifies, the last token of the response
/// included.
pub const MAX_STEP_WIDTH: u64 = 16;

// A step with only wrong draft tokens is still in the slack.
const _: () = assert!(MAX_STEP_WIDTH <= WINDOW_SLACK + 1);

/// If a checkpoint of all layers is at most this large, two are kept, else one.
pub const SMALL_CHECKPOINT_BYTES: u64 = 64 << 20;

/// Memory of queued layers beyond which a step waits for the device. Layers with so many temporary arrays
/// take a GPU longer than queueing the next ones.
pub const QUEUED_BYTES: u64 = 64 << 20;

/// The temporary arrays of a layer while it is queued, as a multiple of its hidden states: about 20 in the
/// 8B size of Qwen3 and 25 in the 0.6B size.
const LAYER_COPIES: u64 = 24;

/// Rows per token that exist at once in the chunked delta rule.
const RECURRENT_COPIES: u64 = 36;

/// Rows of a key head's memory. All current hybrid models have 128.
const MEMORY_DEPTH: u64 = 128;

/// Copies of the logits that the sampler's filters make: sorted values, their order, probabilities.
const SAMPLER_COPIES: u64 = 8;

/// The form of the weights in computations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// As stored, on a GPU.
    AsStored,
    /// Dense f32, on a CPU.
    Dense,
    /// Quantized words as stored and all other numbers in f32, on a CPU.
    Packed,
}

/// Returns true if dense f32 weights take at most `dense_limit_bytes`.
pub fn fits_dense(facts: &ModelFacts, dense_limit_bytes: u64) -> bool {
    facts.n_parameters.saturating_mul(4) <= dense_limit_bytes
}

/// Returns a quarter of the memory: dense f32 weights of up to this size leave enough memory for a
/// browser.
pub fn dense_limit_bytes(memory_bytes: u64) -> u64 {
    memory_bytes / 4
}

/// Returns true if parked and saved conversations have the keys and values of complete blocks in 8 bits,
/// with this choice of the user. MLX attends to plain keys and values, because with 8 bits it is slower, so
/// they have 16 bits while a response uses them, 32 on a CPU.
pub fn quantizes_parked(has_gpu: bool, kv: KvCacheChoice) -> bool {
    is_small(has_gpu, kv)
}

/// Returns the tokens of a prefill step on an Apple GPU of this class, or on a CPU: enough to use the
/// whole device, and few enough that a step takes about a second on the slowest chip of the class,
/// because a running step cannot be canceled.
pub fn prefill_chunk(facts: &ModelFacts, gpu: Option<GpuClass>) -> u64 {
    /// Millions of parameters that a token uses, between the sizes of common models. Beyond each, a
    /// step has half as many tokens.
    const SIZES: [u64; 6] = [1_300, 2_600, 5_500, 11_000, 22_000, 44_000];
    let Some(class) = gpu else {
        return 512;
    };
    let active = (facts.n_parameters as f64 * facts.active_share() / 1e6) as u64;
    let n_halvings = SIZES.iter().filter(|&&size| active > size).count();
    let chunk = (1024_u64 << class as u64) >> n_halvings;
    // A step reads the weights of nearly all experts, however many tokens it has.
    let least = if facts.n_used_experts > 0 { 512 } else { 128 };
    chunk.clamp(least, 2048)
}

/// Returns how many layers of a step are queued together: as many as have temporary arrays of half of
/// [`QUEUED_BYTES`], because queueing takes time of its own. `hidden_bytes` is the size of the step's hidden
/// states, and `growing_bytes` that of a layer's KV cache if it is replaced by a larger one.
pub fn layers_queued_together(hidden_bytes: u64, growing_bytes: u64) -> u64 {
    let layer = product(&[LAYER_COPIES, hidden_bytes]).saturating_add(growing_bytes);
    (QUEUED_BYTES / 2).div_ceil(layer.max(1))
}

/// Returns the memory that the model needs for one conversation, with weights in this form and steps
/// of at most `prefill_chunk` tokens. `context_length` is at most the model's own.
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
            product(&[
                SAMPLER_COPIES + MAX_STEP_WIDTH,
                facts.vocab_size.unwrap_or(0),
                4,
            ]),
        ]),
        cache_bytes: ALLOCATOR_CACHE_BYTES.saturating_add(checkpoint_bytes(
            facts,
            context_length,
            element_bytes,
        )),
        parked_bytes: 0,
        context_length: tokens(context_length),
    }
}

/// Returns the bytes of an element of activations and cache: f32 on a CPU, else as wide as the
/// widest float in the files.
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

/// The bytes of a token's keys and values in all layers with full attention, and with a window.
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

/// Returns the capacity in tokens of a layer without a window that holds `n_tokens`: whole steps.
pub fn capacity(n_tokens: u64) -> u64 {
    n_tokens
        .checked_next_multiple_of(GROWTH_STEP)
        .unwrap_or(u64::MAX)
}

/// Returns the capacity in tokens of a layer with this `window` after `n_tokens`: whole steps up to
/// the window, then at most window + 271, however long the conversation. While a chunk is prefilled,
/// its keys and those of the window before it exist as well. Each checkpoint (one, or two if
/// [`SMALL_CHECKPOINT_BYTES`] allows it) takes at most the same again, once the window has moved
/// past it.
pub fn windowed_capacity(n_tokens: u64, window: u64) -> u64 {
    // A token sees itself and one token less than the window; at least one is kept.
    let needed = window.saturating_sub(1).max(1);
    match capacity(n_tokens) {
        capacity if capacity <= window => capacity,
        _ => needed.saturating_add(WINDOW_SLACK + GROWTH_STEP),
    }
}

/// Returns the bytes of all layers with a full context: keys and values in whole growth steps, less
/// in layers with a window, and states. The state of a convolution counts as wide as the rest,
/// although it may have two bytes per element.
fn kv_cache_bytes(facts: &ModelFacts, context: u64, element_bytes: u64) -> u64 {
    let rows = Rows::of(facts, element_bytes);
    let window = facts.sliding_window.unwrap_or(0);
    sum(&[
        product(&[rows.full, capacity(context)]),
        product(&[rows.windowed, windowed_capacity(context, window)]),
        facts.state_bytes().unwrap_or(u64::MAX),
    ])
}

/// Returns the bytes of checkpoints, to which a conversation may return: everything that
/// windows and states would lose. Nothing while no window has moved.
fn checkpoint_bytes(facts: &ModelFacts, context: u64, element_bytes: u64) -> u64 {
    let rows = Rows::of(facts, element_bytes);
    let most = windowed_capacity(u64::MAX, facts.sliding_window.unwrap_or(0));
    let windowed = match context > most {
        true => product(&[rows.windowed, most]),
        false => 0,
    };
    let checkpoint = windowed.saturating_add(facts.state_bytes().unwrap_or(u64::MAX));
    match checkpoint <= SMALL_CHECKPOINT_BYTES {
        true => 2 * checkpoint,
        false => checkpoint,
    }
}

/// Returns the peak memory of a prefill step in addition to weights and cache: the temporaries of the
/// queued layers, and their caches while they grow into new buffers.
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
    // Each expert works on its own copy of the token.
    let copies = product(&[3, chunk, facts.n_used_experts, hidden, element_bytes]);
    let n_full = facts.n_layers_of(LayerKind::Full);
    let n_attending = n_full.saturating_add(facts.n_layers_of(LayerKind::Sliding));
    // Tokens that a token of the chunk may see, or that are in the same product.
    let window = facts.sliding_window.unwrap_or(0);
    let in_window = context.min(window.saturating_add(chunk));
    let seen = if n_full > 0 { context } else { in_window };
    // Scores and their softmax, and one mask for all layers.
    let has_scores = weights != Weights::AsStored || !has_fused_attention(head_size);
    let mask = match has_scores && n_attending > 0 {
        true => product(&[chunk, seen, element_bytes]),
        false => 0,
    };
    let scores = product(&[2, heads, mask]);
    // The experts' copies and the scores do not all exist at once: a layer has mostly finished the
    // one when it begins the other (measured with 300 to 2,048 tokens of context).
    let most = scores.max(copies).saturating_add(scores.min(copies) / 2);
    let growing = growing_bytes(facts, context, chunk, element_bytes);
    let layer = sum(&[layer, most, growing, recurrent_bytes(facts, chunk)]);
    let hidden_bytes = product(&[chunk, hidden, element_bytes]);
    let layers = match weights {
        Weights::AsStored => queued_bytes(facts, layer, hidden_bytes, growing),
        // On a CPU, MLX queues only a few operations ahead, so not all arrays of a layer exist at once.
        Weights::Dense | Weights::Packed => layer,
    };
    mask.saturating_add(layers)
}

/// Returns the memory of the queued layers of a step, of which each has `layer_bytes` of temporaries:
/// those that the device computes, and those that are queued meanwhile.
fn queued_bytes(
    facts: &ModelFacts,
    layer_bytes: u64,
    hidden_bytes: u64,
    growing_bytes: u64,
) -> u64 {
    let n_layers = facts.n_layers.unwrap_or(1);
    let n_together = layers_queued_together(hidden_bytes, growing_bytes).min(n_layers);
    let together = product(&[n_together, layer_bytes]);
    let before = product(&[n_layers - n_together, layer_bytes]);
    together.saturating_add(before.min(together.max(QUEUED_BYTES)))
}

/// Returns true for head sizes for which MLX's Metal and CUDA attention stores no matrix of scores in
/// prefill (`ScaledDotProductAttention::use_fallback` in MLX 0.32).
fn has_fused_attention(head_size: u64) -> bool {
    matches!(head_size, 64 | 80 | 128)
}

/// Returns the key-value heads of the layers that `key_length` describes: those with full attention,
/// if there are any.
fn most_kv_heads(facts: &ModelFacts) -> Option<u64> {
    let heads = facts.n_kv_heads.iter().enumerate();
    let of_full = heads.filter(|(layer, _)| facts.layer(*layer) == LayerKind::Full);
    let of_full = of_full.map(|(_, &n)| n).max();
    of_full.or_else(|| facts.n_kv_heads.iter().copied().max())
}

/// Returns the bytes of one layer's cache while it grows into a new buffer.
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

/// Returns the working memory of a recurrent layer, which processes a chunk in f32, in rows as wide
/// as the depth of its memory.
fn recurrent_bytes(facts: &ModelFacts, chunk: u64) -> u64 {
    if facts.n_layers_of(LayerKind::Linear) == 0 {
        return 0;
    }
    let elements = facts.linear_state_bytes / 4;
    let wide = product(&[RECURRENT_COPIES, elements]) / MEMORY_DEPTH;
    product(&[chunk, wide, 4])
}
