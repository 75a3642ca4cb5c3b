//! Several conversations in memory, for every kind of cache: each response equals that of a single
//! pass over the whole text, and only new tokens are processed.

#[path = "fixtures/support.rs"]
mod support;
#[path = "fixtures/turns.rs"]
mod turns;

use support::{load, lock_mlx};
use tempfile::TempDir;
use transom_engine::test_support::SavedCopy;
use transom_engine::{Limits, LoadedModel, SavableCache, Trim};
use transom_engine_mlx::{MlxEngine, MlxModel};
use turns::{TOLERANCE, continue_in_order, model_within, say_within, text, turn};

/// Models without windows and states.
const DENSE: [&str; 2] = ["qwen3-q4-g64", "llama-bf16-llama3"];

/// Models with windows of which the texts of these tests fill no buffer, and with layers that use
/// the keys of others.
const WINDOWS: [&str; 4] = [
    "mistral-window",
    "gemma3-bf16",
    "gemma4-bf16-tables",
    "gpt-oss-mxfp4",
];

/// Models with recurrent states.
const STATES: [&str; 2] = ["qwen3-5-bf16-authors", "qwen3-next-q4-g64"];

fn limits() -> Limits {
    Limits {
        prefill_chunk: 64,
        parked_bytes: 64 << 20,
        ..Limits::default()
    }
}

fn model(name: &str) -> (TempDir, MlxModel) {
    model_within(name, &limits())
}

/// Adds a turn of `n_new` tokens to `conversation`, and checks its response. Returns the number of
/// tokens that were processed.
fn say(model: &mut MlxModel, conversation: &mut Vec<u32>, new: &[u32], case: &str) -> usize {
    say_within(TOLERANCE, model, conversation, new, case)
}

#[test]
fn conversations_continue_in_any_order() {
    let _mlx = lock_mlx();
    for name in DENSE.into_iter().chain(WINDOWS).chain(STATES) {
        let (_folder, mut model) = model(name);
        let order = [0, 1, 2, 0, 2, 1, 1, 0];
        continue_in_order(TOLERANCE, &mut model, &order, 90, name);
    }
}

#[test]
fn a_new_conversation_starts_from_the_shared_prefix_and_leaves_the_other_one() {
    let _mlx = lock_mlx();
    let cases = [(&DENSE[..], 80), (&WINDOWS[..], 80), (&STATES[..], 0)];
    for (names, n_cached) in cases {
        for name in names {
            let (_folder, mut model) = model(name);
            let shared = text(1, 80);
            let mut first = shared.clone();
            say(&mut model, &mut first, &text(2, 60), name);
            let mut second = shared.clone();
            let n_processed = say(&mut model, &mut second, &text(3, 50), name);
            // A state continues only from a checkpoint, and there is none at the end of the prefix.
            assert_eq!(n_processed, 130 - n_cached, "{name}");
            let n_processed = say(&mut model, &mut first, &text(4, 15), name);
            assert!(n_processed <= 16, "{name}: {n_processed}");
            let n_processed = say(&mut model, &mut second, &text(5, 15), name);
            assert!(n_processed <= 16, "{name}: {n_processed}");
        }
    }
}

#[test]
fn a_conversation_that_is_larger_than_the_limit_is_rewound_to_the_shared_prefix() {
    let _mlx = lock_mlx();
    for name in DENSE.into_iter().chain(WINDOWS) {
        let limits = Limits {
            parked_bytes: 1,
            ..Limits::default()
        };
        let (_folder, mut model) = model_within(name, &limits);
        let shared = text(1, 80);
        let first = [&shared[..], &text(2, 60)].concat();
        turn(&mut model, &first, 12, name);
        let second = [&shared[..], &text(3, 50)].concat();
        let (_, cached) = turn(&mut model, &second, 12, name);
        assert_eq!(cached, shared.len(), "{name}");
        assert_eq!(model.memory().parked_bytes, 0, "{name}");
    }
}

#[test]
fn another_response_to_a_message_parks_the_first_one() {
    let _mlx = lock_mlx();
    for name in DENSE.into_iter().chain(WINDOWS).chain(STATES) {
        let (_folder, mut model) = model(name);
        let prompt = text(1, 100);
        turn(&mut model, &prompt, 60, name);
        let one = model.memory().kv_cache_bytes;
        assert_eq!(model.memory().parked_bytes, 0, "{name}");
        let (_, cached) = turn(&mut model, &prompt, 60, name);
        assert!((92..=99).contains(&cached), "{name}: {cached}");
        assert_eq!(model.memory().parked_bytes, one, "{name}");
        model.trim(Trim::KeepConversation);
        assert_eq!(model.memory().parked_bytes, 0, "{name}");
        assert!(model.memory().kv_cache_bytes <= one, "{name}");
        // The copy has a checkpoint of its own.
        let (_, cached) = turn(&mut model, &prompt, 60, name);
        assert!((92..=99).contains(&cached), "{name}: {cached}");
    }
}

#[test]
fn every_conversation_can_be_saved() {
    let _mlx = lock_mlx();
    for name in [DENSE[0], WINDOWS[0], STATES[0]] {
        let (folder, mut original) = model(name);
        let [mut first, mut second] = [Vec::new(), Vec::new()];
        say(&mut original, &mut first, &text(1, 90), name);
        say(&mut original, &mut second, &text(2, 70), name);
        say(&mut original, &mut first, &text(3, 15), name);
        assert_eq!(original.conversations().len(), 2, "{name}");
        let parked = SavedCopy::of(&mut original, 1).expect("saved");
        let copy = SavedCopy::of(&mut original, 0).expect("saved");
        let n_tokens = copy.tokens.len();
        assert!(
            (first.len() - 1..=first.len()).contains(&n_tokens),
            "{name}"
        );
        let restored = load(&MlxEngine::new(), folder.path(), &limits());
        let mut restored = restored.expect("it loads again");
        parked.restore(&mut restored).expect("restored");
        assert_eq!(copy.restore(&mut restored), Ok(n_tokens), "{name}");
        let n_processed = say(&mut restored, &mut first, &text(4, 15), name);
        assert!(n_processed <= 16, "{name}: {n_processed}");
        let n_processed = say(&mut restored, &mut second, &text(5, 15), name);
        assert!(n_processed <= 16, "{name}: {n_processed}");
    }
}
