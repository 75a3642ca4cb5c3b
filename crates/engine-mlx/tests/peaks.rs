//! Compares the peaks of MLX's memory in a response with what must be in memory.

use std::path::Path;

use mlx_rs::memory;
use transom_engine::saved::BLOCK_TOKENS;
use transom_engine::test_support::{SavedCopy, greedy_params};
use transom_engine::{GenerationParams, JobControl, Limits, LoadedModel, Prompt, Stats, Trim};
use transom_engine_mlx::{MlxEngine, MlxModel};

#[path = "fixtures/support.rs"]
#[allow(dead_code, reason = "only loading and the lock are used")]
mod support;

const CHUNK: usize = 64;

/// The starter in f32: ten query heads, two key-value heads of 64, twelve layers.
const N_LAYERS: u64 = 12;
const LAYER_KV_BYTES: u64 = 2 * 2 * 64 * 4;
const LAYER_SCORES_BYTES: u64 = 10 * CHUNK as u64 * 4;

/// Generates some tokens after a prompt of `n_prompt` tokens, in steps of [`CHUNK`].
fn respond(n_prompt: usize) -> (Stats, MlxModel) {
    let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter");
    let limits = Limits {
        prefill_chunk: CHUNK,
        context_length: 2048,
        ..Limits::default()
    };
    let model = support::load(&MlxEngine::new(), &starter, &limits);
    let mut model = model.expect("the model loads");
    let tokens = (0..n_prompt).map(|i| i as u32 % 90 + 5).collect();
    let prompt = model.prepare(&Prompt::Tokens(tokens));
    let params = GenerationParams {
        max_tokens: Some(16),
        ..greedy_params()
    };
    let prompt = prompt.expect("the prompt fits");
    let (_, stats) = model
        .generate(&prompt, &params, &JobControl::new(), &mut |_| ())
        .expect("the model generates");
    (stats, model)
}

#[test]
fn a_peak_has_the_weights_the_kv_cache_and_few_layers() {
    let _mlx = support::lock_mlx();
    let mut beyond_kv = Vec::new();
    for n_chunks in [4, 20] {
        let n_prompt = n_chunks * CHUNK;
        let (stats, model) = respond(n_prompt);
        let memory = model.memory();
        let held = memory.weight_bytes + memory.kv_cache_bytes;
        // No step copies keys and values that the step before still reads. The buffers are full after the
        // prompt, so the first step copies each to a larger one.
        let layer = LAYER_KV_BYTES * (n_prompt as u64 + BLOCK_TOKENS as u64);
        let decode_limit = held + layer + (1 << 19);
        assert!(
            stats.decode_peak_bytes <= decode_limit,
            "{} bytes instead of {decode_limit} for {n_prompt} tokens",
            stats.decode_peak_bytes
        );
        assert!(stats.prefill_peak_bytes > memory.weight_bytes);
        assert!(stats.peak_memory_bytes >= stats.prefill_peak_bytes.max(stats.decode_peak_bytes));
        assert_eq!(stats.peak_memory_bytes, memory.peak_bytes);
        beyond_kv.push(stats.prefill_peak_bytes - held);
    }
    // Scores, masked scores and weights, in the layers that MLX queues on a CPU, grow with the context.
    let scores = 3 * 4 * LAYER_SCORES_BYTES * (16 * CHUNK) as u64;
    let [short, long] = beyond_kv[..] else {
        unreachable!("two lengths")
    };
    assert!(long <= short + scores, "{long} bytes instead of {short}");
}

#[test]
fn while_a_conversation_is_restored_only_one_block_is_in_memory_twice() {
    let _mlx = support::lock_mlx();
    let (_, mut model) = respond(20 * CHUNK);
    let copy = SavedCopy::of(&mut model, 0).expect("saved");
    assert!(copy.blocks.len() > 4, "{} blocks", copy.blocks.len());
    model.trim(Trim::Everything);
    let before = memory::active_memory().expect("MLX");
    memory::reset_peak_memory().expect("MLX");
    copy.restore(&mut model).expect("restored");
    let [active, peak] = [memory::active_memory(), memory::peak_memory()];
    let [active, peak] = [active, peak].map(|bytes| bytes.expect("MLX"));
    let kv_bytes = |n_tokens: usize| n_tokens * (N_LAYERS * LAYER_KV_BYTES) as usize;
    let restored = active - before;
    assert!(restored >= kv_bytes(copy.tokens.len()), "{restored} bytes");
    let limit = active + kv_bytes(BLOCK_TOKENS);
    assert!(peak <= limit, "{peak} bytes instead of {limit}");
}
