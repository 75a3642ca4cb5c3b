//! Compares shared steps with steps of one response, and counts them.

use transom_engine::test_support::{
    Recorder, begin, begin_with, greedy_params, in_turns, step_to_first_token,
};
use transom_engine::{
    Constraint, EngineError, FinishReason, GenerationParams, Grammar, JobControl, LoadedModel,
    NextStep, ParkedState, ResponseId,
};

use super::*;
use crate::error::MlxResult;
use crate::kv_cache::LayerCache;
use crate::model::MlxModel;
use crate::nn::Transformer;
use crate::shared_steps::SharedSteps;
use crate::test_support::{WatchedLayers, load, watch_layers};

/// A model of each architecture: with full attention, windows, recurrent states, shared keys, sinks,
/// experts, and rotations for long contexts.
const ARCHITECTURES: [&str; 19] = [
    "gemma3-bf16",
    "gemma4-bf16-experts",
    "gemma4-bf16-tables",
    "gpt-oss-bf16",
    "gpt-oss-mxfp4",
    "llama-bf16-llama3",
    "ministral3-bf16",
    "mistral-window",
    "mistral3-q4-g64",
    "phi3-q4-g64-longrope",
    "qwen2-bf16",
    "qwen3-bf16",
    "qwen3-5-bf16-authors",
    "qwen3-5-moe-bf16-authors",
    "qwen3-moe-mxfp4",
    "qwen3-moe-q4-g64",
    "qwen3-next-bf16-authors",
    "qwen3-next-q4-g64",
    "smollm3-bf16",
];

/// Largest error of a logit, as a fraction of the largest one. Products with one row and with several
/// sum in different orders.
const TOLERANCE: f32 = 5e-5;

/// Lengths of texts. Buffers of 256 tokens are full within a few steps of two of them.
const LENGTHS: [i32; 5] = [1, 70, 254, 511, 9];

fn tokens(sequence: i32, positions: std::ops::Range<i32>) -> Array {
    let tokens: Vec<u32> = positions
        .map(|position| ((position * (7 + sequence) + sequence) % 250) as u32)
        .collect();
    Array::from_slice(&tokens, &[tokens.len() as i32])
}

/// Returns the caches of each text.
fn prefilled(transformer: &Transformer) -> Vec<Vec<LayerCache>> {
    let read = |(sequence, length): (i32, i32)| {
        let mut caches = transformer.new_caches();
        let tokens = tokens(sequence, 0..length);
        let logits = transformer.logits(&tokens, &mut [&mut caches], Positions::Last);
        logits.and_then(|logits| logits.eval()).expect("MLX");
        caches
    };
    (0..).zip(LENGTHS).map(read).collect()
}

fn values(logits: &Array) -> Vec<f32> {
    let logits = logits.contiguous().expect("MLX");
    logits.as_slice::<f32>().to_vec()
}

#[test]
fn a_shared_step_computes_the_logits_of_steps_alone() {
    for name in ARCHITECTURES {
        let model = load(name);
        let transformer = &model.transformer;
        let mut alone = prefilled(transformer);
        let fork = |(caches, length): (&Vec<LayerCache>, i32)| -> MlxResult<Vec<LayerCache>> {
            caches.iter().map(|cache| cache.fork(length)).collect()
        };
        let shared = alone.iter().zip(LENGTHS).map(fork);
        let mut shared: Vec<_> = shared.map(|caches| caches.expect("MLX")).collect();
        for step in 0..4 {
            let next = (0..).zip(LENGTHS);
            let next =
                next.map(|(number, length)| tokens(number, length + step..length + step + 1));
            let next: Vec<Array> = next.collect();
            let together = ops::concatenate(&next, 0).expect("MLX");
            let mut sequences: Vec<_> = shared.iter_mut().map(Vec::as_mut_slice).collect();
            let logits = transformer.logits(&together, &mut sequences, Positions::Last);
            let logits = logits.expect("MLX");
            assert_eq!(logits.dim(0), LENGTHS.len() as i32);
            let rows = parts(&logits, LENGTHS.len() as i32);
            for (number, (row, next)) in rows.zip(&next).enumerate() {
                let caches = &mut [&mut *alone[number]];
                let expected = transformer.logits(next, caches, Positions::Last);
                let expected = values(&expected.expect("MLX"));
                let largest = expected.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
                for (a, b) in values(&row.expect("MLX")).iter().zip(&expected) {
                    // Also false for a NaN.
                    assert!(
                        (a - b).abs() <= TOLERANCE * largest,
                        "{name}, step {step}, sequence {number}: {a} instead of {b}"
                    );
                }
            }
        }
    }
}

#[test]
fn several_sequences_have_one_token_each() {
    let model = load("qwen3-q4-g64");
    let mut caches = [(); 2].map(|()| model.transformer.new_caches());
    let mut sequences: Vec<_> = caches.iter_mut().map(Vec::as_mut_slice).collect();
    for n_tokens in [1, 3] {
        let tokens = tokens(0, 0..n_tokens);
        let logits = model
            .transformer
            .logits(&tokens, &mut sequences, Positions::Last);
        assert!(logits.is_err(), "{n_tokens}");
    }
    let tokens = tokens(0, 0..1);
    let logits = model.transformer.logits(&tokens, &mut [], Positions::Last);
    assert!(logits.is_err());
}

/// A model whose responses always share steps, and what counts its steps.
fn sharing(name: &str) -> (MlxModel, WatchedLayers) {
    let mut model = load(name);
    model.set_shared_steps(SharedSteps::Always);
    let watched = watch_layers(&mut model);
    (model, watched)
}

fn params(n_tokens: usize) -> GenerationParams {
    GenerationParams {
        max_tokens: Some(n_tokens),
        speculate: false,
        ..greedy_params()
    }
}

fn prompt(number: u32) -> Vec<u32> {
    (0..20 + 9 * number)
        .map(|i| (i * (5 + number)) % 250)
        .collect()
}

/// Begins responses of these lengths and takes their turns up to the first token of each.
fn begin_all(model: &mut MlxModel, lengths: &[usize]) -> Vec<ResponseId> {
    let responses = (1..).zip(lengths);
    let ids: Vec<_> = responses
        .map(|(number, length)| begin(model, &prompt(number), &params(*length)))
        .collect();
    ids.iter().for_each(|id| step_to_first_token(model, *id));
    ids
}

#[test]
fn four_responses_take_as_many_steps_as_the_longest() {
    for name in ["qwen3-q4-g64", "mistral-window", "qwen3-5-text-q8-g64"] {
        for (mode, lengths, expected) in [
            (SharedSteps::Always, [30; 4], 29),
            (SharedSteps::Always, [5, 30, 1, 12], 29),
            (SharedSteps::Never, [30; 4], 4 * 29),
        ] {
            let (mut model, watched) = sharing(name);
            model.set_shared_steps(mode);
            let ids = begin_all(&mut model, &lengths);
            watched.n_steps.set(0);
            let ended = in_turns(&mut model, &ids);
            let n_tokens: Vec<usize> = ended.iter().map(|(tokens, _)| tokens.len() + 1).collect();
            assert_eq!(n_tokens, lengths, "{name}");
            assert_eq!(watched.n_steps.get(), expected, "{name}, {mode:?}");
        }
    }
}

/// Its tokens are sampled from what the constraint allows, which depends on the token before.
#[test]
fn constrained_responses_share_steps_where_they_have_a_choice() {
    for (name, pattern) in [
        ("qwen3-q4-g64", "[a-z]{200}"),
        ("qwen3-5-text-q8-g64", "([a-y]z){200}"),
        ("mistral-window", "(a[b-y]z){200}"),
    ] {
        let (mut model, watched) = sharing(name);
        let pattern = Grammar::Regex(pattern.to_owned());
        let constrained = GenerationParams {
            constraint: Some(Constraint::on_response(pattern)),
            ignore_end_of_text: false,
            ..params(30)
        };
        let mut alone = Vec::new();
        for number in [1, 3] {
            let id = begin(&mut model, &prompt(number), &constrained);
            alone.push(in_turns(&mut model, &[id]).remove(0).0);
        }
        let plain = params(30);
        let ids = [(1, &constrained), (2, &plain), (3, &constrained)]
            .map(|(number, params)| begin(&mut model, &prompt(number), params));
        ids.iter()
            .for_each(|id| step_to_first_token(&mut model, *id));
        watched.n_steps.set(0);
        let together = in_turns(&mut model, &ids);
        assert_eq!(together[0].0, alone[0][1..], "{name}");
        assert_eq!(together[2].0, alone[1][1..], "{name}");
        let n_steps = watched.n_steps.get();
        match name {
            "qwen3-q4-g64" => assert_eq!(n_steps, 29),
            // Forced tokens are read alone.
            _ => assert!((29..3 * 29).contains(&n_steps), "{name}: {n_steps}"),
        }
    }
}

/// Whoever would come next by the times of the turns, those come first that have not read the token of a
/// shared step, and so all stay in one step.
#[test]
fn responses_read_their_tokens_before_the_next_shared_step() {
    let (mut model, watched) = sharing("qwen3-q4-g64");
    let mut ids = begin_all(&mut model, &[30; 4]);
    watched.n_steps.set(0);
    let mut n_turns = 0;
    while let Some(last) = ids.last() {
        let takes = |id: &&ResponseId| model.next_step(**id) == NextStep::Take;
        let next = *ids.iter().rev().find(takes).unwrap_or(last);
        let ended = model
            .step(next, &mut Recorder::default())
            .expect("it goes on");
        if ended.is_some() {
            ids.retain(|id| *id != next);
        }
        n_turns += 1;
    }
    assert_eq!(watched.n_steps.get(), 29);
    // A token each, and an end each.
    assert_eq!(n_turns, 4 * 30);
}

#[test]
fn a_response_that_is_stopped_beside_others_keeps_what_it_has_read() {
    for name in ["qwen3-q4-g64", "mistral-window", "qwen3-5-text-q8-g64"] {
        let (mut model, _) = sharing(name);
        let control = JobControl::new();
        let stopped = begin_with(&mut model, &prompt(1), &params(40), &control);
        let other = begin(&mut model, &prompt(2), &params(40));
        let mut recorder = Recorder::default();
        while recorder.tokens.len() < 3 {
            assert_eq!(model.step(stopped, &mut recorder), Ok(None));
        }
        step_to_first_token(&mut model, other);
        // The step that this one queues is shared, so that the stopped one has a token that it never reads.
        model
            .step(other, &mut Recorder::default())
            .expect("it goes on");
        let decoder = model.responses.get(stopped).expect("it runs").decoder();
        assert!(decoder.has_shared(), "{name}");
        let n_known = decoder.sessions().current.tokens().len();
        control.cancel();
        let ended = model.step(stopped, &mut recorder);
        assert!(
            matches!(ended, Ok(Some((FinishReason::Canceled, _)))),
            "{name}: {ended:?}"
        );
        in_turns(&mut model, &[other]);
        let text = [prompt(1), recorder.tokens].concat();
        let next = begin(&mut model, &[text, prompt(3)].concat(), &params(2));
        let (_, stats) = in_turns(&mut model, &[next]).remove(0);
        // A recurrent state rewinds to the checkpoint before the last tokens of the prompt.
        let least = match model.sessions.current.has_states() {
            true => prompt(1).len() - 8,
            false => n_known,
        };
        assert_eq!(stats.cached_tokens, least, "{name}");
    }
}

#[test]
fn a_failed_step_fails_all_that_share_it_and_no_later_response() {
    for name in ["qwen3-q4-g64", "mistral-window", "qwen3-5-text-q8-g64"] {
        let (mut model, watched) = sharing(name);
        let ids = begin_all(&mut model, &[30; 3]);
        watched.fails.set(true);
        for id in &ids {
            let failed = model.step(*id, &mut Recorder::default());
            assert!(
                matches!(failed, Err(EngineError::Backend { .. })),
                "{name}: {failed:?}"
            );
            watched.fails.set(false);
        }
        assert!(model.responses.is_empty());
        let alone = begin(&mut model, &prompt(1), &params(10));
        let alone = in_turns(&mut model, &[alone]).remove(0);
        assert_eq!(alone.1.cached_tokens, 0, "{name}");
        let ids = begin_all(&mut model, &[10; 3]);
        let together = in_turns(&mut model, &ids);
        assert_eq!(together[0].0, alone.0[1..], "{name}");
    }
}
