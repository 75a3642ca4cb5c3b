//! What a GGUF file needs where llama.cpp runs it, and the choices that this follows from: the room
//! that runs it takes both from here, so what people are shown is what decides at a load.
//!
//! llama.cpp reserves its worst case when a context is made. The sums follow what it allocates for
//! that; that room's `tests/memory_need.rs` holds them against what a process really takes.

use transom_fit::{CONTEXT_STEP, KvCacheChoice, MemoryNeed};

use super::{product, sum, tokens};
use crate::facts::{KvType, LayerKind, ModelFacts};

/// Most tokens that are guessed ahead and checked in one step.
pub const MAX_DRAFT: usize = 16;

/// Most tokens of a prefill step. More bring no speed on any device, and a step on a GPU cannot be
/// stopped inside.
const MAX_PREFILL: u64 = 512;

/// Places of a conversation to which a model with recurrent states can go back.
pub const MAX_CHECKPOINTS: usize = 2;

/// What a process takes beside the tensors: the tokenizer's maps, a token of the vocabulary, and
/// threads, graphs and the allocator's own.
const TOKENIZER_BYTES_A_TOKEN: u64 = 400;
const PROCESS_BYTES: u64 = 8 << 20;

/// What the model needs, on a GPU or the processor, with steps of at most `prefill_chunk` tokens.
/// `context_length` is at most the model's own.
pub fn need(
    facts: &ModelFacts,
    has_gpu: bool,
    kv: KvCacheChoice,
    prefill_chunk: u64,
    context_length: u64,
) -> MemoryNeed {
    let kind = kv_type(facts, has_gpu, kv);
    let chunk = prefill_chunk.min(max_prefill(facts, has_gpu));
    let is_flash = uses_flash_attention(has_gpu, kind);
    let vocab = facts.vocab_size.unwrap_or(0);
    // A context is made in whole steps.
    let n_kept = context_length
        .checked_next_multiple_of(CONTEXT_STEP)
        .unwrap_or(context_length);
    // Each checkpoint once, and once more while it goes to disk or comes back.
    let checkpoints = product(&[2, MAX_CHECKPOINTS as u64, kv_cache_bytes(facts, 0, kind)]);
    MemoryNeed {
        weight_bytes: facts.weight_bytes,
        kv_cache_bytes: kv_cache_bytes(facts, n_kept, kind),
        activation_bytes: sum(&[
            step_bytes(facts, is_flash, chunk, context_length),
            product(&[vocab, TOKENIZER_BYTES_A_TOKEN]),
            PROCESS_BYTES,
        ]),
        cache_bytes: checkpoints,
        context_length: tokens(context_length),
    }
}

/// Bytes of keys, values and states of `n_tokens`, over all layers; 0 where the file does not tell.
///
/// Layers with a window keep everything too, so that any part of a conversation can be taken back
/// (llama.cpp's `swa_full`).
pub fn kv_cache_bytes(facts: &ModelFacts, n_tokens: u64, kind: KvType) -> u64 {
    facts.cache_bytes(n_tokens, n_tokens, kind).unwrap_or(0)
}

/// How keys and values are kept; blocks of Q8_0 need heads of whole blocks.
pub fn kv_type(facts: &ModelFacts, has_gpu: bool, kv: KvCacheChoice) -> KvType {
    let sizes = [facts.key_length, facts.value_length].map(Option::unwrap_or_default);
    let has_whole_blocks = sizes.iter().all(|size| *size > 0 && size % 32 == 0);
    let is_wanted = match kv {
        KvCacheChoice::Automatic => has_gpu,
        KvCacheChoice::Full => false,
        KvCacheChoice::Small => true,
    };
    match has_whole_blocks && is_wanted {
        true => KvType::Q8_0,
        false => KvType::F16,
    }
}

/// Most tokens of a prefill step. On a processor it shall take a second or two, for progress and for
/// a thermal limit to take hold.
pub fn max_prefill(facts: &ModelFacts, has_gpu: bool) -> u64 {
    match facts.n_parameters {
        2_500_000_000.. if !has_gpu => 128,
        1_000_000_000.. if !has_gpu => 256,
        _ => MAX_PREFILL,
    }
}

/// Whether attention never keeps a matrix of scores. Values in Q8_0 can be used in no other way.
pub fn uses_flash_attention(has_gpu: bool, kind: KvType) -> bool {
    has_gpu || kind == KvType::Q8_0
}

/// Tokens of context for which there is room where `n_tokens` are kept: it grows by doubling. A
/// short chat shall not take the memory of a long one.
pub fn context_capacity(n_tokens: u64) -> u64 {
    const FIRST_CAPACITY: u64 = 1024;
    let most = n_tokens.max(FIRST_CAPACITY);
    most.checked_next_power_of_two().unwrap_or(most)
}

/// The most that a step over `chunk` tokens holds at once. All activations are f32.
///
/// As wide as what llama.cpp reserved for models of eleven shapes (the "compute buffer" of its log),
/// and what a processor turns the input of its products into.
fn step_bytes(facts: &ModelFacts, is_flash: bool, chunk: u64, context: u64) -> u64 {
    let n_logits = MAX_DRAFT as u64 + 1;
    let heads = facts.n_heads.unwrap_or(1);
    let kv_heads = facts.n_kv_heads.iter().copied().max().unwrap_or(heads);
    let head_size = facts.key_length.max(facts.value_length).unwrap_or(128);
    let queries = product(&[heads, head_size]);
    let hidden = facts.hidden_size.unwrap_or(queries);
    let feed_forward = facts.feed_forward_length.unwrap_or(product(&[4, hidden]));
    let chunk = chunk.min(context).max(n_logits);
    let residual = sum(&[product(&[4, hidden]), product(&[2, queries])]);
    // Flash attention keeps no scores.
    let scores = match is_flash {
        true => 0,
        false => product(&[heads, context]),
    };
    let attention = product(&[2, kv_heads, head_size]).saturating_add(scores);
    // Each expert makes a row of its own of the token.
    let of_experts = product(&[facts.n_used_experts, hidden]);
    let mlp = product(&[3, feed_forward]).saturating_add(of_experts);
    // Which tokens see which, once more where layers with a window see others.
    let n_masks = 1 + u64::from(facts.n_layers_of(LayerKind::Sliding) > 0);
    let masks = match is_flash {
        true => product(&[n_masks, context]) / 2,
        false => product(&[n_masks, context]),
    };
    // To be multiplied with weights or values, the widest rows become f16 or smaller.
    let converted = scores.max(feed_forward) / 2;
    let rows = sum(&[residual, attention.max(mlp), masks, converted]);
    // In the step, and where the caller reads them.
    let logits = product(&[2 * n_logits, facts.vocab_size.unwrap_or(0)]);
    product(&[4, product(&[chunk, rows]).saturating_add(logits)])
}
