//! Compares the estimated memory need with the peak memory of a process.
//!
//! A separate program without test threads, because it measures its own process, and the model runs on
//! the first thread as in the product. Linux only: a GPU's memory is not part of the process.

#[path = "fixtures/packed.rs"]
mod packed;
#[path = "fixtures/support.rs"]
mod support;

use std::fs;

use support::load;
use transom_catalog::test_support::{Quantization, TemporaryModel, TinyModel};
use transom_engine::{
    Engine, GenerationParams, JobControl, KvCacheChoice, Limits, MemoryNeed, ModelSource, Prompt,
};
use transom_engine_llama::LlamaEngine;

/// Returns a memory value of this process in bytes, including mapped pages.
fn resident_bytes(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has this file");
    let line = status.lines().find_map(|rest| rest.strip_prefix(line));
    let kilobytes = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
    kilobytes
        .and_then(|n| n.trim().parse::<u64>().ok())
        .expect("it is a number")
        * 1024
}

/// How a conversation fills the context.
#[derive(Debug, Clone, Copy)]
enum Fill {
    /// With one prompt.
    AtOnce,
    /// With several turns, in each of which the cache grows.
    ByTurns,
    /// After another conversation, which is parked.
    AfterAnother,
}

fn need(file: &TemporaryModel, limits: &Limits) -> MemoryNeed {
    let source = ModelSource {
        path: file.path.clone(),
    };
    let need = LlamaEngine::new().memory_need(&source, limits);
    need.expect("it is sound")
}

/// Returns the estimate and the peak in bytes, with a full context.
fn measure(file: &TemporaryModel, limits: &Limits, fill: Fill) -> (u64, u64) {
    let need = need(file, limits);
    let engine = LlamaEngine::new();
    fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
    let before = resident_bytes("VmRSS:");
    let mut model = load(&engine, &file.path, limits).expect("it loads");
    let n_prompt = model.info().context_length - 8;
    // Parts of the context, and the first token.
    let prompts: &[(usize, u32)] = match fill {
        Fill::AtOnce => &[(1, 0)],
        Fill::ByTurns => &[(4, 0), (1, 0)],
        Fill::AfterAnother => &[(2, 1), (1, 0)],
    };
    for (part, first) in prompts {
        let tokens = (0..(n_prompt / part) as u32).map(|i| 20 + (i + first) % 200);
        let prompt = model.prepare(&Prompt::Tokens(tokens.collect()));
        let params = GenerationParams {
            max_tokens: Some(8),
            ignore_end_of_text: true,
            ..GenerationParams::default()
        };
        let control = JobControl::new();
        let result = model.generate(&prompt.expect("it fits"), &params, &control, &mut |_| {});
        result.expect("the answer succeeds");
    }
    let used = resident_bytes("VmHWM:") - before;
    (need.total_bytes(), used)
}

fn main() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let wide = TinyModel {
        n_layers: 3,
        width: 512,
        n_heads: 16,
        n_kv_heads: 16,
        ff_width: 1024,
        context_length: 2048,
        quantization: Quantization::F16,
        ..TinyModel::default()
    };
    let deep = TinyModel {
        n_layers: 16,
        n_heads: 8,
        n_kv_heads: 8,
        ff_width: 512,
        ..wide.clone()
    };
    let files = [("wide", wide), ("deep", deep)]
        .map(|(name, test_model)| (name, test_model.write_temporary()));
    // A first measurement returns the heap that was used to write the files, and loads the program's pages.
    let short = Limits {
        context_length: 256,
        ..Limits::default()
    };
    measure(&files[0].1, &short, Fill::AtOnce);
    for (name, file) in &files {
        for kv_cache in [KvCacheChoice::Full, KvCacheChoice::Small] {
            let limits = Limits {
                kv_cache,
                ..Limits::default()
            };
            check(
                &format!("{name}, {kv_cache:?}"),
                file,
                &limits,
                Fill::AtOnce,
            );
            check(
                &format!("{name}, {kv_cache:?}"),
                file,
                &limits,
                Fill::ByTurns,
            );
            let need = need(file, &limits);
            let limits = Limits {
                // A little more than half of a context.
                parked_bytes: need.kv_cache_bytes / 20 * 11,
                ..limits
            };
            check(
                &format!("{name}, {kv_cache:?}"),
                file,
                &limits,
                Fill::AfterAnother,
            );
        }
    }
    // llama.cpp repacks Q4_K weights on most CPUs.
    packed::pack_as(&files[0].1.path, "Q4_K");
    check("repacked", &files[0].1, &Limits::default(), Fill::AtOnce);
}

fn check(case: &str, file: &TemporaryModel, limits: &Limits, fill: Fill) {
    let (need, used) = measure(file, limits, fill);
    let case = format!("{case}, {fill:?}: need {need}, used {used}");
    assert!(used <= need, "{case}");
    assert!(used >= need / 10 * 7, "{case}");
}
