//! Compares responses with and without drafts that draw from the same random numbers.

use transom_engine::generation::Prefill;
use transom_engine::{LoadedModel, SamplingParams, Trim};

use super::*;
use crate::model::MlxModel;
use crate::test_support::{embedding_of, failing_embedding, load, load_draft};

const STEP_WIDTHS: [usize; 4] = [2, 4, 8, 16];

const N_TOKENS: usize = 300;

/// A response without a constraint, a conversation and log probabilities.
fn unconstrained(sampler: Sampler) -> ResponseOptions {
    ResponseOptions {
        sampler,
        constraint: ResponseConstraint::default(),
        forced_step: 0,
        conversation: None,
        scorer: Scorer::default(),
    }
}

fn prefill(decoder: &mut impl Decode, prompt: &[u32]) {
    let mut prefill = Prefill::new(decoder, prompt);
    while !prefill.is_done() {
        let is_read = prefill.step(decoder, prompt, 64, &JobControl::new());
        assert!(is_read.expect("the prompt is processed"));
    }
}

/// Generates a response in an empty session.
fn generate(
    model: &mut MlxModel,
    speculation: Option<&mut Speculation>,
    params: &SamplingParams,
) -> (Vec<u32>, Stats) {
    model.trim(Trim::Everything);
    let prompt: Vec<u32> = (0..40).map(|i| 64 + i % 3).collect();
    let sampler = Sampler::new(params, &prompt, model.info.vocab_size);
    let mut decoder = Decoder::new(
        model.transformer.clone(),
        &mut model.sessions,
        speculation,
        &prompt,
        unconstrained(sampler),
    );
    let control = JobControl::new();
    prefill(&mut decoder, &prompt);
    let mut tokens = Vec::new();
    for n_left in (1..=N_TOKENS).rev() {
        match decoder.next(n_left, &control) {
            Ok(NextToken::Token(token)) => tokens.push(token),
            other => panic!("{other:?}"),
        }
    }
    let mut stats = Stats::default();
    decoder.add_counts(&mut stats);
    decoder.finish();
    let n_cached = model.sessions.current.tokens().len();
    assert_eq!(n_cached, prompt.len() + N_TOKENS - 1);
    let mut caches = model.sessions.current.caches().iter();
    assert!(caches.all(|cache| cache.n_tokens() as usize == n_cached));
    (tokens, stats)
}

/// Returns parameters with these biases on the letters `a`, `b` and `c`.
fn params(biases: [f32; 3]) -> SamplingParams {
    SamplingParams {
        temperature: 0.8,
        top_p: 1.0,
        seed: Some(3),
        logit_bias: (64..).zip(biases).collect(),
        ..SamplingParams::default()
    }
}

/// The sampler's own tests show that each token follows the distribution. Here every token is drawn
/// from the same logits with the same random number, whatever was drafted: sampled, and with
/// penalties that depend on all tokens before.
#[test]
fn drafts_do_not_change_what_is_sampled() {
    let greedy = SamplingParams {
        temperature: 0.0,
        ..params([1000.0, 0.0, 0.0])
    };
    let penalized = SamplingParams {
        temperature: 0.0,
        // The first letter alone, then two, then all three.
        frequency_penalty: 2.0,
        presence_penalty: 0.5,
        ..params([1400.0, 1300.0, 1150.0])
    };
    let sampled = params([1000.0; 3]);
    let sampled_with_penalties = SamplingParams {
        seed: Some(4),
        repetition_penalty: 1.001,
        frequency_penalty: 0.1,
        ..sampled.clone()
    };
    let (mut n_drafted, mut n_accepted) = (0, 0);
    for name in ["qwen3-bf16", "mistral-window", "gemma4-bf16-tables"] {
        let mut model = load(name);
        let mut speculation = Speculation::pipelined(&STEP_WIDTHS);
        for params in [&greedy, &penalized, &sampled, &sampled_with_penalties] {
            let (expected, stats) = generate(&mut model, None, params);
            assert_eq!(stats.drafted_tokens, 0);
            let (tokens, stats) = generate(&mut model, Some(&mut speculation), params);
            assert_eq!(tokens, expected, "{name}, {params:?}: {stats:?}");
            n_drafted += stats.drafted_tokens;
            n_accepted += stats.accepted_tokens;
        }
    }
    assert!(
        n_accepted > 0 && n_drafted > n_accepted,
        "{n_accepted} of {n_drafted} draft tokens were accepted"
    );
}

#[test]
fn a_failed_step_with_a_draft_leaves_an_empty_session() {
    for name in ["qwen3-q4-g64", "mistral-window"] {
        let mut model = load(name);
        let mut broken = load(name);
        *embedding_of(&mut broken) = failing_embedding();
        let mut speculation = Speculation::pipelined(&STEP_WIDTHS);
        let prompt: Vec<u32> = (10..50).collect();
        let greedy = SamplingParams {
            temperature: 0.0,
            ..params([1000.0, 0.0, 0.0])
        };
        let mut decoder = Decoder::new(
            model.transformer.clone(),
            &mut model.sessions,
            Some(&mut speculation),
            &prompt,
            unconstrained(Sampler::new(&greedy, &prompt, model.info.vocab_size)),
        );
        let control = JobControl::new();
        prefill(&mut decoder, &prompt);
        // The response repeats a letter, so soon a draft is expected.
        let is_expected = (0..100).any(|_| {
            decoder.next(50, &control).expect("the model is sound");
            matches!(decoder.newest, Newest::Known(_))
        });
        assert!(is_expected, "{name}");
        let speculation = decoder.speculation.as_mut().expect("it is allowed");
        assert!(!speculation.draft(49).is_empty(), "{name}");
        decoder.transformer = broken.transformer.clone();
        let result = decoder.next(50, &control);
        let is_failed = matches!(result, Err(EngineError::Backend { .. }));
        assert!(is_failed, "{name}: {result:?}");
        decoder.finish();
        let session = &model.sessions.current;
        assert!(session.tokens().is_empty(), "{name}");
        let mut caches = session.caches().iter();
        assert!(caches.all(|cache| cache.n_tokens() == 0), "{name}");
    }
}

#[test]
fn a_model_with_recurrent_layers_does_not_draft() {
    let mut model = load("qwen3-5-text-q8-g64");
    let mut speculation = Speculation::pipelined(&STEP_WIDTHS);
    let params = params([1000.0, 0.0, 0.0]);
    let (_, stats) = generate(&mut model, Some(&mut speculation), &params);
    assert_eq!(stats.drafted_tokens, 0);
}

/// A draft of the same model is always correct, one of another model with random weights never.
#[test]
fn a_draft_model_changes_no_token() {
    let greedy = SamplingParams {
        temperature: 0.0,
        ..SamplingParams::default()
    };
    // So short that the draft model needs no separate read. A draft is tried, however long steps take.
    let prompt = [64];
    let mut n_accepted = Vec::new();
    for name in ["qwen3-bf16", "llama-bf16-biases"] {
        let mut model = load("qwen3-bf16");
        let mut respond = |mut speculation: Option<Speculation>| {
            model.trim(Trim::Everything);
            let sampler = Sampler::new(&greedy, &prompt, model.info.vocab_size);
            let mut decoder = Decoder::new(
                model.transformer.clone(),
                &mut model.sessions,
                speculation.as_mut(),
                &prompt,
                unconstrained(sampler),
            );
            let control = JobControl::new();
            prefill(&mut decoder, &prompt);
            let tokens = (1..=100).rev().map(|n_left| decoder.next(n_left, &control));
            let tokens: Vec<_> = tokens.collect();
            let mut stats = Stats::default();
            decoder.add_counts(&mut stats);
            decoder.finish();
            (tokens, stats)
        };
        let (expected, _) = respond(None);
        let draft = load_draft(name);
        // No lookups, and no queue to empty.
        let speculation = Speculation::new(&[]).with_drafter(Box::new(draft), 5);
        let (tokens, stats) = respond(Some(speculation));
        assert_eq!(tokens, expected, "{name}");
        assert!(stats.drafted_tokens > 0, "{name}: {stats:?}");
        n_accepted.push(stats.accepted_tokens);
    }
    assert!(n_accepted[0] > n_accepted[1], "{n_accepted:?}");
}
