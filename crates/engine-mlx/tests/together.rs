//! Responses in turns, for every kind of cache: each response equals that of a single pass over the
//! whole text, and conversations continue after they ran beside each other.

#[path = "fixtures/support.rs"]
mod support;
#[path = "fixtures/turns.rs"]
mod turns;

use support::lock_mlx;
use transom_engine::test_support::{Recorder, begin, begin_with, in_turns, step_to_first_token};
use transom_engine::{
    ConversationId, FinishReason, GenerationParams, JobControl, Limits, LoadedModel, ResponseId,
    Trim,
};
use turns::{check_response, greedy_params, model_within, text};

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

#[test]
fn each_response_equals_one_pass_and_its_conversation_continues() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let (_folder, mut model) = model_within(name, &limits());
        let mut prompts = [text(1, 90), text(2, 40), text(3, 12)];
        for turn in 0..2 {
            let ids: Vec<ResponseId> = (1..)
                .zip(&prompts)
                .map(|(id, prompt)| begin(&mut model, prompt, &params(id, 10 + 8 * id as usize)))
                .collect();
            let ended = in_turns(&mut model, &ids);
            for (number, (prompt, (tokens, stats))) in prompts.iter_mut().zip(ended).enumerate() {
                let case = format!("{name}, turn {turn}, response {number}");
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

#[test]
fn a_response_starts_from_the_prompt_of_a_running_one() {
    let _mlx = lock_mlx();
    for name in &MODELS[..3] {
        let (_folder, mut model) = model_within(name, &limits());
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
