//! Measures sampling on the CPU:
//! `cargo bench -p transom-engine --features test-support --bench sampler`.
//!
//! Compares the sampler with the reference, alternating on the same logits. Three kinds of logits:
//! `text`, as from trained models (a few candidates far above a broad tail), `sure`, the same with one
//! token far above all others, and `flat`, as from models with random weights, where nearly every token
//! is possible.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints a table and stops at the first error"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use transom_engine::{Sampler, SamplingParams};

const N_DRAWS: usize = 300;
const N_REFERENCE_DRAWS: usize = 12;
const N_LOGITS: usize = 20;
const N_PROMPT: u32 = 2000;

fn main() {
    println!(
        "{:>28} {:>8} {:>6} {:>10} {:>10} {:>14} {:>7}",
        "us a token, median", "tokens", "shape", "sampler", "(worst)", "reference", "ratio"
    );
    for n_tokens in [32_000, 152_000] {
        for (shape, spread, n_likely, lead) in [
            ("text", 3.0, 30, 12.0),
            ("sure", 3.0, 30, 25.0),
            ("flat", 1.0, 0, 0.0),
        ] {
            let logits: Vec<Vec<f32>> = (0..N_LOGITS)
                .map(|seed| logits(seed as u64, n_tokens, spread, n_likely, lead))
                .collect();
            for (name, params) in cases() {
                print_row(name, shape, &params, &logits);
            }
        }
    }
}

fn cases() -> Vec<(&'static str, SamplingParams)> {
    let default = SamplingParams {
        seed: Some(1),
        ..SamplingParams::default()
    };
    let with_top_k = SamplingParams {
        temperature: 0.6,
        top_k: 40,
        ..default.clone()
    };
    vec![
        (
            "greedy",
            SamplingParams {
                temperature: 0.0,
                ..default.clone()
            },
        ),
        ("default (top-p)", default.clone()),
        (
            "default, penalties",
            SamplingParams {
                repetition_penalty: 1.1,
                presence_penalty: 0.5,
                ..default.clone()
            },
        ),
        ("top-k 40, top-p", with_top_k),
        (
            "min-p",
            SamplingParams {
                top_p: 1.0,
                min_p: 0.05,
                ..default.clone()
            },
        ),
        (
            "no filter",
            SamplingParams {
                temperature: 1.0,
                top_p: 1.0,
                ..default
            },
        ),
    ]
}

fn print_row(name: &str, shape: &str, params: &SamplingParams, logits: &[Vec<f32>]) {
    let prompt: Vec<u32> = (0..N_PROMPT).map(|i| i * 13).collect();
    let mut sampler = Sampler::new(params.clone(), &prompt).unwrap();
    let mut generated = Vec::new();
    let mut fast = Vec::new();
    let mut reference = Vec::new();
    for i in 0..N_DRAWS {
        let logits = &logits[i % logits.len()];
        if i < N_REFERENCE_DRAWS {
            let start = Instant::now();
            black_box(params.distribution(logits, &prompt, &generated));
            reference.push(start.elapsed());
        }
        let start = Instant::now();
        let token = sampler.draw(black_box(logits)).unwrap();
        sampler.accept(token);
        fast.push(start.elapsed());
        generated.push(token);
    }
    let worst = fast.iter().max().copied().unwrap_or_default();
    let (fast, reference) = (median(fast), median(reference));
    println!(
        "{name:>28} {:>8} {shape:>6} {:>10.1} {:>10.1} {:>14.1} {:>6.0}x",
        logits[0].len(),
        microseconds(fast),
        microseconds(worst),
        microseconds(reference),
        reference.as_secs_f64() / fast.as_secs_f64(),
    );
}

/// Returns normally distributed logits, and some that stand out, the first by `lead` and the others by
/// less than 12.
fn logits(seed: u64, n_tokens: usize, spread: f32, n_likely: usize, lead: f32) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut logits: Vec<f32> = (0..n_tokens)
        .map(|_| {
            // The sum of twelve uniform numbers has variance 1.
            let sum: f32 = (0..12)
                .map(|_| rng.next_u32() as f32 / u32::MAX as f32)
                .sum();
            (sum - 6.0) * spread
        })
        .collect();
    for i in 0..n_likely {
        let id = rng.next_u32() as usize % n_tokens;
        let above = if i == 0 {
            lead
        } else {
            12.0 / (1.0 + i as f32 * 0.3)
        };
        logits[id] = 4.0 * spread + above;
    }
    logits
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
