//! Models with recurrent layers, over several turns: the response equals that of a single pass over
//! the whole text, whatever was generated, rewound or saved before, and cached tokens are not
//! processed again.

#[path = "fixtures/support.rs"]
mod support;
#[path = "fixtures/turns.rs"]
mod turns;

use support::{load, lock_mlx};
use transom_engine::test_support::SavedCopy;
use transom_engine::{Limits, LoadedModel};
use transom_engine_mlx::MlxEngine;
use turns::{check_reading_ahead, model, text, turn};

const MODELS: [&str; 3] = [
    "qwen3-5-bf16-authors",
    "qwen3-next-q4-g64",
    "qwen3-5-q5-g32",
];

/// Tokens at the end of a prompt that open the response.
const OPENING: usize = 8;

#[test]
fn the_next_turn_prefills_only_new_tokens() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let (_folder, mut model) = model(name, 64);
        let mut text_so_far = text(1, 70);
        for number in 0..4 {
            let case = format!("{name}, turn {number}");
            let (response, cached) = turn(&mut model, &text_so_far, 30, &case);
            let before = if number == 0 {
                0
            } else {
                text_so_far.len() - 15
            };
            // The last token of a response may not have been processed.
            assert!(
                (before.saturating_sub(1)..=before).contains(&cached),
                "{case}: {cached}"
            );
            text_so_far.extend(response);
            text_so_far.extend(text(10 + number, 15));
        }
    }
}

#[test]
fn another_response_prefills_only_the_opening_tokens() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let (_folder, mut model) = model(name, 64);
        let prompt = text(2, 150);
        let (first, _) = turn(&mut model, &prompt, 40, name);
        for _ in 0..2 {
            let (again, cached) = turn(&mut model, &prompt, 40, name);
            assert_eq!(cached, prompt.len() - OPENING, "{name}");
            assert_eq!(again, first, "{name}");
        }
    }
}

#[test]
fn the_next_turn_without_the_reasoning_reuses_the_prompt() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let (_folder, mut model) = model(name, 64);
        let prompt = text(3, 130);
        turn(&mut model, &prompt, 50, name);
        // The template repeats the prompt without its last tokens and without the reasoning.
        let next = [&prompt[..prompt.len() - 5], &text(4, 60)].concat();
        let (_, cached) = turn(&mut model, &next, 20, name);
        assert_eq!(cached, prompt.len() - OPENING, "{name}");
    }
}

#[test]
fn after_reading_ahead_only_the_new_message_is_read() {
    let _mlx = lock_mlx();
    for name in MODELS {
        check_reading_ahead(name, 30, OPENING);
    }
}

#[test]
fn an_edited_message_reuses_the_tokens_before_it() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let (_folder, mut model) = model(name, 64);
        let mut text_so_far = text(5, 50);
        let (response, _) = turn(&mut model, &text_so_far, 30, name);
        text_so_far.extend(response);
        let question = [&text_so_far[..], &text(6, 40)].concat();
        turn(&mut model, &question, 30, name);
        let edited = [&text_so_far[..], &text(7, 40)].concat();
        let (_, cached) = turn(&mut model, &edited, 20, name);
        assert!(
            (text_so_far.len() - 1..=text_so_far.len()).contains(&cached),
            "{name}: {cached}"
        );
    }
}

#[test]
fn the_response_after_any_rewind_equals_a_fresh_one() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let (_folder, mut model) = model(name, 50);
        let mut prompt = text(8, 40);
        for number in 0..9_u32 {
            let case = format!("{name}, turn {number}");
            let (response, _) = turn(&mut model, &prompt, 25, &case);
            prompt.extend(response);
            // Some turns continue the text, others rewind it.
            let length = match number % 3 {
                0 => prompt.len(),
                1 => prompt.len() - text(number, 1)[0] as usize % 60,
                _ => prompt.len() / (2 + number as usize % 3),
            };
            prompt.truncate(length.min(300));
            prompt.extend(text(100 + number, 25 + number as usize));
        }
    }
}

#[test]
fn restored_state_includes_the_last_checkpoint() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let (folder, mut original) = model(name, 64);
        let prompt = text(9, 100);
        let (response, _) = turn(&mut original, &prompt, 40, name);
        let copy = SavedCopy::of(&mut original, 0).expect("saved");
        let n_tokens = copy.tokens.len();
        assert!(n_tokens >= 139, "{name}: {n_tokens}");
        drop(original);
        for (next, expected) in [
            ([&prompt[..], &response, &text(10, 20)].concat(), n_tokens),
            (
                [&prompt[..], &text(11, 20)].concat(),
                prompt.len() - OPENING,
            ),
        ] {
            let limits = Limits::default();
            let mut model = load(&MlxEngine::new(), folder.path(), &limits).expect("it loads");
            assert_eq!(copy.restore(&mut model), Ok(n_tokens), "{name}");
            let (_, cached) = turn(&mut model, &next, 20, name);
            assert_eq!(cached, expected, "{name}");
        }
    }
}

#[test]
fn the_memory_of_a_state_does_not_grow_with_the_tokens() {
    let _mlx = lock_mlx();
    // Two layers have attention, with two key-value heads of 16 numbers; two have a state.
    let (_folder, mut model) = model("qwen3-5-bf16-authors", 64);
    let row = 2 * 2 * 2 * 16 * 4;
    let memory = 4 * 16 * 12 * 4;
    let conv = 3 * (2 * 2 * 16 + 4 * 12) * 4;
    let state = 2 * (memory + conv);
    for n_tokens in [60, 400] {
        model.trim(transom_engine::Trim::Everything);
        turn(&mut model, &text(12, n_tokens), 8, "memory");
        let held = model.memory().kv_cache_bytes;
        let rows = (n_tokens as u64 + 8).next_multiple_of(256) * row;
        // The current state and two checkpoints.
        assert!(
            (rows + state..=rows + 3 * state).contains(&held),
            "{n_tokens} tokens hold {held} bytes: {rows} of keys, {state} a state"
        );
    }
}
