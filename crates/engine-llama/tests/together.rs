//! Responses in turns: the cache of one grows, shifts and ends beside that of another, and each response
//! is the one that it is alone.

#[path = "fixtures/support.rs"]
mod support;

use std::path::Path;

use support::{Model, load, model_path};
use transom_catalog::test_support::{TemporaryModel, TinyModel};
use transom_engine::test_support::{
    Recorder, begin, begin_with, greedy_params, in_turns, step_to_first_token,
};
use transom_engine::{
    Constraint, ConversationId, FinishReason, GenerationParams, Grammar, JobControl, Limits,
    NextStep, ResponseId, SamplingParams, TokenEvent,
};
use transom_engine_llama::LlamaEngine;

const CONTEXT: usize = 2048;

/// Sharing steps needs memory to move the caches, which is that of longer contexts.
const SHARED_CONTEXT: usize = 8192;

fn model(parked_bytes: u64) -> Model {
    model_at(&model_path("llama-f16"), parked_bytes)
}

fn model_at(path: &Path, parked_bytes: u64) -> Model {
    model_sharing(path, parked_bytes, usize::MAX)
}

/// Loads a model of which `min_sharing` responses and more share steps.
fn model_sharing(path: &Path, parked_bytes: u64, min_sharing: usize) -> Model {
    let limits = Limits {
        // Longer than most models here.
        context_length: if min_sharing < usize::MAX {
            SHARED_CONTEXT
        } else {
            CONTEXT
        },
        parked_bytes,
        ..Limits::default()
    };
    let engine = LlamaEngine::new().with_threads(1);
    let engine = engine.with_min_sharing(min_sharing);
    load(&engine, path, &limits).expect("the model loads")
}

/// Writes a model whose context has [`CONTEXT`] tokens.
fn long_model() -> TemporaryModel {
    let model = TinyModel {
        context_length: CONTEXT as u32,
        ..TinyModel::default()
    };
    model.write_temporary()
}

/// Writes a model whose responses can share steps.
fn sharing_model() -> TemporaryModel {
    let model = TinyModel {
        context_length: SHARED_CONTEXT as u32,
        ..TinyModel::default()
    };
    model.write_temporary()
}

/// Returns `n` ordinary pseudorandom tokens that depend on `salt`.
fn words(n: usize, salt: u32) -> Vec<u32> {
    let word = |i: u32| 20 + (i + salt).wrapping_mul(2_654_435_761) % 1009 % 200;
    (0..n as u32).map(word).collect()
}

fn greedy(id: u64, n_tokens: usize) -> GenerationParams {
    GenerationParams {
        max_tokens: Some(n_tokens),
        conversation: Some(ConversationId(id)),
        ..greedy_params()
    }
}

/// The first cache is allocated for 1,024 tokens, and grows while the second one is used.
#[test]
fn a_cache_that_grows_or_shifts_beside_another_changes_no_token() {
    let shifting = GenerationParams {
        shift_context: true,
        ..greedy(2, 150)
    };
    let requests = [
        (words(1000, 1), greedy(1, 80)),
        (words(CONTEXT - 40, 500), shifting),
        (words(30, 900), greedy(3, 120)),
    ];
    let file = long_model();
    let alone = requests.clone().map(|(prompt, params)| {
        let mut model = model_at(&file.path, 0);
        let id = begin(&mut *model, &prompt, &params);
        in_turns(&mut *model, &[id]).remove(0)
    });
    assert!(alone[1].1.shifted_tokens > 0);
    let mut model = model_at(&file.path, 0);
    let ids = requests.map(|(prompt, params)| begin(&mut *model, &prompt, &params));
    for (found, expected) in in_turns(&mut *model, &ids).iter().zip(&alone) {
        assert_eq!(found.0, expected.0);
        assert_eq!(found.1.shifted_tokens, expected.1.shifted_tokens);
        assert_eq!(found.1.cached_tokens, 0);
    }
}

/// A conversation continues where it was, also if others began and ended meanwhile.
#[test]
fn every_conversation_continues_at_its_end() {
    let mut model = model(256 << 20);
    let mut prompts: Vec<Vec<u32>> = (0..3)
        .map(|n| words(200 + 50 * n, 300 * n as u32))
        .collect();
    for turn in 0..3 {
        let ids: Vec<ResponseId> = (1..)
            .zip(&prompts)
            .map(|(id, prompt)| begin(&mut *model, prompt, &greedy(id, 20 + 10 * id as usize)))
            .collect();
        let ended = in_turns(&mut *model, &ids);
        for (prompt, (tokens, stats)) in prompts.iter_mut().zip(ended) {
            // All but the last token of the response, and 10 new ones.
            let expected = if turn == 0 { 0 } else { prompt.len() - 11 };
            assert_eq!(stats.cached_tokens, expected, "turn {turn}");
            prompt.extend(tokens);
            prompt.extend(words(10, 40 + turn));
        }
    }
}

#[test]
fn between_responses_there_is_one_context() {
    let mut model = model(0);
    let one = model.memory().kv_cache_bytes;
    let ids = [1, 2, 3].map(|id| begin(&mut *model, &words(100, id as u32), &greedy(id, 10)));
    assert_eq!(model.memory().kv_cache_bytes, 3 * one);
    in_turns(&mut *model, &ids);
    assert_eq!(model.memory().kv_cache_bytes, one);
    assert_eq!(model.memory().parked_bytes, 0);
}

/// Only the cache of a response in progress is reserved beside that of the model.
#[test]
fn a_response_that_ends_beside_another_leaves_a_parked_conversation() {
    for parked_bytes in [0, 256 << 20] {
        let mut model = model(parked_bytes);
        let one = model.memory().kv_cache_bytes;
        let mut prompt = words(100, 1);
        let ended = begin(&mut *model, &prompt, &greedy(1, 10));
        let running = begin(&mut *model, &words(100, 500), &greedy(2, 40));
        let (tokens, _) = in_turns(&mut *model, &[ended]).remove(0);
        assert_eq!(model.memory().kv_cache_bytes, one);
        assert_eq!(model.memory().parked_bytes > 0, parked_bytes > 0);
        prompt.extend(tokens);
        prompt.extend(words(10, 40));
        let next = begin(&mut *model, &prompt, &greedy(1, 10));
        let ended = in_turns(&mut *model, &[running, next]);
        let known = if parked_bytes > 0 {
            prompt.len() - 11
        } else {
            0
        };
        assert_eq!(ended[1].1.cached_tokens, known);
        assert_eq!(model.memory().kv_cache_bytes, one);
    }
}

/// Nothing is copied while memory is short.
#[test]
fn a_response_that_is_stopped_for_its_memory_leaves_nothing_beside_another() {
    let mut model = model(256 << 20);
    let one = model.memory().kv_cache_bytes;
    let control = JobControl::new();
    let stopped = begin_with(&mut *model, &words(100, 1), &greedy(1, 10), &control);
    let running = begin(&mut *model, &words(100, 500), &greedy(2, 40));
    step_to_first_token(&mut *model, stopped);
    control.shed();
    let end = model.step(stopped, &mut Recorder::default());
    assert!(matches!(end, Ok(Some((FinishReason::Shed, _)))), "{end:?}");
    assert_eq!(model.memory().kv_cache_bytes, one);
    assert_eq!(model.memory().parked_bytes, 0);
    in_turns(&mut *model, &[running]);
}

/// The copy that it started from is not kept: the conversation is still in the other cache. A small
/// part of a long conversation is not worth a copy.
#[test]
fn a_response_starts_from_a_copy_of_a_running_one_if_it_shares_enough() {
    let file = long_model();
    for (n_shared, n_other, n_cached) in [(100, 50, 100), (40, 1300, 0)] {
        let mut model = model_at(&file.path, 256 << 20);
        let shared = words(n_shared, 1);
        let long = [&shared[..], &words(n_other, 500)].concat();
        let running = begin(&mut *model, &long, &greedy(1, 20));
        step_to_first_token(&mut *model, running);
        let prompt = [&shared[..], &words(40, 900)].concat();
        let beside = begin(&mut *model, &prompt, &greedy(2, 5));
        assert_eq!(model.memory().parked_bytes, 0);
        let (_, stats) = in_turns(&mut *model, &[beside]).remove(0);
        assert_eq!(stats.cached_tokens, n_cached);
        in_turns(&mut *model, &[running]);
    }
}

#[test]
fn the_step_of_one_response_computes_the_token_of_another() {
    let file = sharing_model();
    let mut model = model_sharing(&file.path, 0, 2);
    let ids = [1, 2].map(|id| begin(&mut *model, &words(60, id as u32), &greedy(id, 30)));
    for id in ids {
        step_to_first_token(&mut *model, id);
    }
    let mut n_taken = 0;
    for _ in 0..20 {
        for id in ids {
            n_taken += usize::from(model.next_step(id) == NextStep::Take);
            assert_eq!(model.step(id, &mut Recorder::default()), Ok(None));
        }
    }
    assert!(n_taken >= 18, "{n_taken}");
}

/// Its prompt is processed, so nobody has to compute before it has its first token.
#[test]
fn a_sampled_token_is_taken_at_once() {
    let mut model = model(0);
    let id = begin(&mut *model, &words(20, 1), &greedy(1, 3));
    let mut recorder = Recorder::default();
    for n_tokens in 0..3_usize {
        let expected = match n_tokens {
            1 => NextStep::Take,
            _ => NextStep::Compute,
        };
        assert_eq!(recorder.tokens.len(), n_tokens.saturating_sub(1));
        assert_eq!(model.next_step(id), expected, "{n_tokens}");
        assert_eq!(model.step(id, &mut recorder), Ok(None));
    }
}

/// Responses of several lengths that begin and end at different times share steps. Each is the one that it
/// is alone, and its conversation continues at its end.
#[test]
fn shared_steps_change_no_token() {
    let file = sharing_model();
    let mut alone = model_at(&file.path, 0);
    let mut together = model_sharing(&file.path, 256 << 20, 2);
    let mut prompts: Vec<Vec<u32>> = (0..5).map(|n| words(40 + 30 * n, 300 * n as u32)).collect();
    for turn in 0..2 {
        let requests: Vec<(Vec<u32>, GenerationParams)> = (1..)
            .zip(&prompts)
            .map(|(id, prompt)| (prompt.clone(), greedy(id, 10 + 15 * id as usize)))
            .collect();
        let ids: Vec<ResponseId> = requests
            .iter()
            .map(|(prompt, params)| begin(&mut *together, prompt, params))
            .collect();
        let ended = in_turns(&mut *together, &ids);
        for (((request, params), prompt), (tokens, stats)) in
            requests.iter().zip(&mut prompts).zip(ended)
        {
            let id = begin(&mut *alone, request, params);
            let (expected, _) = in_turns(&mut *alone, &[id]).remove(0);
            assert_eq!(tokens, expected, "turn {turn}");
            if turn > 0 {
                assert_eq!(stats.cached_tokens, request.len() - 11);
            }
            prompt.extend(tokens);
            prompt.extend(words(10, 40 + turn));
        }
    }
}

/// With a constraint, forced text in it, log probabilities, and a private one.
#[test]
fn every_kind_of_response_is_beside_others_as_it_is_alone() {
    let file = sharing_model();
    let matching = |pattern: &str| GenerationParams {
        constraint: Some(Constraint::on_response(Grammar::Regex(pattern.to_owned()))),
        ignore_end_of_text: false,
        ..greedy(0, 30)
    };
    let kinds = [
        matching("[a-z]{200}"),
        matching("([a-y]zzzz){200}"),
        GenerationParams {
            logprobs: Some(2),
            ..greedy(0, 30)
        },
        GenerationParams {
            is_private: true,
            conversation: None,
            ..greedy(0, 30)
        },
    ];
    let requests: Vec<(Vec<u32>, GenerationParams)> = (1..)
        .zip(kinds)
        .map(|(number, params)| {
            let conversation = params.conversation.map(|_| ConversationId(number));
            // Inside a draft, forced text may be spelled with other tokens.
            let params = GenerationParams {
                conversation,
                speculate: false,
                ..params
            };
            (words(50 + 10 * number as usize, 30 * number as u32), params)
        })
        .collect();
    let mut alone = model_at(&file.path, 0);
    let mut together = model_sharing(&file.path, 0, 2);
    let ids: Vec<ResponseId> = requests
        .iter()
        .map(|(prompt, params)| begin(&mut *together, prompt, params))
        .collect();
    let mut recorders: Vec<Recorder> = ids.iter().map(|_| Recorder::default()).collect();
    let mut n_taken = 0;
    let mut is_running = true;
    while is_running {
        is_running = false;
        for (id, recorder) in ids.iter().zip(&mut recorders) {
            if recorder.tokens.len() < 30 {
                is_running = true;
                n_taken += usize::from(together.next_step(*id) == NextStep::Take);
                assert_eq!(together.step(*id, recorder), Ok(None));
            }
        }
    }
    // The private one has a context of its own.
    assert!(n_taken > 50, "{n_taken}");
    for ((prompt, params), recorder) in requests.iter().zip(&recorders) {
        let id = begin(&mut *alone, prompt, params);
        let mut expected = Recorder::default();
        while let Ok(None) = alone.step(id, &mut expected) {}
        assert_eq!(recorder.tokens, expected.tokens);
        let scores = |recorder: &Recorder| -> Vec<f32> {
            let all = recorder.events.iter().filter_map(|event| match event {
                TokenEvent::Text { logprobs, .. } => Some(logprobs),
                _ => None,
            });
            all.flatten().map(|one| one.chosen.logprob).collect()
        };
        let (found, expected) = (scores(recorder), scores(&expected));
        // A token that ends inside a character has its text later.
        assert_eq!(found.len() > 20, params.logprobs.is_some());
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 0.01, "{found} {expected}");
        }
    }
}

/// A response stops within one turn, also while others share its steps, and the others go on.
#[test]
fn a_response_is_stopped_beside_others_that_share_its_steps() {
    let file = sharing_model();
    let mut alone = model_at(&file.path, 0);
    let id = begin(&mut *alone, &words(60, 1), &greedy(1, 60));
    let (expected, _) = in_turns(&mut *alone, &[id]).remove(0);
    let mut model = model_sharing(&file.path, 0, 2);
    let one = model.memory().kv_cache_bytes;
    let control = JobControl::new();
    let running = begin(&mut *model, &words(60, 1), &greedy(1, 60));
    let stopped = begin_with(&mut *model, &words(90, 500), &greedy(2, 60), &control);
    let mut recorder = Recorder::default();
    for turn in 0..20 {
        assert_eq!(model.step(running, &mut recorder), Ok(None));
        if turn == 15 {
            control.cancel();
        }
        let end = model.step(stopped, &mut Recorder::default());
        assert_eq!(end.map(|end| end.is_some()), Ok(turn == 15), "turn {turn}");
        if turn == 15 {
            break;
        }
    }
    let (rest, _) = in_turns(&mut *model, &[running]).remove(0);
    assert_eq!([recorder.tokens, rest].concat(), expected);
    assert_eq!(model.memory().kv_cache_bytes, one);
}

/// A request with a seed is answered the same beside others as alone.
#[test]
fn a_response_with_a_seed_is_the_same_beside_others() {
    let file = sharing_model();
    let seeded = GenerationParams {
        sampling: SamplingParams {
            seed: Some(5),
            temperature: 1.0,
            ..SamplingParams::default()
        },
        ..greedy(9, 50)
    };
    let mut alone = model_at(&file.path, 0);
    let id = begin(&mut *alone, &words(70, 7), &seeded);
    let (expected, _) = in_turns(&mut *alone, &[id]).remove(0);
    let mut model = model_sharing(&file.path, 0, 2);
    let mut ids = vec![begin(&mut *model, &words(70, 7), &seeded)];
    ids.extend([1, 2].map(|id| begin(&mut *model, &words(50, id as u32), &greedy(id, 60))));
    assert_eq!(in_turns(&mut *model, &ids)[0].0, expected);
}

#[test]
fn only_the_first_response_drafts_and_none_changes() {
    // It repeats itself.
    let prompt: Vec<u32> = words(8, 1).repeat(30);
    let plain = GenerationParams {
        speculate: false,
        ..greedy(1, 60)
    };
    let mut model = model(0);
    let id = begin(&mut *model, &prompt, &plain);
    let (expected, _) = in_turns(&mut *model, &[id]).remove(0);
    let ids = [1, 2].map(|id| begin(&mut *model, &prompt, &greedy(id, 60)));
    let ended = in_turns(&mut *model, &ids);
    for (tokens, _) in &ended {
        assert_eq!(*tokens, expected);
    }
    assert_eq!(ended[1].1.drafted_tokens, 0);
}

#[test]
fn a_response_that_has_ended_has_no_more_steps() {
    let mut model = model(0);
    let id = begin(&mut *model, &words(20, 1), &greedy(1, 2));
    in_turns(&mut *model, &[id]);
    assert!(model.step(id, &mut Recorder::default()).is_err());
    let next = begin(&mut *model, &words(20, 1), &greedy(1, 2));
    in_turns(&mut *model, &[next]);
}
