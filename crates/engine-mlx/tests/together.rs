//! Responses in turns, for every kind of cache, with steps of their own and with shared ones: each
//! response equals that of a single pass over the whole text, and conversations continue after they ran
//! beside each other.

#[path = "fixtures/support.rs"]
mod support;
#[path = "fixtures/turns.rs"]
mod turns;

use support::lock_mlx;
use tempfile::TempDir;
use transom_engine::test_support::{
    Recorder, begin, begin_with, greedy_params, in_turns, step_to_first_token,
};
use transom_engine::{
    Constraint, ConversationId, FinishReason, GenerationParams, Grammar, JobControl, Limits,
    LoadedModel, ResponseId, Section, Stats, Trim,
};
use transom_engine_mlx::{MlxModel, SharedSteps};
use turns::{check_response, model_within, respond, text};

/// With attention to all tokens, with windows, and with recurrent states.
const MODELS: [&str; 4] = [
    "qwen3-q4-g64",
    "mistral-window",
    "gemma4-bf16-tables",
    "qwen3-next-q4-g64",
];

fn limits() -> Limits {
    Limits {
        prefill_chunk: 32,
        parked_bytes: 64 << 20,
        ..Limits::default()
    }
}

fn params(id: u64, n_tokens: usize) -> GenerationParams {
    GenerationParams {
        max_tokens: Some(n_tokens),
        conversation: Some(ConversationId(id)),
        ..greedy_params()
    }
}

/// Loads a model whose responses always share steps.
fn sharing_model(name: &str) -> (TempDir, MlxModel) {
    let (folder, mut model) = model_within(name, &limits());
    model.set_shared_steps(SharedSteps::Always);
    (folder, model)
}

#[test]
fn each_response_equals_one_pass_and_its_conversation_continues() {
    let _mlx = lock_mlx();
    for (name, shared_steps) in MODELS
        .into_iter()
        .flat_map(|name| [SharedSteps::Never, SharedSteps::Always].map(|mode| (name, mode)))
    {
        let (_folder, mut model) = model_within(name, &limits());
        model.set_shared_steps(shared_steps);
        let mut prompts = [text(1, 90), text(2, 40), text(3, 12)];
        for turn in 0..2 {
            let ids: Vec<ResponseId> = (1..)
                .zip(&prompts)
                .map(|(id, prompt)| begin(&mut model, prompt, &params(id, 10 + 8 * id as usize)))
                .collect();
            let ended = in_turns(&mut model, &ids);
            for (number, (prompt, (tokens, stats))) in prompts.iter_mut().zip(ended).enumerate() {
                let case = format!("{name}, {shared_steps:?}, turn {turn}, response {number}");
                check_response(&model, prompt, &tokens, &case);
                // The last token of a response may not have been processed.
                let before = if turn == 0 { 0 } else { prompt.len() - 15 };
                let is_known = (before.saturating_sub(1)..=before).contains(&stats.cached_tokens);
                assert!(is_known, "{case}: {} of {before}", stats.cached_tokens);
                prompt.extend(tokens);
                prompt.extend(text(10 + turn, 15));
            }
        }
    }
}

/// Takes turns until all responses have ended, each in its own way. Returns what each has sent, and its
/// end.
fn until_all_end(model: &mut MlxModel, ids: &[ResponseId]) -> Vec<(Recorder, FinishReason, Stats)> {
    let mut recorders = vec![Recorder::default(); ids.len()];
    let mut ends = vec![None; ids.len()];
    while ends.contains(&None) {
        for ((id, recorder), end) in ids.iter().zip(&mut recorders).zip(&mut ends) {
            if end.is_none() {
                *end = model.step(*id, recorder).expect("the step succeeds");
            }
        }
    }
    let ends = ends.into_iter().flatten();
    let ended = recorders.into_iter().zip(ends);
    ended
        .map(|(recorder, (reason, stats))| (recorder, reason, stats))
        .collect()
}

/// Drafts, forced text and log probabilities need steps alone, between those that the others share.
#[test]
fn responses_of_every_kind_run_beside_those_that_share_steps() {
    let _mlx = lock_mlx();
    let mut n_drafted = 0;
    // A draft needs caches that can give back its tokens.
    for name in &MODELS[..3] {
        let (_folder, mut model) = sharing_model(name);
        let plain = params(1, 40);
        let mut repeating = params(2, 200);
        repeating.sampling.logit_bias = vec![(64, 1000.0)];
        let mut constrained = params(3, 100);
        constrained.ignore_end_of_text = false;
        let choice = Grammar::Choice(vec!["one answer".to_owned(), "another".to_owned()]);
        constrained.constraint = Some(Constraint::on_response(choice));
        let mut scored = params(4, 30);
        scored.logprobs = Some(2);
        // A response that is alone tries drafts, to learn what they cost.
        respond(&mut model, &text(9, 40), &repeating);
        let all = [&repeating, &plain, &constrained, &scored, &plain, &plain];
        let ids: Vec<ResponseId> = (0..)
            .zip(all)
            .map(|(number, params)| begin(&mut model, &text(number, 30), params))
            .collect();
        let ended = until_all_end(&mut model, &ids);
        assert_eq!(ended[0].0.tokens, [64; 200], "{name}");
        n_drafted += ended[0].2.drafted_tokens;
        for number in [1, 3, 4, 5] {
            let (recorder, reason, _) = &ended[number];
            let case = format!("{name}, response {number}");
            assert_eq!(*reason, FinishReason::Length, "{case}");
            check_response(&model, &text(number as u32, 30), &recorder.tokens, &case);
        }
        let (recorder, reason, _) = &ended[2];
        assert_eq!(*reason, FinishReason::Stop, "{name}");
        let answer = recorder.text(Section::Answer);
        assert!(
            ["one answer", "another"].contains(&answer.as_str()),
            "{name}: {answer:?}"
        );
    }
    assert!(n_drafted > 0);
}

/// The token that ends a text is in a shared step, and the others go on.
#[test]
fn responses_end_by_a_token_or_a_stop_string_beside_others() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let (_folder, mut model) = sharing_model(name);
        let plain = params(1, 30);
        let (tokens, _, _) = respond(&mut model, &text(1, 30), &plain);
        let ids = [1, 2, 3].map(|number| begin(&mut model, &text(number, 30), &plain));
        let long = until_all_end(&mut model, &ids);
        let text_of = |ended: &(Recorder, FinishReason, Stats)| ended.0.text(Section::Answer);
        check_response(&model, &text(1, 30), &tokens, name);
        let all = text_of(&long[1]);
        let stop: String = all.chars().skip(5).take(2).collect();
        let stopping = GenerationParams {
            stop: vec![stop.clone()],
            ..plain.clone()
        };
        let ids = [(1, &plain), (2, &stopping), (3, &plain)]
            .map(|(number, params)| begin(&mut model, &text(number, 30), params));
        let ended = until_all_end(&mut model, &ids);
        assert_eq!(ended[1].1, FinishReason::Stop, "{name}");
        assert_eq!(
            Some(text_of(&ended[1]).as_str()),
            all.split(&stop).next(),
            "{name}"
        );
        for number in [0, 2] {
            assert_eq!(text_of(&ended[number]), text_of(&long[number]), "{name}");
        }
    }
}

#[test]
fn a_response_starts_from_the_prompt_of_a_running_one() {
    let _mlx = lock_mlx();
    for name in &MODELS[..3] {
        let (_folder, mut model) = sharing_model(name);
        let shared = text(1, 80);
        let other = [&shared[..], &text(2, 20)].concat();
        let running = begin(&mut model, &shared, &params(1, 40));
        // The prompt is read, and a token is queued after those that are known.
        for _ in 0..6 {
            assert_eq!(model.step(running, &mut Recorder::default()), Ok(None));
        }
        let beside = begin(&mut model, &other, &params(2, 12));
        let ended = in_turns(&mut model, &[beside]);
        check_response(&model, &other, &ended[0].0, name);
        assert_eq!(ended[0].1.cached_tokens, shared.len(), "{name}");
        let mut recorder = Recorder::default();
        while model
            .step(running, &mut recorder)
            .expect("it goes on")
            .is_none()
        {}
        // Its first tokens were recorded by nobody; the others continue the text.
        assert!(!recorder.tokens.is_empty(), "{name}");
    }
}

#[test]
fn the_memory_of_a_further_response_is_free_after_it() {
    let _mlx = lock_mlx();
    let limits = Limits {
        parked_bytes: 0,
        ..limits()
    };
    let (_folder, mut model) = model_within("qwen3-q4-g64", &limits);
    let one = begin(&mut model, &text(1, 60), &params(1, 4));
    in_turns(&mut model, &[one]);
    let alone = model.memory().kv_cache_bytes;
    model.trim(Trim::Everything);
    let ids = [1, 2, 3].map(|id| begin(&mut model, &text(id as u32, 60), &params(id, 4)));
    for id in ids {
        // So that each has a part of its prompt.
        assert_eq!(model.step(id, &mut Recorder::default()), Ok(None));
    }
    assert!(model.memory().kv_cache_bytes > alone);
    in_turns(&mut model, &ids);
    assert!(model.memory().kv_cache_bytes <= alone);
    assert_eq!(model.memory().parked_bytes, 0);
}

/// Only the KV cache of a response in progress is reserved beside that of the model.
#[test]
fn a_response_that_ends_beside_another_leaves_a_parked_conversation() {
    let _mlx = lock_mlx();
    for parked_bytes in [0, 64 << 20] {
        let limits = Limits {
            parked_bytes,
            ..limits()
        };
        let (_folder, mut model) = model_within("qwen3-q4-g64", &limits);
        model.set_shared_steps(SharedSteps::Always);
        let mut prompt = text(1, 60);
        let ended = begin(&mut model, &prompt, &params(1, 4));
        let running = begin(&mut model, &text(2, 60), &params(2, 40));
        let (tokens, _) = in_turns(&mut model, &[ended]).remove(0);
        // The running response has read nothing.
        assert_eq!(model.memory().kv_cache_bytes, 0);
        assert_eq!(model.memory().parked_bytes > 0, parked_bytes > 0);
        prompt.extend(tokens);
        prompt.extend(text(3, 10));
        let next = begin(&mut model, &prompt, &params(1, 4));
        let ended = in_turns(&mut model, &[running, next]);
        assert_eq!(ended[1].1.cached_tokens > 60, parked_bytes > 0);
    }
}

/// Nothing is kept while memory is short.
#[test]
fn a_response_that_is_stopped_for_its_memory_leaves_nothing_beside_another() {
    let _mlx = lock_mlx();
    let (_folder, mut model) = model_within("qwen3-q4-g64", &limits());
    let control = JobControl::new();
    let stopped = begin_with(&mut model, &text(1, 60), &params(1, 10), &control);
    let running = begin(&mut model, &text(2, 60), &params(2, 10));
    step_to_first_token(&mut model, stopped);
    control.shed();
    let end = model.step(stopped, &mut Recorder::default());
    assert!(matches!(end, Ok(Some((FinishReason::Shed, _)))), "{end:?}");
    assert_eq!(model.memory().kv_cache_bytes, 0);
    assert_eq!(model.memory().parked_bytes, 0);
    in_turns(&mut model, &[running]);
}
