//! Weights of every type are in memory once: mapped if llama.cpp uses them as they are in the file, read
//! if it repacks them for the CPU.

#[path = "fixtures/log.rs"]
mod log;
#[path = "fixtures/packed.rs"]
mod packed;
#[path = "fixtures/support.rs"]
mod support;

use std::fs;

use support::load;
use transom_catalog::test_support::TinyModel;
use transom_engine::{Engine, Limits, ModelSource};
use transom_engine_llama::LlamaEngine;

const MIB: f64 = 1_048_576.0;

#[test]
fn weights_of_every_type_are_in_memory_once() {
    let written = TinyModel::default().write_temporary();
    for kind in [
        "F16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
        "IQ4_XS", "MXFP4",
    ] {
        let path = written.folder.path().join(kind).with_extension("gguf");
        fs::copy(&written.path, &path).expect("it can be copied");
        packed::pack_as(&path, kind);
        let engine = LlamaEngine::new();
        let limits = Limits::default();
        let source = ModelSource { path };
        let need = engine.memory_need(&source, &limits).expect("it is sound");
        let lines = log::while_it_runs(|| {
            load(&engine, &source.path, &limits).expect("it loads");
        });
        let buffers: Vec<f64> = log::sizes(&lines, "model buffer size =").collect();
        let allocated: f64 = buffers.iter().sum();
        let weights = need.weight_bytes as f64 / MIB;
        // It prints two decimals.
        let rounding = 0.01 + 0.006 * buffers.len() as f64;
        assert!(
            (allocated - weights).abs() <= rounding,
            "{kind}: {weights} MiB of weights in {allocated} MiB: {lines}"
        );
        let is_mapped = lines.contains("_Mapped model buffer");
        assert!(kind != "F16" || is_mapped, "{lines}");
        assert_eq!(
            is_mapped,
            !lines.contains("REPACK model"),
            "{kind}: {lines}"
        );
    }
}
