//! Compares the estimated memory of models with the memory that they use with a full context.
//!
//! Each case runs in its own process. This program creates the GGUF models. The folders for MLX,
//! which `benches/make_memory_models.py` creates, are arguments. The table goes to standard output.
//! The program fails if an estimate differs by more than a tenth. Linux only.

#![expect(clippy::print_stdout, reason = "this program prints a table")]

#[path = "../../../crates/engine-llama/tests/fixtures/packed.rs"]
mod packed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::{Value, json};
use transom_catalog::fit;
use transom_catalog::fit::mlx::ALLOCATOR_CACHE_BYTES;
use transom_catalog::machine::Machine;
use transom_catalog::test_support::{Quantization, TinyModel};
use transom_engine::{
    Engine, GenerationParams, JobControl, KvCacheChoice, Limits, LoadedModel, ModelSource, Prompt,
};
use transom_engine_llama::LlamaEngine;
use transom_engine_mlx::MlxEngine;

const MIB: f64 = 1_048_576.0;
/// Largest difference, as a share of the used memory.
const MAX_DIFFERENCE: f64 = 0.1;
/// Tokens of the response; the prompt fills the rest of the context.
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
    let mut are_accurate = gguf_rows();
    for path in arguments.iter().map(PathBuf::from) {
        for context in [512, 2048] {
            are_accurate &= row("MLX", &path, context, "full");
        }
    }
    match are_accurate {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Models of some hundred megabytes: wide and shallow in several quantizations, deep with many key-value
/// heads, and with sliding windows. Returns true if all estimates are accurate.
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
        long_rope: None,
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
    let default_cases = [(1024, "full"), (4096, "full"), (4096, "small")];
    let mut are_accurate = true;
    for (name, model, kind, cases) in [
        ("wide, F16", &wide, None, &default_cases[..]),
        ("wide, Q8_0", &wide, Some("Q8_0"), &default_cases[1..2]),
        ("wide, Q6_K", &wide, Some("Q6_K"), &default_cases[..1]),
        ("wide, Q4_0", &wide, Some("Q4_0"), &default_cases[..1]),
        ("wide, Q4_K", &wide, Some("Q4_K"), &default_cases[..]),
        ("deep, 12 KV heads, Q8_0", &deep, None, &default_cases[..]),
        ("windows, F16", &windowed, None, &default_cases[..]),
        (
            "windows, Q4_K",
            &windowed,
            Some("Q4_K"),
            &default_cases[..1],
        ),
    ] {
        let folder = tempfile::tempdir_in(".").expect("a folder can be made");
        let path = folder.path().join(name).with_extension("gguf");
        model.write(&path);
        if let Some(kind) = kind {
            packed::pack_as(&path, kind);
        }
        for &(context, kv) in cases {
            are_accurate &= row("llama.cpp", &path, context, kv);
        }
    }
    are_accurate
}

/// Measures a case in its own process and prints its row. Returns true if the estimate is accurate.
fn row(engine: &str, path: &Path, context: usize, kv: &str) -> bool {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let program = std::env::current_exe().expect("this program has a path");
    let path = path.to_string_lossy();
    let output = Command::new(program)
        .args(["--case", engine, &path, &context.to_string(), kv])
        .output()
        .expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let Ok(result) = serde_json::from_str::<Value>(&text) else {
        let error = String::from_utf8_lossy(&output.stderr);
        println!("| {engine} | {name} | | {context} | {kv} | | | failed: {error} |");
        return false;
    };
    let number = |key: &str| result[key].as_f64().unwrap_or(0.0);
    let (estimated, used) = (number("estimated"), number("taken"));
    let difference = estimated / used - 1.0;
    println!(
        "| {engine} | {name} | {:.0} MiB | {context} | {} | {:.0} MiB | {:.0} MiB | {:+.1} % |",
        number("weights") / MIB,
        result["kv"].as_str().unwrap_or_default(),
        estimated / MIB,
        used / MIB,
        difference * 100.0,
    );
    difference.abs() <= MAX_DIFFERENCE
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

/// Returns the estimate that is shown before a load, and the KV cache type.
fn estimated(path: &Path, limits: &Limits) -> (u64, Value) {
    let facts = transom_catalog::inspect(path).expect("the headers are valid");
    // All these models are small enough for dense weights.
    let machine = Machine::new(1 << 40, None, "", None);
    let kv = limits.kv_cache;
    let need = fit::need(&facts, &machine, kv, limits.context_length as u64);
    let kind = fit::kv_type(&facts, &machine, kv);
    let kind = kind.map_or(json!("f32"), |kind| json!(kind));
    (need.total_bytes(), kind)
}

/// Measures the growth of the process, mapped weights included.
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
    let used = status("VmHWM:") - before;
    json!({ "weights": weights, "kv": kv, "estimated": estimated, "taken": used })
}

/// Measures with the count of MLX, which does not include cached buffers.
fn measure_mlx(path: &Path, limits: &Limits) -> Value {
    let engine = MlxEngine::new();
    let source = ModelSource {
        path: path.to_owned(),
    };
    let (estimated, kv) = estimated(path, limits);
    let control = JobControl::new();
    let loaded = engine.load(&source, limits, &control, &mut |_| {});
    let mut used = 0;
    let weights = fill(loaded.expect("it loads"), |model| {
        used = model.memory().peak_bytes;
    });
    let estimated = estimated - ALLOCATOR_CACHE_BYTES;
    json!({ "weights": weights, "kv": kv, "estimated": estimated, "taken": used })
}

/// Fills the context, then calls `inspect` with the model. Returns the bytes of weights.
fn fill(mut model: Box<dyn LoadedModel>, inspect: impl FnOnce(&dyn LoadedModel)) -> u64 {
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
    result.expect("it generates");
    inspect(&*model);
    model.memory().weight_bytes
}

/// Reads a value of the status of this process, in bytes.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
    let number = number.and_then(|n| n.trim().parse::<u64>().ok());
    number.expect("it is a number") * 1024
}
