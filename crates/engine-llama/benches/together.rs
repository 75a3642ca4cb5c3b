//! Compares responses that share steps with responses in turns:
//! `cargo bench -p transom-engine-llama --bench together [-- FILE.gguf [THREADS]]`.
//!
//! Both sides load the same file and decode the same prompts greedily. The time is from the first token of
//! the last response to the end of all, so it has the moving of the caches. The sides alternate, so that
//! other programs slow both.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints a table and stops at the first error"
)]

#[path = "../tests/fixtures/support.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::time::Instant;

use transom_engine::test_support::{begin, greedy_params, in_turns, step_to_first_token};
use transom_engine::{GenerationParams, Limits, LoadedModel, ResponseId};
use transom_engine_llama::LlamaEngine;

const PROMPT: u32 = 100;
const N_TOKENS: usize = 100;
const ROUNDS: usize = 5;
const COUNTS: [u32; 5] = [1, 2, 3, 4, 8];

fn main() {
    // Cargo passes `--bench`.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|text| !text.starts_with('-'));
    let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter/starter.gguf");
    let file = arguments.next().map_or(starter, PathBuf::from);
    let n_threads = match arguments.next() {
        Some(text) => text.parse().unwrap(),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    println!("{}: {n_threads} threads", file.display());
    let limits = Limits {
        context_length: 4096,
        ..Limits::default()
    };
    let engine = LlamaEngine::new().with_threads(n_threads);
    let load = |engine: LlamaEngine| support::load(&engine, &file, &limits).unwrap();
    let mut apart = load(engine.clone().with_min_sharing(usize::MAX));
    let mut shared = load(engine.with_min_sharing(2));
    for n in COUNTS {
        let mut speeds: [Vec<f64>; 2] = Default::default();
        // The first round is a warm-up.
        for round in 0..=ROUNDS {
            for (model, speeds) in [&mut apart, &mut shared].into_iter().zip(&mut speeds) {
                let speed = tokens_per_second(&mut **model, n);
                if round > 0 {
                    speeds.push(speed);
                }
            }
        }
        let [apart, shared] = speeds.each_ref().map(|speeds| median(speeds.clone()));
        let pairs = speeds[1].iter().zip(&speeds[0]);
        let ratio = median(pairs.map(|(shared, apart)| shared / apart).collect());
        println!("{n}: {apart:.1} tokens/s in turns, {shared:.1} in shared steps, {ratio:.2}x");
    }
}

/// Decodes `n` responses at the same time. Returns the tokens of all per second.
fn tokens_per_second(model: &mut dyn LoadedModel, n: u32) -> f64 {
    let params = GenerationParams {
        max_tokens: Some(N_TOKENS),
        speculate: false,
        ..greedy_params()
    };
    let prompt =
        |index: u32| Vec::from_iter((0..PROMPT).map(|at| 300 + (at * 7 + index * 31) % 1000));
    let ids: Vec<ResponseId> = (0..n)
        .map(|index| begin(model, &prompt(index), &params))
        .collect();
    for id in &ids {
        step_to_first_token(model, *id);
    }
    let began = Instant::now();
    in_turns(model, &ids);
    f64::from(n) * (N_TOKENS - 1) as f64 / began.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
