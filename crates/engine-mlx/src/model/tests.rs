//! Tests that a model works after a step failed on the device.

use transom_engine::test_support::{Recorder, greedy_params};
use transom_engine::{SamplingParams, ScorePrompt};

use super::*;
use crate::test_support::{embedding_of, failing_embedding, load};

/// Generates greedy tokens after `prompt`, with a prefill in chunks of 8. Returns them and the number
/// of cached tokens.
fn respond(model: &mut MlxModel, prompt: &[u32]) -> Result<(Vec<u32>, usize), EngineError> {
    let params = GenerationParams {
        max_tokens: Some(4),
        prefill_chunk: Some(8),
        ..greedy_params()
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
            let embedding = embedding_of(&mut model);
            let sound = std::mem::replace(embedding, failing_embedding());
            let error = respond(&mut model, &long).unwrap_err();
            assert!(
                matches!(error, EngineError::Backend { .. }),
                "{name}: {error}"
            );
            *embedding_of(&mut model) = sound;
            assert_eq!(
                respond(&mut model, &long).unwrap().0,
                expected,
                "{name}, {cached}"
            );
        }
    }
}

#[test]
fn log_probabilities_are_the_softmax_of_the_logits() {
    const N_TOP: u8 = 3;
    let mut model = load("qwen3-q4-g64");
    let prompt: Vec<u32> = (10..40).collect();
    let prepared = model.prepare(&Prompt::Tokens(prompt.clone())).unwrap();
    let params = GenerationParams {
        sampling: SamplingParams {
            temperature: 1.5,
            top_k: 5,
            seed: Some(1),
            ..SamplingParams::default()
        },
        max_tokens: Some(6),
        ignore_end_of_text: true,
        logprobs: Some(N_TOP),
        ..GenerationParams::default()
    };
    let mut recorder = Recorder::default();
    let generated = model.generate(&prepared, &params, &JobControl::new(), &mut recorder);
    generated.unwrap();
    let all = [prompt.clone(), recorder.tokens.clone()].concat();
    let rows = model.logits(&all).unwrap();
    let reported = recorder.events.iter().flat_map(|event| match event {
        TokenEvent::Text { logprobs, .. } => logprobs.clone(),
        _ => Vec::new(),
    });
    let mut n_reported = 0;
    // Tokens without text are not reported.
    let mut places = prompt.len()..all.len();
    for one in reported {
        let at = places
            .find(|at| all[*at] == one.chosen.token)
            .expect("it was generated");
        let row = &rows[at - 1];
        let sum: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
        for scored in [&one.chosen].into_iter().chain(&one.top) {
            let expected = f64::from(row[scored.token as usize]) - sum.ln();
            let difference = f64::from(scored.logprob) - expected;
            // The cache holds rounded keys and values.
            assert!(difference.abs() < 0.05, "{scored:?}: {expected}");
        }
        assert_eq!(one.top.len(), usize::from(N_TOP));
        assert!(
            one.top.is_sorted_by(|a, b| a.logprob >= b.logprob),
            "{one:?}"
        );
        n_reported += 1;
    }
    assert!(n_reported > 0);
}

/// A scored text has the log probabilities of the logits after each of its tokens, at the tokens that
/// were asked for.
#[test]
fn a_scored_text_has_the_log_probabilities_of_its_own_tokens() {
    for name in ["qwen3-q4-g64", "mistral-window", "qwen3-5-text-q8-g64"] {
        let mut model = load(name);
        let text: Vec<u32> = (10..50).collect();
        let rows = model.logits(&text).unwrap();
        let prepared = model.prepare(&Prompt::Tokens(text.clone())).unwrap();
        let params = GenerationParams {
            ignore_end_of_text: true,
            logprobs: Some(1),
            score: Some(ScorePrompt {
                tokens: vec![vec![3, 4]; text.len()],
            }),
            ..GenerationParams::default()
        };
        let mut recorder = Recorder::default();
        let generated = model.generate(&prepared, &params, &JobControl::new(), &mut recorder);
        let (_, stats) = generated.unwrap();
        assert_eq!(stats.generated_tokens, text.len() - 1, "{name}");
        assert_eq!(recorder.tokens, text[1..], "{name}");
        let reported = recorder.events.iter().flat_map(|event| match event {
            TokenEvent::Text { logprobs, .. } => logprobs.clone(),
            _ => Vec::new(),
        });
        let mut places = 1..text.len();
        let mut n_reported = 0;
        for one in reported {
            let at = places.find(|at| text[*at] == one.chosen.token).unwrap();
            let row = &rows[at - 1];
            let sum: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
            let ids: Vec<u32> = one.top.iter().map(|other| other.token).collect();
            assert_eq!(ids[1..], [3, 4], "{name}");
            let highest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert!((row[ids[0] as usize] - highest).abs() < 0.05, "{name}");
            for scored in [&one.chosen].into_iter().chain(&one.top) {
                let expected = f64::from(row[scored.token as usize]) - sum.ln();
                let difference = f64::from(scored.logprob) - expected;
                assert!(difference.abs() < 0.05, "{name}: {scored:?}: {expected}");
            }
            n_reported += 1;
        }
        assert!(n_reported > 20, "{name}: {n_reported}");
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
        let embedding = embedding_of(&mut model);
        let sound = std::mem::replace(embedding, failing_embedding());
        let failing: Vec<u32> = (160..200).collect();
        assert!(respond(&mut model, &failing).is_err(), "{name}");
        *embedding_of(&mut model) = sound;
        let next: Vec<u32> = first.iter().copied().chain(200..210).collect();
        let (_, cached) = respond(&mut model, &next).unwrap();
        // The last token of a response may not have been processed.
        assert!(cached + 1 >= first.len(), "{name}: {cached}");
        let (_, cached) = respond(&mut model, &(100..160).collect::<Vec<u32>>()).unwrap();
        // A state continues from the checkpoint before the opening tokens.
        assert!(cached >= 42, "{name}: {cached}");
    }
}
