//! Models whose layers carry a state, over several turns: what they answer is what they would answer
//! had they read it all at once, whatever was said, taken back or kept before; and what can be taken
//! up again is not read again.

#[path = "fixtures/support.rs"]
mod support;
#[path = "fixtures/turns.rs"]
mod turns;

use support::{load, lock_mlx};
use transom_engine::{Limits, LoadedModel};
use transom_engine_mlx::MlxEngine;
use turns::{model, text, turn};

const MODELS: [&str; 3] = [
    "qwen3-5-bf16-authors",
    "qwen3-next-q4-g64",
    "qwen3-5-q5-g32",
];

/// Tokens before a prompt's end at which its question is taken to end.
const OPENING: usize = 8;

#[test]
fn the_next_turn_prefills_only_new_tokens() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let (_folder, mut model) = model(name, 64);
        let mut said = text(1, 70);
        for number in 0..4 {
            let case = format!("{name}, turn {number}");
            let (answer, cached) = turn(&mut model, &said, 30, &case);
            let before = if number == 0 { 0 } else { said.len() - 15 };
            // The last token of an answer may not have been read.
            assert!(
                (before.saturating_sub(1)..=before).contains(&cached),
                "{case}: {cached}"
            );
            said.extend(answer);
            said.extend(text(10 + number, 15));
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
        // The template repeats the question, but not its last tokens, nor what was thought.
        let next = [&prompt[..prompt.len() - 5], &text(4, 60)].concat();
        let (_, cached) = turn(&mut model, &next, 20, name);
        assert_eq!(cached, prompt.len() - OPENING, "{name}");
    }
}

#[test]
fn an_edited_message_reuses_the_tokens_before_it() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let (_folder, mut model) = model(name, 64);
        let mut said = text(5, 50);
        let (answer, _) = turn(&mut model, &said, 30, name);
        said.extend(answer);
        let question = [&said[..], &text(6, 40)].concat();
        turn(&mut model, &question, 30, name);
        let edited = [&said[..], &text(7, 40)].concat();
        let (_, cached) = turn(&mut model, &edited, 20, name);
        assert!(
            (said.len() - 1..=said.len()).contains(&cached),
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
            let (answer, _) = turn(&mut model, &prompt, 25, &case);
            prompt.extend(answer);
            // Some turns go on, others leave the text anywhere before.
            let kept = match number % 3 {
                0 => prompt.len(),
                1 => prompt.len() - text(number, 1)[0] as usize % 60,
                _ => prompt.len() / (2 + number as usize % 3),
            };
            prompt.truncate(kept.min(300));
            prompt.extend(text(100 + number, 25 + number as usize));
        }
    }
}

#[test]
fn restored_state_includes_the_last_checkpoint() {
    let _mlx = lock_mlx();
    for name in MODELS {
        let (folder, mut unbroken) = model(name, 64);
        let path = folder.path().join("conversation");
        let prompt = text(9, 100);
        let (answer, _) = turn(&mut unbroken, &prompt, 40, name);
        let n_tokens = unbroken.save_state(&path).expect("saved");
        assert!(n_tokens >= 139, "{name}: {n_tokens}");
        drop(unbroken);
        for (next, expected) in [
            ([&prompt[..], &answer, &text(10, 20)].concat(), n_tokens),
            (
                [&prompt[..], &text(11, 20)].concat(),
                prompt.len() - OPENING,
            ),
        ] {
            let limits = Limits::default();
            let mut model = load(&MlxEngine::new(), folder.path(), &limits).expect("it loads");
            assert_eq!(model.restore_state(&path), Ok(n_tokens), "{name}");
            let (_, cached) = turn(&mut model, &next, 20, name);
            assert_eq!(cached, expected, "{name}");
        }
    }
}

#[test]
fn the_memory_of_a_state_does_not_grow_with_the_tokens() {
    let _mlx = lock_mlx();
    // Two layers attend, with two key-value heads of 16 numbers; two carry a state.
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
        // The state in use, and one of each of two places to come back to.
        assert!(
            (rows + state..=rows + 3 * state).contains(&held),
            "{n_tokens} tokens hold {held} bytes: {rows} of keys, {state} a state"
        );
    }
}
