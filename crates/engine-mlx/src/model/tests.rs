//! Tests that a model works after a step failed on the device.

use mlx_rs::{Dtype, ops};
use transom_engine::SamplingParams;
use transom_engine::test_support::Recorder;

use super::*;
use crate::nn::Matrix;
use crate::test_support::load;

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
        let mut model = load(name);
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
