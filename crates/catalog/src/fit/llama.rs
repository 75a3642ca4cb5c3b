//! Computes the memory that a GGUF file needs in llama.cpp, and the settings that it depends on.
//!
//! `engine-llama` takes both from here, so an estimate equals the decision at the load. llama.cpp
//! reserves its worst case when a context is created. The sums follow these allocations;
//! `tests/memory_need.rs` of that crate compares them with what a process really uses.

use transom_fit::{CONTEXT_STEP, KvCacheChoice, MemoryNeed};

use super::{is_small, product, sum, tokens};
use crate::facts::{KvType, LayerKind, ModelFacts};

/// Architectures of models that only encode: every token attends to all others, so llama.cpp has no KV
/// cache for them (`llama_model::create_memory`).
const ENCODERS: [&str; 9] = [
    "bert",
    "eurobert",
    "gemma-embedding",
    "jina-bert-v2",
    "jina-bert-v3",
    "modern-bert",
    "neo-bert",
    "nomic-bert",
    "nomic-bert-moe",
];

/// Maximum bytes that llama.cpp reserves for the logits of a text that is embedded in one step. It
/// reserves a row of the vocabulary for each token, although nothing is written there.
const MAX_UNUSED_LOGITS: u64 = 2 << 30;

/// Maximum draft tokens that one step of speculative decoding checks.
pub const MAX_DRAFT: usize = 16;

/// Maximum tokens of a prefill step on a GPU. More are not faster, and the step can't be canceled.
const MAX_PREFILL: u64 = 512;

/// The same on a CPU, whose steps need no more to read the weights quickly. A step computes the scores of
/// all its tokens for all cached ones, also for those that come later and are masked, so longer steps are
/// slower; see `docs/benchmarks.md`.
const MAX_CPU_PREFILL: u64 = 128;

/// Checkpoints of a conversation to which a model with recurrent states can return.
pub const MAX_CHECKPOINTS: usize = 2;

/// Memory of a process in addition to the tensors: per token of the vocabulary for the tokenizer's
/// maps, and for threads, graphs and the allocator.
const TOKENIZER_BYTES_A_TOKEN: u64 = 400;
const PROCESS_BYTES: u64 = 8 << 20;

/// Returns true if llama.cpp has a KV cache for models of this architecture.
pub fn has_kv_cache(architecture: &str) -> bool {
    !ENCODERS.contains(&architecture)
}

/// Returns the most tokens of a text that the model reads, whatever its context length: no limit, except
/// for models that embed a text in one step.
pub fn longest_text(facts: &ModelFacts) -> u64 {
    let vocab = facts.vocab_size.unwrap_or(0);
    match facts.embeds_in_steps() {
        true => u64::MAX,
        false => (MAX_UNUSED_LOGITS / 4)
            .checked_div(vocab)
            .unwrap_or(u64::MAX),
    }
}

/// Returns the memory that the model needs for one conversation on a GPU or CPU, with steps of at
/// most `prefill_chunk` tokens. `context_length` is at most the model's own.
pub fn need(
    facts: &ModelFacts,
    has_gpu: bool,
    kv: KvCacheChoice,
    prefill_chunk: u64,
    context_length: u64,
) -> MemoryNeed {
    if !facts.embeds_in_steps() {
        return need_in_one_step(facts, context_length.min(longest_text(facts)).max(1));
    }
    let kind = kv_type(facts, has_gpu, kv);
    let chunk = prefill_chunk.min(max_prefill(has_gpu));
    let is_flash = uses_flash_attention(has_gpu, kind);
    let vocab = facts.vocab_size.unwrap_or(0);
    // A context is allocated in whole steps.
    let n_kept = context_length
        .checked_next_multiple_of(CONTEXT_STEP)
        .unwrap_or(context_length);
    // Each checkpoint twice, because it is copied when it is saved to disk or loaded.
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
        parked_bytes: 0,
        context_length: tokens(context_length),
    }
}

/// Returns the memory for embedding texts of at most `n_tokens`, each in one step, with flash attention.
fn need_in_one_step(facts: &ModelFacts, n_tokens: u64) -> MemoryNeed {
    let vocab = facts.vocab_size.unwrap_or(0);
    let hidden = facts.hidden_size.unwrap_or(0);
    // Without a KV cache, each mask is made in f32 and converted to f16.
    let n_masks = 1 + u64::from(facts.n_layers_of(LayerKind::Sliding) > 0);
    let masks = product(&[4, n_masks, n_tokens, n_tokens]);
    // A row of the vocabulary and a vector for each token.
    let outputs = product(&[4, n_tokens, vocab.saturating_add(hidden)]);
    // Models that also have an output matrix compute its result for each token.
    let (logits, kv_cache_bytes) = match has_kv_cache(&facts.architecture) {
        true => {
            let kept = n_tokens.checked_next_multiple_of(CONTEXT_STEP);
            let kept = kv_cache_bytes(facts, kept.unwrap_or(n_tokens), KvType::F16);
            (product(&[4, n_tokens, vocab]), kept)
        }
        false => (0, 0),
    };
    MemoryNeed {
        weight_bytes: facts.weight_bytes,
        kv_cache_bytes,
        activation_bytes: sum(&[
            step_bytes(facts, true, n_tokens, n_tokens),
            masks,
            outputs,
            logits,
            product(&[vocab, TOKENIZER_BYTES_A_TOKEN]),
            PROCESS_BYTES,
        ]),
        cache_bytes: 0,
        parked_bytes: 0,
        context_length: tokens(n_tokens),
    }
}

/// Returns the bytes of keys, values and states of `n_tokens` in all layers; 0 if the file doesn't
/// say enough.
///
/// Layers with a window keep all tokens too, so that any part of a conversation can be removed
/// (llama.cpp's `swa_full`).
pub fn kv_cache_bytes(facts: &ModelFacts, n_tokens: u64, kind: KvType) -> u64 {
    facts.cache_bytes(n_tokens, n_tokens, kind).unwrap_or(0)
}

/// Returns the KV cache type. Blocks of Q8_0 need heads of whole blocks. Embedding models gain nothing
/// from a small one, which is empty before each text.
pub fn kv_type(facts: &ModelFacts, has_gpu: bool, kv: KvCacheChoice) -> KvType {
    let sizes = [facts.key_length, facts.value_length].map(Option::unwrap_or_default);
    let has_whole_blocks = sizes.iter().all(|size| *size > 0 && size % 32 == 0);
    match has_whole_blocks && is_small(has_gpu, kv) && facts.embedding.is_none() {
        true => KvType::Q8_0,
        false => KvType::F16,
    }
}

/// Returns the maximum tokens of a prefill step.
pub fn max_prefill(has_gpu: bool) -> u64 {
    match has_gpu {
        true => MAX_PREFILL,
        false => MAX_CPU_PREFILL,
    }
}

/// Returns true if attention stores no matrix of scores. Values in Q8_0 require that.
pub fn uses_flash_attention(has_gpu: bool, kind: KvType) -> bool {
    has_gpu || kind == KvType::Q8_0
}

/// Returns the tokens of context that are allocated for `n_tokens`. The capacity doubles, so that a
/// short chat doesn't use the memory of a long one.
pub fn context_capacity(n_tokens: u64) -> u64 {
    const FIRST_CAPACITY: u64 = 1024;
    let most = n_tokens.max(FIRST_CAPACITY);
    most.checked_next_power_of_two().unwrap_or(most)
}

/// Returns the peak memory of a step over `chunk` tokens. All activations are f32.
///
/// The widths are what llama.cpp reserved for models of eleven shapes (the "compute buffer" of its
/// log), and what a CPU converts the input of its matrix products to.
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
    // Flash attention stores no scores.
    let scores = match is_flash {
        true => 0,
        false => product(&[heads, context]),
    };
    let attention = product(&[2, kv_heads, head_size]).saturating_add(scores);
    // Each expert makes its own row of the token.
    let of_experts = product(&[facts.n_used_experts, hidden]);
    let mlp = product(&[3, feed_forward]).saturating_add(of_experts);
    // The attention mask, and another one if layers have a window.
    let n_masks = 1 + u64::from(facts.n_layers_of(LayerKind::Sliding) > 0);
    let masks = match is_flash {
        true => product(&[n_masks, context]) / 2,
        false => product(&[n_masks, context]),
    };
    // For products with weights or values, the widest rows are converted to f16 or smaller.
    let converted = scores.max(feed_forward) / 2;
    let rows = sum(&[residual, attention.max(mlp), masks, converted]);
    // Once in the step, and once for the caller.
    let logits = product(&[2 * n_logits, facts.vocab_size.unwrap_or(0)]);
    product(&[4, product(&[chunk, rows]).saturating_add(logits)])
}
