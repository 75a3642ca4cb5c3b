//! Compares the memory need, computed from the files of a model, with the memory that MLX used.

use std::path::Path;

use transom_engine::{
    Engine, GenerationParams, JobControl, Limits, LoadedModel, ModelSource, PreparedPrompt,
};
use transom_engine_mlx::MlxEngine;

/// Fills the context of a model and compares the memory.
fn check(engine: &MlxEngine, folder: &Path, limits: &Limits) {
    let source = ModelSource {
        path: folder.to_owned(),
    };
    let need = engine
        .memory_need(&source, limits)
        .expect("the files are valid");
    let mut model = engine
        .load_model(&source, limits, &JobControl::new(), &mut |_| ())
        .expect("the model loads");
    let name = model.info().name.clone();
    assert_eq!(need.context_length, model.info().context_length, "{name}");
    let weights = model.memory().weight_bytes;
    assert!(
        need.weight_bytes.abs_diff(weights) <= need.weight_bytes / 50,
        "{name}: weights take {weights}, not {}",
        need.weight_bytes
    );
    let n_response = 8;
    let tokens = (0..need.context_length - n_response).map(|i| i as u32 % 90 + 5);
    let prompt = PreparedPrompt::new(tokens.collect());
    let params = GenerationParams {
        ignore_end_of_text: true,
        ..GenerationParams::default()
    };
    let control = JobControl::new();
    model
        .generate(&prompt, &params, &control, &mut |_| ())
        .expect("the model generates");
    let memory = model.memory();
    let used = memory.peak_bytes;
    let total = need.total_bytes() - need.cache_bytes;
    assert!(
        memory.kv_cache_bytes <= need.kv_cache_bytes,
        "{name}: {memory:?}, {need:?}"
    );
    assert!(
        used <= total,
        "{name}: {used} bytes were used, but the need is {total}"
    );
    assert!(
        used >= total / 2,
        "{name}: only {used} bytes of {total} were used"
    );
}

/// The supervisor decides about a load by this number.
#[test]
fn the_memory_need_covers_the_used_memory_and_is_less_than_twice_as_much() {
    mlx_rs::Device::set_default(&mlx_rs::Device::cpu());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let starter = root.join("assets/starter");
    let limits = |context_length, prefill_chunk| Limits {
        context_length,
        prefill_chunk,
        ..Limits::default()
    };
    let dense = MlxEngine::new();
    check(&dense, &starter, &limits(512, 512));
    check(&dense, &starter, &limits(1024, 64));
    let quantized = MlxEngine::new().with_dense_limit_bytes(0);
    check(&quantized, &starter, &limits(128, 128));
}
