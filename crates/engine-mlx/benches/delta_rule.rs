//! Compares and measures the gated delta rule on a GPU: `cargo bench -p transom-engine-mlx --bench
//! delta_rule`.
//!
//! First compares the kernel, and the graph on this GPU, with the graph on the CPU. Fails if the
//! kernel differs. Then prints how long a layer with the sizes of Qwen3-Next takes in each way, in a
//! step of 36 layers. On a CPU it only says that there is nothing to measure.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints a table and stops at the first error"
)]

use std::process::ExitCode;

use mlx_rs::Dtype;
use transom_engine_mlx::delta_rule_bench::{DeltaRuleBench, Way};

/// Tokens and sequences of a step.
const STEPS: [(i32, usize); 15] = [
    (1, 1),
    (2, 1),
    (3, 1),
    (4, 1),
    (8, 1),
    (16, 1),
    (32, 1),
    (64, 1),
    (128, 1),
    (256, 1),
    (512, 1),
    (2048, 1),
    (2, 2),
    (4, 4),
    (8, 8),
];
const LANES: [i32; 4] = [4, 8, 16, 32];
const N_LAYERS: u32 = 36;

/// Largest difference of the kernel to the graph on the CPU. Rounding adds up over many tokens.
const TOLERANCE: f32 = 5e-4;

fn main() -> ExitCode {
    let Some(layers) = DeltaRuleBench::new(16, 2, 128).unwrap() else {
        println!("skipped: MLX computes on the CPU here, where there is no kernel");
        return ExitCode::SUCCESS;
    };
    let ways = LANES.map(Way::Kernel);
    let mut differs = false;
    println!("largest difference to the graph on the CPU");
    for (n_tokens, n_sequences) in STEPS {
        for values in [Dtype::Float32, Dtype::Bfloat16, Dtype::Float16] {
            print!("{n_tokens:>5} tokens, {n_sequences} sequences, {values:?}:");
            for way in [Way::Graph].into_iter().chain(ways) {
                let difference = layers.difference(way, n_tokens, n_sequences, values);
                let difference = difference.unwrap();
                print!("  {way:?} {difference:.1e}");
                let passes = way == Way::Graph || difference <= TOLERANCE;
                if !passes {
                    print!(" DIFFERS");
                    differs = true;
                }
            }
            println!();
        }
    }
    println!(
        "microseconds of a layer: the graph, then kernels in which so many threads share a column"
    );
    println!(
        "tokens  sequences      graph {}",
        LANES.map(|n| format!("{n:>10}")).concat()
    );
    for (n_tokens, n_sequences) in STEPS {
        print!("{n_tokens:>6}  {n_sequences:>9} ");
        for way in [Way::Graph].into_iter().chain(ways) {
            let time = layers.layer_time(way, n_tokens, n_sequences, N_LAYERS);
            print!("{:>10.1}", time.unwrap().as_secs_f64() * 1e6);
        }
        println!();
    }
    if differs {
        println!("the kernel DIFFERS from the graph");
        return ExitCode::FAILURE;
    }
    println!("the kernel computes what the graph computes");
    ExitCode::SUCCESS
}
