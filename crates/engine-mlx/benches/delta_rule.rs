//! Compares and measures the gated delta rule on a GPU:
//! `cargo bench -p transom-engine-mlx --bench delta_rule -- [MODEL [PROMPT_TOKENS [TOKENS]]]`.
//!
//! Without a model, first compares the kernel, and the graph on this GPU, with the graph on the CPU, and
//! fails if the kernel differs. Then prints how long a layer with the sizes of Qwen3-Next takes in each
//! way, in a step of 36 layers. On a CPU it only says that there is nothing to measure.
//!
//! MODEL is the absolute path of a folder with a hybrid model, for example one of
//! `benches/make_random_model.py`. Its prefill and decode are measured with the kernel, then with the
//! graph: the fastest of three rounds.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints a table and stops at the first error"
)]

use std::process::ExitCode;
use std::time::Instant;

use mlx_rs::Dtype;
use transom_engine::test_support::greedy_params;
use transom_engine::{
    GenerationParams, JobControl, Limits, LoadedModel, ModelSource, Prompt, TokenEvent, TokenSink,
    Trim,
};
use transom_engine_mlx::delta_rule_bench::{DeltaRuleBench, Way, drop_kernels};
use transom_engine_mlx::{MlxEngine, MlxModel};

/// Tokens and sequences of a step.
const STEPS: [(i32, usize); 12] = [
    (1, 1),
    (2, 1),
    (4, 1),
    (8, 1),
    (32, 1),
    (64, 1),
    (128, 1),
    (512, 1),
    (2048, 1),
    (2, 2),
    (4, 4),
    (8, 8),
];
const LANES: [i32; 4] = [4, 8, 16, 32];
const N_LAYERS: u32 = 36;
const N_ROUNDS: usize = 3;

/// Largest difference of the kernel to the graph on the CPU. Rounding adds up over many tokens.
const TOLERANCE: f32 = 1e-4;

fn main() -> ExitCode {
    // Without `--bench`, which cargo adds.
    let given = std::env::args().skip(1);
    let mut given = given.filter(|argument| !argument.starts_with('-'));
    if let Some(model) = given.next() {
        let mut number = |default| given.next().map_or(default, |text| text.parse().unwrap());
        whole_model(&model, number(2048), number(256));
        return ExitCode::SUCCESS;
    }
    let Some(layers) = DeltaRuleBench::new(16, 2, 128).unwrap() else {
        println!("skipped: MLX computes on the CPU here, where there is no kernel");
        return ExitCode::SUCCESS;
    };
    let differs = compare(&layers);
    measure(&layers);
    if differs {
        println!("the kernel DIFFERS from the graph");
        return ExitCode::FAILURE;
    }
    println!("the kernel computes what the graph computes");
    ExitCode::SUCCESS
}

fn ways() -> impl Iterator<Item = Way> {
    [Way::Graph].into_iter().chain(LANES.map(Way::Kernel))
}

/// Returns true if a kernel differs.
fn compare(layers: &DeltaRuleBench) -> bool {
    let mut differs = false;
    println!("largest difference to the graph on the CPU");
    for (n_tokens, n_sequences) in STEPS {
        for values in [Dtype::Float32, Dtype::Bfloat16, Dtype::Float16] {
            print!("{n_tokens:>5} tokens, {n_sequences} sequences, {values:?}:");
            for way in ways() {
                let difference = layers.difference(way, n_tokens, n_sequences, values);
                let difference = difference.unwrap();
                print!("  {way:?} {difference:.1e}");
                if way != Way::Graph && (difference.is_nan() || difference > TOLERANCE) {
                    print!(" DIFFERS");
                    differs = true;
                }
            }
            println!();
        }
    }
    differs
}

fn measure(layers: &DeltaRuleBench) {
    println!("microseconds of a layer: the graph, then kernels with so many threads per column");
    let lanes = LANES.map(|lanes| format!("{lanes:>10}")).concat();
    println!("tokens  sequences      graph{lanes}");
    for (n_tokens, n_sequences) in STEPS {
        print!("{n_tokens:>6}  {n_sequences:>9} ");
        for way in ways() {
            let time = layers.layer_time(way, n_tokens, n_sequences, N_LAYERS);
            print!("{:>10.1}", time.unwrap().as_secs_f64() * 1e6);
        }
        println!();
    }
}

fn whole_model(path: &str, n_prompt: usize, n_tokens: usize) {
    let source = ModelSource { path: path.into() };
    let control = JobControl::new();
    let load = |limits| MlxEngine::new().load_model(&source, &limits, &control, &mut |_| {});
    let mut model = load(Limits::default()).unwrap();
    println!("{path}: {n_prompt} tokens before {n_tokens}");
    for way in ["kernel", "graph"] {
        let (mut prefill, mut decode) = (0.0_f64, 0.0_f64);
        for _ in 0..N_ROUNDS {
            let (one, other) = speeds(&mut model, n_prompt, n_tokens);
            prefill = prefill.max(one);
            decode = decode.max(other);
        }
        println!("{way:<6}  prefill {prefill:>8.0} tok/s  decode {decode:>8.1} tok/s");
        drop_kernels();
    }
}

/// Counts tokens.
struct Counter(usize);

impl TokenSink for Counter {
    fn on_event(&mut self, _: TokenEvent) {}

    fn on_token(&mut self, _: u32) {
        self.0 += 1;
    }
}

/// Returns the tokens per second of prefill and of decode.
fn speeds(model: &mut MlxModel, n_prompt: usize, n_tokens: usize) -> (f64, f64) {
    model.trim(Trim::Everything);
    let tokens = (0..n_prompt).map(|i| (300 + i * 37 % 2000) as u32);
    let prompt = model.prepare(&Prompt::Tokens(tokens.collect())).unwrap();
    let params = GenerationParams {
        max_tokens: Some(n_tokens),
        speculate: false,
        ..greedy_params()
    };
    let start = Instant::now();
    let response = model.begin(&prompt, &params, &JobControl::new());
    let id = response.unwrap().unwrap();
    let mut counter = Counter(0);
    while counter.0 == 0 {
        assert!(model.step(id, &mut counter).unwrap().is_none());
    }
    let prefill = n_prompt as f64 / start.elapsed().as_secs_f64();
    let start = Instant::now();
    let first = counter.0;
    while model.step(id, &mut counter).unwrap().is_none() {}
    let decode = (counter.0 - first) as f64 / start.elapsed().as_secs_f64();
    (prefill, decode)
}
