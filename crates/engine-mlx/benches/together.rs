//! Measures responses of a model that are generated at the same time:
//! `cargo bench -p transom-engine-mlx --bench together -- [MODEL [PROMPT_TOKENS [TOKENS]]]`.
//!
//! MODEL is the absolute path of a folder; without it, the starter model is measured. Each number of
//! responses is generated in turns, each with steps of its own, then with shared steps, then as the engine
//! decides by its own measurement. The ways alternate. Prints the tokens per second of all responses
//! together, from their first tokens on, in the fastest round, and on Linux the CPU time per token, which
//! other programs change least. `PACKED=1` keeps quantized weights quantized also on a CPU.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints a table and stops at the first error"
)]

use std::path::{Path, PathBuf};
use std::time::Instant;

use transom_engine::test_support::greedy_params;
use transom_engine::{
    GenerationParams, JobControl, Limits, LoadedModel, ModelSource, Prompt, ResponseId, TokenEvent,
    TokenSink, Trim,
};
use transom_engine_mlx::{MlxEngine, MlxModel, SharedSteps};

const COUNTS: [usize; 4] = [1, 2, 4, 8];
const WAYS: [(&str, SharedSteps); 3] = [
    ("turns", SharedSteps::Never),
    ("shared", SharedSteps::Always),
    ("chosen", SharedSteps::IfFaster),
];
const N_ROUNDS: usize = 3;

/// How many tokens each prompt and each response has.
#[derive(Clone, Copy)]
struct Lengths {
    prompt: usize,
    response: usize,
}

fn main() {
    // Without `--bench`, which cargo adds.
    let given = std::env::args().skip(1);
    let mut given = given.filter(|argument| !argument.starts_with('-'));
    let named = given.next();
    let mut number = |default| {
        given
            .next()
            .map_or(default, |number| number.parse().unwrap())
    };
    let lengths = Lengths {
        prompt: number(256),
        response: number(64),
    };
    let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter");
    let path = named.map_or(starter, PathBuf::from);
    let engine = match std::env::var_os("PACKED") {
        Some(_) => MlxEngine::new().with_dense_limit_bytes(0),
        None => MlxEngine::new(),
    };
    let source = ModelSource { path };
    let control = JobControl::new();
    let loaded = engine.load_model(&source, &Limits::default(), &control, &mut |_| {});
    let mut model = loaded.unwrap();
    let info = model.info();
    println!(
        "{} ({}, {}): {} tokens before {} in each response",
        source.path.display(),
        info.stored_as,
        info.computed_as,
        lengths.prompt,
        lengths.response
    );
    println!("responses  way     tok/s in total  ratio  CPU ms a token  ratio");
    for n in COUNTS {
        let mut fastest = [0.0_f64; WAYS.len()];
        let mut least_cpu = [f64::INFINITY; WAYS.len()];
        for _ in 0..N_ROUNDS {
            for (index, (_, way)) in WAYS.into_iter().enumerate() {
                model.set_shared_steps(way);
                let (speed, cpu) = measure(&mut model, n, lengths);
                fastest[index] = fastest[index].max(speed);
                least_cpu[index] = least_cpu[index].min(cpu);
            }
        }
        for (index, (way, _)) in WAYS.into_iter().enumerate() {
            let (speed, cpu) = (fastest[index], least_cpu[index]);
            let (gain, cpu_gain) = (speed / fastest[0], least_cpu[0] / cpu);
            println!("{n:>9}  {way:<6} {speed:>15.1} {gain:>5.2}x {cpu:>15.2} {cpu_gain:>5.2}x");
        }
    }
}

/// Returns the tokens per second of `n` responses together, and the milliseconds of CPU time per token.
fn measure(model: &mut MlxModel, n: usize, lengths: Lengths) -> (f64, f64) {
    model.trim(Trim::Everything);
    let mut ids: Vec<ResponseId> = (0..n).map(|number| begin(model, number, lengths)).collect();
    for id in &ids {
        let mut first = Counter(0);
        while first.0 == 0 {
            assert!(model.step(*id, &mut first).unwrap().is_none());
        }
    }
    let mut counter = Counter(0);
    let (start, cpu) = (Instant::now(), cpu_ms());
    while !ids.is_empty() {
        ids.retain(|id| model.step(*id, &mut counter).unwrap().is_none());
    }
    let n_tokens = counter.0 as f64;
    (
        n_tokens / start.elapsed().as_secs_f64(),
        (cpu_ms() - cpu) / n_tokens,
    )
}

/// Returns the CPU time of this process so far, in steps of 10 ms; NaN where `/proc` does not tell it.
fn cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.split(' ').collect();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<f64>().ok())
    };
    ticks(13)
        .zip(ticks(14))
        .map_or(f64::NAN, |(user, system)| (user + system) * 10.0)
}

/// Counts tokens.
struct Counter(usize);

impl TokenSink for Counter {
    fn on_event(&mut self, _: TokenEvent) {}

    fn on_token(&mut self, _: u32) {
        self.0 += 1;
    }
}

fn begin(model: &mut MlxModel, number: usize, lengths: Lengths) -> ResponseId {
    let tokens = (0..lengths.prompt).map(|i| (300 + (i * 37 + number * 101) % 2000) as u32);
    let prompt = model.prepare(&Prompt::Tokens(tokens.collect())).unwrap();
    let params = GenerationParams {
        max_tokens: Some(lengths.response),
        speculate: false,
        ..greedy_params()
    };
    model
        .begin(&prompt, &params, &JobControl::new())
        .unwrap()
        .unwrap()
}
