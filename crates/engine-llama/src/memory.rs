//! What a model will need in memory, computed from its file; and giving back what is free.
//!
//! The figures follow what llama.cpp allocates for a step in its worst case, which it reserves when
//! a context is made. `tests/memory_need.rs` holds them against what the process really took.

use transom_catalog::gguf::Gguf;
use transom_catalog::{KvType, ModelFacts};
use transom_engine::{Limits, MemoryNeed};

use crate::device::{Device, MAX_DRAFT};
use crate::files::ModelFiles;
use crate::native::CacheType;

/// What a process takes beside the tensors: the tokenizer's maps, a token of the vocabulary, and
/// threads, graphs and the allocator's own.
const TOKENIZER_BYTES_A_TOKEN: u64 = 400;
const PROCESS_BYTES: u64 = 8 << 20;

/// llama.cpp makes contexts in multiples of this.
const CONTEXT_STEP: usize = 256;

/// The need of the model in `files`.
pub(crate) fn memory_need(files: &ModelFiles, device: Device, limits: &Limits) -> MemoryNeed {
    let facts = &files.facts;
    let context_length = context_length(facts, limits);
    let cache_type = device.cache_type(limits, files.head_sizes());
    let chunk = device.prefill_chunk(limits, facts.n_parameters) as u64;
    let widths = Widths::of(files);
    MemoryNeed {
        weight_bytes: facts.weight_bytes,
        kv_cache_bytes: kv_cache_bytes(
            facts,
            cache_type,
            context_length.next_multiple_of(CONTEXT_STEP),
        ),
        activation_bytes: widths.step_bytes(device, cache_type, chunk, context_length as u64)
            + widths.vocab * TOKENIZER_BYTES_A_TOKEN
            + PROCESS_BYTES,
        cache_bytes: 0,
        context_length,
    }
}

/// Tokens that a model attends to under `limits`.
pub(crate) fn context_length(facts: &ModelFacts, limits: &Limits) -> usize {
    let own = facts.context_length.and_then(|n| usize::try_from(n).ok());
    let own = own.filter(|&n| n > 0).unwrap_or(usize::MAX);
    own.min(limits.context_length).max(1)
}

/// Bytes of keys, values and states of `n_tokens`, over all layers; 0 where the file does not tell.
///
/// Layers with a sliding window keep everything too, as the context asks of llama.cpp.
/// `tests/kv_cache.rs` holds this to what llama.cpp allocates.
pub(crate) fn kv_cache_bytes(facts: &ModelFacts, cache_type: CacheType, n_tokens: usize) -> u64 {
    let kind = match cache_type {
        CacheType::F16 => KvType::F16,
        CacheType::Q8_0 => KvType::Q8_0,
    };
    let n_tokens = n_tokens as u64;
    facts.kept_bytes(n_tokens, n_tokens, kind).unwrap_or(0)
}

/// Sizes of what lives at once in a step, in elements a token.
struct Widths {
    hidden: u64,
    heads: u64,
    head_size: u64,
    feed_forward: u64,
    vocab: u64,
}

impl Widths {
    fn of(files: &ModelFiles) -> Self {
        let facts = &files.facts;
        let view = files.files.first().view().ok();
        let number = |key: &str| view.as_ref().and_then(|view| number(view, facts, key));
        let heads = facts.n_heads.unwrap_or(1);
        let head_size = facts.key_length.max(facts.value_length).unwrap_or(128);
        let hidden = number("embedding_length").unwrap_or(heads * head_size);
        // A mixture of experts computes several small ones a token.
        let experts = number("expert_used_count").unwrap_or(1).max(1);
        let expert = number("expert_feed_forward_length").map(|n| n * experts);
        Self {
            hidden,
            heads,
            head_size,
            feed_forward: number("feed_forward_length")
                .max(expert)
                .unwrap_or(4 * hidden),
            vocab: facts.vocab_size.unwrap_or(0),
        }
    }

    /// The most that a step over `chunk` tokens holds at once. All activations are f32.
    fn step_bytes(&self, device: Device, cache: CacheType, chunk: u64, context: u64) -> u64 {
        let is_flash = device.context_params(1, 1, cache).flash_attention;
        let chunk = chunk.min(context).max(MAX_DRAFT as u64 + 1);
        let layer = 4 * self.hidden + 3 * self.heads * self.head_size + 2 * self.feed_forward;
        // Which tokens see which; without flash attention also the scores of all heads, and half as
        // much again for them as f16, to be multiplied with the values.
        let scores = if is_flash { 0 } else { self.heads * 3 / 2 };
        let attention = (1 + scores) * context;
        // In the step, and where the caller reads them.
        let logits = 2 * (MAX_DRAFT as u64 + 1) * self.vocab;
        4 * (chunk * (layer + attention) + logits)
    }
}

fn number(view: &Gguf<'_>, facts: &ModelFacts, key: &str) -> Option<u64> {
    let value = view.get(&format!("{}.{key}", facts.architecture))?;
    match value.as_array() {
        Some(array) => array.iter().filter_map(|value| value.as_u64()).max(),
        None => value.as_u64(),
    }
}

/// Highest memory use of this process so far, in bytes, mapped weights included.
#[expect(unsafe_code, reason = "getrusage has no safe form in libc")]
pub(crate) fn peak_process_bytes() -> u64 {
    // SAFETY: it fills in the structure that it is given.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        if libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) != 0 {
            return 0;
        }
        usage
    };
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    u64::try_from(usage.ru_maxrss).unwrap_or(0) * unit
}

/// Blocks from this size on are mapped by themselves, and gone when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK: i32 = 4 << 20;

/// glibc serves ever larger blocks from its heap once it has seen some freed, and then keeps them.
/// llama.cpp frees its buffers rarely, and then they shall be the system's again (`man mallopt`).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "mallopt has no safe form in libc")]
pub(crate) fn return_large_blocks() {
    // SAFETY: it takes two numbers and may be called at any time.
    let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK) };
    if is_set == 0 {
        tracing::warn!("the allocator keeps large blocks");
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn return_large_blocks() {}

/// Gives what is free on the heap back to the system (`man malloc_trim`).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "malloc_trim has no safe form in libc")]
pub(crate) fn trim_heap() {
    // SAFETY: it takes a number and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn trim_heap() {}
