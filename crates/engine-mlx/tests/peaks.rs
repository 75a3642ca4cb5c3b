//! Compares the peaks of MLX's memory in a response with what must be in memory.

use std::path::Path;

use transom_engine::test_support::greedy_params;
use transom_engine::{GenerationParams, JobControl, Limits, LoadedModel, MemoryUse, Prompt, Stats};
use transom_engine_mlx::MlxEngine;

#[path = "fixtures/support.rs"]
#[allow(dead_code, reason = "only loading is used")]
mod support;

const CHUNK: usize = 64;

/// The starter in f32: ten query heads, two key-value heads of 64, twelve layers.
const LAYER_KV_BYTES: u64 = 2 * 2 * 64 * 4;
const LAYER_SCORES_BYTES: u64 = 10 * CHUNK as u64 * 4;

/// Generates some tokens after a prompt of `n_prompt` tokens, in steps of [`CHUNK`].
fn respond(n_prompt: usize) -> (Stats, MemoryUse) {
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
    (stats, model.memory())
}

/// The only test of this program, because MLX counts for the whole process.
#[test]
fn a_peak_has_the_weights_the_kv_cache_and_few_layers() {
    let mut beyond_kv = Vec::new();
    for n_chunks in [4, 20] {
        let n_prompt = n_chunks * CHUNK;
        let (stats, memory) = respond(n_prompt);
        let held = memory.weight_bytes + memory.kv_cache_bytes;
        // A step copies the keys and values of layers that the step before still reads.
        let copies = 4 * LAYER_KV_BYTES * n_prompt.next_multiple_of(256) as u64;
        let decode_limit = held + copies + (1 << 20);
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
