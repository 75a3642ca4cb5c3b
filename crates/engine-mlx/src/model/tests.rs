//! Tests that a model works after a step failed on the device.

use std::fs;

use mlx_rs::{Device, Dtype, ops};
use tempfile::TempDir;
use transom_engine::test_support::Recorder;
use transom_engine::{Limits, ModelSource, SamplingParams};

use super::*;
use crate::MlxEngine;
use crate::nn::Matrix;

/// Returns a folder with a model of the fixtures and its tokenizer.
fn assemble(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for source in [
        fixtures.join("models").join(name),
        fixtures.join("tokenizer"),
    ] {
        for entry in fs::read_dir(source).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    folder
}

fn load(folder: &TempDir) -> MlxModel {
    Device::set_default(&Device::cpu());
    let source = ModelSource {
        path: folder.path().to_owned(),
    };
    let engine = MlxEngine::new();
    engine
        .load_model(&source, &Limits::default(), &JobControl::new(), &mut |_| {})
        .unwrap()
}

/// Generates greedy tokens after `prompt`, with a prefill in chunks of 8.
fn respond(model: &mut MlxModel, prompt: &[u32]) -> Result<Vec<u32>, EngineError> {
    let params = GenerationParams {
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        max_tokens: Some(4),
        prefill_chunk: Some(8),
        ignore_end_of_text: true,
        ..GenerationParams::default()
    };
    let prompt = model.prepare(&Prompt::Tokens(prompt.to_vec()))?;
    let mut recorder = Recorder::default();
    model.generate(&prompt, &params, &JobControl::new(), &mut recorder)?;
    Ok(recorder.tokens)
}

/// Returns an embedding that MLX accepts into its graph but cannot compute on a CPU.
fn failing_embedding() -> Matrix {
    let half = ops::ones::<f32>(&[32, 32]).unwrap();
    let half = half.as_dtype(Dtype::Float16).unwrap();
    let mask = ops::ones::<bool>(&[1, 1]).unwrap();
    let product = ops::block_masked_mm(&half, &half, 32, &mask, None, None).unwrap();
    let table = ops::ones::<f32>(&[272, 64]).unwrap();
    let table = table.add(product.sum(None).unwrap()).unwrap();
    Matrix::Dense(table)
}

#[test]
fn a_failed_step_leaves_a_usable_session() {
    for name in ["qwen3-q4-g64", "mistral-window", "qwen3-5-text-q8-g64"] {
        let folder = assemble(name);
        let mut model = load(&folder);
        let long: Vec<u32> = (10..40).collect();
        let expected = respond(&mut model, &long).unwrap();
        // With an empty cache, and with all but the last tokens of the prompt cached.
        for cached in [0, 28] {
            model.trim(Trim::Everything);
            if cached > 0 {
                respond(&mut model, &long[..cached]).unwrap();
            }
            let embedding = &mut model.transformer.embedding;
            let sound = std::mem::replace(embedding, failing_embedding());
            let error = respond(&mut model, &long).unwrap_err();
            assert!(
                matches!(error, EngineError::Backend { .. }),
                "{name}: {error}"
            );
            model.transformer.embedding = sound;
            assert_eq!(
                respond(&mut model, &long).unwrap(),
                expected,
                "{name}, {cached}"
            );
        }
    }
}
