//! Every catalog model in the format of MLX loads and generates.
//!
//! `configs` contains the published configurations. `fixtures/make_entries.py` reduces each to a
//! tiny model of the same form and lists the tensors that mlx-lm has for it. These tests fill the
//! tensors with random numbers, in the quantization of the configuration, and load and run the
//! model.

#[expect(dead_code, reason = "these models are not those of the fixtures")]
#[path = "fixtures/support.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde::Deserialize;
use serde_json::Value;
use support::{fixtures, load, lock_mlx};
use tempfile::TempDir;
use transom_catalog::fit::mlx::ALLOCATOR_CACHE_BYTES;
use transom_engine::{
    Engine, FinishReason, GenerationParams, JobControl, Limits, LoadedModel, ModelSource, Prompt,
    SamplingParams,
};
use transom_engine_mlx::MlxEngine;

/// A reduced model.
#[derive(Deserialize)]
struct Entry {
    config: Value,
    /// Element type and sizes, by name.
    tensors: BTreeMap<String, Vec<Value>>,
}

fn configs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs")
}

/// Returns the names of the JSON files in a folder, without the extension.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("the folder exists");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect()
}

/// Pseudo-random numbers, the same in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }

    /// Returns a number between minus one and one.
    fn number(&mut self) -> f32 {
        f32::from(self.next() as u16) / f32::from(u16::MAX) * 2.0 - 1.0
    }
}

/// Returns the bytes of a tensor, with numbers in the range of trained models.
fn data(name: &str, dtype: Dtype, n_elements: usize, noise: &mut Noise) -> Vec<u8> {
    let scale = |noise: &mut Noise| match name.rsplit('.').next() {
        // Small steps of packed weights, and the lowest weight.
        Some("scales") => 0.01 + 0.002 * noise.number(),
        Some("biases") => -0.08,
        _ if name.ends_with("norm.weight") => 1.0 + 0.2 * noise.number(),
        _ => 0.2 * noise.number(),
    };
    match dtype {
        Dtype::U32 => (0..n_elements)
            .flat_map(|_| noise.next().to_le_bytes())
            .collect(),
        // Powers of two slightly below one.
        Dtype::U8 => (0..n_elements)
            .map(|_| 120 + (noise.next() % 4) as u8)
            .collect(),
        Dtype::BF16 => (0..n_elements)
            .flat_map(|_| ((scale(noise).to_bits() >> 16) as u16).to_le_bytes())
            .collect(),
        Dtype::F32 => (0..n_elements)
            .flat_map(|_| scale(noise).to_le_bytes())
            .collect(),
        other => panic!("{name} has the type {other:?}"),
    }
}

fn dtype(name: &str) -> Dtype {
    match name {
        "BF16" => Dtype::BF16,
        "F32" => Dtype::F32,
        "U32" => Dtype::U32,
        "U8" => Dtype::U8,
        other => panic!("no tensor has the type {other}"),
    }
}

/// Returns a folder with the reduced model `name` and a tokenizer.
fn assemble(name: &str) -> TempDir {
    let path = fixtures().join("entries").join(format!("{name}.json"));
    let text = fs::read_to_string(path).expect("the entry exists");
    let entry: Entry = serde_json::from_str(&text).expect("the entry is valid");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = entry.config.to_string();
    fs::write(folder.path().join("config.json"), config).expect("written");
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        let source = fixtures().join("tokenizer").join(file);
        fs::copy(source, folder.path().join(file)).expect("copied");
    }
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let tensors: Vec<_> = entry
        .tensors
        .iter()
        .map(|(name, form)| {
            let (kind, sizes) = form.split_first().expect("a type and sizes");
            let dtype = dtype(kind.as_str().expect("a name"));
            let sizes = sizes
                .iter()
                .map(|size| size.as_u64().expect("a size") as usize);
            let shape: Vec<usize> = sizes.collect();
            let data = data(name, dtype, shape.iter().product(), &mut noise);
            (name, dtype, shape, data)
        })
        .collect();
    let views = tensors.iter().map(|(name, dtype, shape, data)| {
        let view = TensorView::new(*dtype, shape.clone(), data);
        (name, view.expect("the tensor is valid"))
    });
    let bytes = safetensors::serialize(views, None).expect("the tensors are valid");
    fs::write(folder.path().join("model.safetensors"), bytes).expect("written");
    folder
}

/// Loads the model, generates a response to a prompt longer than its windows, and compares the size
/// of its caches with the memory need.
fn check(name: &str) {
    let folder = assemble(name);
    for dense_limit_bytes in [0, u64::MAX] {
        let engine = MlxEngine::new().with_dense_limit_bytes(dense_limit_bytes);
        // The prompt and the response fill the context.
        let limits = Limits {
            context_length: 32,
            ..Limits::default()
        };
        let source = ModelSource {
            path: folder.path().to_owned(),
        };
        let need = engine.memory_need(&source, &limits).expect("it is valid");
        let model = load(&engine, folder.path(), &limits);
        let mut model = model.unwrap_or_else(|error| panic!("{name}: {error}"));
        let tokens: Vec<u32> = (20..40).collect();
        let rows = model.logits(&tokens).expect("logits");
        let last = rows.last().expect("one row per token");
        assert!(last.iter().all(|logit| logit.is_finite()), "{name}");
        assert!(last.iter().any(|&logit| logit != last[0]), "{name}");
        let params = GenerationParams {
            sampling: SamplingParams {
                temperature: 0.0,
                ..SamplingParams::default()
            },
            max_tokens: Some(12),
            prefill_chunk: Some(7),
            ignore_end_of_text: true,
            ..GenerationParams::default()
        };
        let prompt = model.prepare(&Prompt::Tokens(tokens)).expect("it fits");
        let control = JobControl::new();
        let response = model.generate(&prompt, &params, &control, &mut |_| {});
        let (reason, stats) = response.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((reason, stats.generated_tokens), (FinishReason::Length, 12));
        let held = model.memory().kv_cache_bytes;
        // Checkpoints count as cache that can be dropped.
        let checkpoint_bytes = need.cache_bytes - ALLOCATOR_CACHE_BYTES;
        let most = need.kv_cache_bytes + checkpoint_bytes;
        let is_near = held <= most && held >= need.kv_cache_bytes / 2;
        assert!(is_near, "{name}: {held}, {need:?}");
    }
}

#[test]
fn every_configuration_has_a_reduced_model() {
    let missing: Vec<_> = names(&configs())
        .symmetric_difference(&names(&fixtures().join("entries")))
        .cloned()
        .collect();
    assert!(
        missing.is_empty(),
        "run fixtures/make_entries.py for {missing:?}"
    );
}

#[test]
fn every_catalog_model_loads_and_generates() {
    let _mlx = lock_mlx();
    let failed: Vec<_> = names(&fixtures().join("entries"))
        .into_iter()
        .filter(|name| std::panic::catch_unwind(|| check(name)).is_err())
        .collect();
    assert!(failed.is_empty(), "see above for what failed: {failed:#?}");
}
