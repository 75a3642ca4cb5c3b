//! What models are estimated to need against what they take, with the context full.
//!
//! Each case runs in a process of its own. GGUF models are made here; the folders for MLX, which
//! `benches/make_memory_models.py` makes, are named on the command line. The table goes to standard
//! output; the program fails when a case is off by more than a tenth. Linux only.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

#[path = "../../../crates/engine-llama/tests/fixtures/packed.rs"]
mod packed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::{Value, json};
use transom_catalog::fit::mlx::ALLOCATOR_CACHE_BYTES;
use transom_catalog::fit::{self, Machine};
use transom_catalog::test_support::{Quantization, TinyModel};
use transom_engine::{
    Engine, GenerationParams, JobControl, KvCacheChoice, Limits, LoadedModel, ModelSource, Prompt,
};
use transom_engine_llama::LlamaEngine;
use transom_engine_mlx::MlxEngine;

const MIB: f64 = 1_048_576.0;
/// Largest difference, as a share of what was taken.
const MOST_OFF: f64 = 0.1;
/// Tokens of the answer; the prompt takes the rest of the context.
const ANSWER_TOKENS: usize = 16;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, engine, path, context, kv] = arguments.as_slice()
        && first == "--case"
    {
        let context = context.parse().unwrap_or(2048);
        println!("{}", measure(engine, Path::new(path), context, kv));
        return ExitCode::SUCCESS;
    }
    println!("| engine | model | weights | context | KV | estimated | measured | difference |");
    println!("|---|---|---:|---:|---|---:|---:|---:|");
    let mut are_near = gguf_rows();
    for path in arguments.iter().map(PathBuf::from) {
        for context in [512, 2048] {
            are_near &= row("MLX", &path, context, "full");
        }
    }
    match are_near {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Models of some hundred megabytes: wide and shallow in several packings, deep with many key-value
/// heads, and with windows. Returns whether all estimates are near.
fn gguf_rows() -> bool {
    let wide = TinyModel {
        architecture: "llama",
        n_layers: 6,
        width: 1536,
        n_heads: 12,
        n_kv_heads: 4,
        ff_width: 4096,
        context_length: 8192,
        quantization: Quantization::F16,
        seed: 1,
    };
    let deep = TinyModel {
        architecture: "qwen3",
        n_layers: 20,
        width: 768,
        n_kv_heads: 12,
        ff_width: 2048,
        quantization: Quantization::Q8_0,
        ..wide.clone()
    };
    let windowed = TinyModel {
        architecture: "gemma3",
        n_layers: 10,
        width: 1024,
        n_heads: 8,
        ..wide.clone()
    };
    let mixed = TinyModel {
        quantization: Quantization::Q4_K_M,
        ..wide.clone()
    };
    let usual = [(1024, "full"), (4096, "full"), (4096, "small")];
    let mut are_near = true;
    for (name, model, kind, cases) in [
        ("wide, F16", &wide, None, &usual[..]),
        ("wide, Q8_0", &wide, Some("Q8_0"), &usual[1..2]),
        ("wide, Q6_K", &wide, Some("Q6_K"), &usual[..1]),
        ("wide, Q4_0", &wide, Some("Q4_0"), &usual[..1]),
        ("wide, Q4_K", &wide, Some("Q4_K"), &usual[..]),
        ("wide, Q4_K and Q6_K", &mixed, None, &usual[..1]),
        ("deep, 12 KV heads, Q8_0", &deep, None, &usual[..]),
        ("windows, F16", &windowed, None, &usual[..]),
        ("windows, Q4_K", &windowed, Some("Q4_K"), &usual[..1]),
    ] {
        let folder = tempfile::tempdir_in(".").expect("a folder can be made");
        let path = folder.path().join(name).with_extension("gguf");
        model.write(&path);
        if let Some(kind) = kind {
            packed::pack_as(&path, kind);
        }
        for &(context, kv) in cases {
            are_near &= row("llama.cpp", &path, context, kv);
        }
    }
    are_near
}

/// Measures a case in a process of its own and prints its row. Returns whether the estimate is near.
fn row(engine: &str, path: &Path, context: usize, kv: &str) -> bool {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let program = std::env::current_exe().expect("this program has a path");
    let path = path.to_string_lossy();
    let output = Command::new(program)
        .args(["--case", engine, &path, &context.to_string(), kv])
        .output()
        .expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let Ok(found) = serde_json::from_str::<Value>(&text) else {
        let error = String::from_utf8_lossy(&output.stderr);
        println!("| {engine} | {name} | | {context} | {kv} | | | failed: {error} |");
        return false;
    };
    let number = |key: &str| found[key].as_f64().unwrap_or(0.0);
    let (estimated, taken) = (number("estimated"), number("taken"));
    let off = estimated / taken - 1.0;
    println!(
        "| {engine} | {name} | {:.0} MiB | {context} | {} | {:.0} MiB | {:.0} MiB | {:+.1} % |",
        number("weights") / MIB,
        found["kv"].as_str().unwrap_or_default(),
        estimated / MIB,
        taken / MIB,
        off * 100.0,
    );
    off.abs() <= MOST_OFF
}

fn measure(engine: &str, path: &Path, context_length: usize, kv: &str) -> Value {
    let limits = Limits {
        context_length,
        kv_cache: match kv {
            "small" => KvCacheChoice::Small,
            _ => KvCacheChoice::Full,
        },
        ..Limits::default()
    };
    match engine {
        "MLX" => measure_mlx(path, &limits),
        _ => measure_llama(path, &limits),
    }
}

/// What people are shown before a load.
fn estimated(path: &Path, limits: &Limits) -> (u64, Value) {
    let facts = transom_catalog::inspect(path).expect("the headers are sound");
    let machine = Machine {
        has_gpu: false,
        // All these models are small enough to be held dense.
        memory_bytes: 1 << 40,
    };
    let kv = limits.kv_cache;
    let need = fit::need(&facts, &machine, kv, limits.context_length as u64);
    let kind = fit::kv_type(&facts, &machine, kv);
    let kind = kind.map_or(json!("f32"), |kind| json!(kind));
    (need.total_bytes(), kind)
}

/// The whole of what the process takes more than before, mapped weights included.
fn measure_llama(path: &Path, limits: &Limits) -> Value {
    let engine = LlamaEngine::new();
    let source = ModelSource {
        path: path.to_owned(),
    };
    let (estimated, kv) = estimated(path, limits);
    let before = status("VmRSS:");
    let control = JobControl::new();
    let loaded = engine.load(&source, limits, &control, &mut |_| {});
    let weights = fill(loaded.expect("it loads"), |_| ());
    let taken = status("VmHWM:") - before;
    json!({ "weights": weights, "kv": kv, "estimated": estimated, "taken": taken })
}

/// MLX's own count, of which freed buffers that it keeps are no part.
fn measure_mlx(path: &Path, limits: &Limits) -> Value {
    let engine = MlxEngine::new();
    let source = ModelSource {
        path: path.to_owned(),
    };
    let (estimated, kv) = estimated(path, limits);
    let control = JobControl::new();
    let loaded = engine.load(&source, limits, &control, &mut |_| {});
    let mut taken = 0;
    let weights = fill(loaded.expect("it loads"), |model| {
        taken = model.memory().peak_bytes;
    });
    let estimated = estimated - ALLOCATOR_CACHE_BYTES;
    json!({ "weights": weights, "kv": kv, "estimated": estimated, "taken": taken })
}

/// Fills the context, and looks at the model then. Returns the bytes of weights.
fn fill(mut model: Box<dyn LoadedModel>, look: impl FnOnce(&dyn LoadedModel)) -> u64 {
    let n_prompt = model.info().context_length - ANSWER_TOKENS;
    let n_known = model.info().vocab_size.min(250) as u32;
    let tokens = (0..n_prompt as u32).map(|n| 20 + n * 7 % (n_known - 20));
    let prompt = model.prepare(&Prompt::Tokens(tokens.collect()));
    let params = GenerationParams {
        ignore_end_of_text: true,
        speculate: false,
        ..GenerationParams::default()
    };
    let control = JobControl::new();
    let result = model.generate(&prompt.expect("it fits"), &params, &control, &mut |_| {});
    result.expect("it answers");
    look(&*model);
    model.memory().weight_bytes
}

/// A line of this process's status, in bytes.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
    let number = number.and_then(|n| n.trim().parse::<u64>().ok());
    number.expect("it is a number") * 1024
}
