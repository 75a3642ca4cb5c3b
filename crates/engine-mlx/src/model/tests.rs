//! Tests that a model works after a step failed on the device.

use transom_engine::SamplingParams;
use transom_engine::test_support::Recorder;

use super::*;
use crate::test_support::{failing_embedding, load};

/// Generates greedy tokens after `prompt`, with a prefill in chunks of 8. Returns them and the number
/// of cached tokens.
fn respond(model: &mut MlxModel, prompt: &[u32]) -> Result<(Vec<u32>, usize), EngineError> {
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
    let (_, stats) = model.generate(&prompt, &params, &JobControl::new(), &mut recorder)?;
    Ok((recorder.tokens, stats.cached_tokens))
}

#[test]
fn a_failed_step_leaves_a_usable_session() {
    for name in ["qwen3-q4-g64", "mistral-window", "qwen3-5-text-q8-g64"] {
        let mut model = load(name);
        let long: Vec<u32> = (10..40).collect();
        let (expected, _) = respond(&mut model, &long).unwrap();
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
                respond(&mut model, &long).unwrap().0,
                expected,
                "{name}, {cached}"
            );
        }
    }
}

#[test]
fn a_failed_step_leaves_other_conversations() {
    for name in ["qwen3-q4-g64", "mistral-window", "qwen3-5-text-q8-g64"] {
        let mut model = load(name);
        let mut first: Vec<u32> = (10..60).collect();
        let (response, _) = respond(&mut model, &first).unwrap();
        first.extend(response);
        respond(&mut model, &(100..150).collect::<Vec<u32>>()).unwrap();
        let embedding = &mut model.transformer.embedding;
        let sound = std::mem::replace(embedding, failing_embedding());
        let failing: Vec<u32> = (160..200).collect();
        assert!(respond(&mut model, &failing).is_err(), "{name}");
        model.transformer.embedding = sound;
        let next: Vec<u32> = first.iter().copied().chain(200..210).collect();
        let (_, cached) = respond(&mut model, &next).unwrap();
        // The last token of a response may not have been processed.
        assert!(cached + 1 >= first.len(), "{name}: {cached}");
        let (_, cached) = respond(&mut model, &(100..160).collect::<Vec<u32>>()).unwrap();
        // A state continues from the checkpoint before the opening tokens.
        assert!(cached >= 42, "{name}: {cached}");
    }
}
