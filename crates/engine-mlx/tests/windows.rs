//! Models with sliding windows, over conversations much longer than the windows: the response
//! equals that of a single pass over the whole text, whatever was generated, rewound or saved
//! before.

#[path = "fixtures/support.rs"]
mod support;
#[path = "fixtures/turns.rs"]
mod turns;

use support::{assemble, load, lock_mlx};
use transom_catalog::fit::mlx::ALLOCATOR_CACHE_BYTES;
use transom_engine::test_support::SavedCopy;
use transom_engine::{Engine, Limits, LoadedModel, ModelSource};
use transom_engine_mlx::{MlxEngine, MlxModel};
use turns::{check_reading_ahead, check_response, greedy, model, text, turn};

/// Models of the fixtures and their windows.
const MODELS: [(&str, usize); 6] = [
    ("mistral-window", 16),
    ("mistral-window-q4-g64", 7),
    ("gemma3-bf16", 12),
    ("gemma3-f32-nested", 12),
    ("gemma4-bf16-tables", 9),
    ("gpt-oss-mxfp4", 10),
];

#[test]
fn the_context_length_does_not_depend_on_the_window() {
    let _mlx = lock_mlx();
    for (name, window) in MODELS {
        let (_folder, model) = model(name, 512);
        assert!(model.info().context_length > 20 * window, "{name}");
    }
}

#[test]
fn a_response_longer_than_the_buffer_equals_one_pass() {
    let _mlx = lock_mlx();
    for (name, _) in MODELS {
        let (_folder, mut model) = model(name, 512);
        let prompt = text(1, 30);
        // A buffer has at most 271 tokens more than its window.
        let (response, _) = greedy(&mut model, &prompt, 330);
        check_response(&model, &prompt, &response, name);
    }
}

#[test]
fn the_response_does_not_depend_on_the_prefill_chunk() {
    let _mlx = lock_mlx();
    for (name, window) in MODELS {
        for chunk in [window - 1, window, 100, 512] {
            let (_folder, mut model) = model(name, chunk);
            let prompt = text(2, 400);
            let (response, _) = greedy(&mut model, &prompt, 12);
            check_response(
                &model,
                &prompt,
                &response,
                &format!("{name}, chunks of {chunk}"),
            );
        }
    }
}

#[test]
fn memory_is_bounded_by_the_window() {
    let _mlx = lock_mlx();
    // Two layers with a window of 16 and two heads of 16 f32 numbers.
    let (_folder, mut model) = model("mistral-window", 64);
    let bytes_of_token = 2 * 2 * 2 * 16 * 4;
    let buffer = bytes_of_token * (16 + 271);
    let mut text_so_far = text(3, 60);
    for number in 0..8 {
        let (response, _) = greedy(&mut model, &text_so_far, 40);
        let held = model.memory().kv_cache_bytes;
        // The buffer in use and two checkpoints.
        assert!(held <= 3 * buffer, "turn {number}: {held} bytes are held");
        text_so_far.extend(response);
        text_so_far.extend(text(number, 10));
    }
    assert!(text_so_far.len() > 400);
}

#[test]
fn another_response_prefills_only_one_token() {
    let _mlx = lock_mlx();
    for (name, _) in MODELS {
        let (_folder, mut model) = model(name, 64);
        let prompt = text(4, 120);
        turn(&mut model, &prompt, 300, name);
        let (_, cached) = turn(&mut model, &prompt, 40, name);
        assert_eq!(cached, prompt.len() - 1, "{name}");
    }
}

#[test]
fn the_next_turn_without_the_reasoning_prefills_only_new_tokens() {
    let _mlx = lock_mlx();
    for (name, _) in MODELS {
        let (_folder, mut model) = model(name, 64);
        let prompt = text(5, 90);
        turn(&mut model, &prompt, 290, name);
        // The template repeats the prompt without its last tokens and without the reasoning.
        let next = [&prompt[..prompt.len() - 5], &text(6, 60)].concat();
        let (_, cached) = turn(&mut model, &next, 20, name);
        assert_eq!(cached, prompt.len() - 5, "{name}");
    }
}

#[test]
fn after_reading_ahead_only_the_new_message_is_read() {
    let _mlx = lock_mlx();
    for (name, _) in MODELS {
        check_reading_ahead(name, 290, 1);
    }
}

#[test]
fn an_edited_message_reuses_the_tokens_before_it() {
    let _mlx = lock_mlx();
    for (name, _) in MODELS {
        let (_folder, mut model) = model(name, 64);
        let mut text_so_far = text(7, 50);
        let (response, _) = turn(&mut model, &text_so_far, 30, name);
        text_so_far.extend(response);
        let first_turn = text_so_far.len();
        let question = [&text_so_far[..], &text(8, 40)].concat();
        turn(&mut model, &question, 280, name);
        // Another response to the same message adds no checkpoint.
        turn(&mut model, &question, 280, name);
        let edited = [&text_so_far[..], &text(9, 40)].concat();
        let (_, cached) = turn(&mut model, &edited, 20, name);
        // The last token of a response may not have been processed.
        assert!(
            (first_turn - 1..=first_turn).contains(&cached),
            "{name}: {cached}"
        );
    }
}

#[test]
fn the_response_after_any_rewind_equals_a_fresh_one() {
    let _mlx = lock_mlx();
    for (name, _) in MODELS {
        let (_folder, mut model) = model(name, 50);
        let mut prompt = text(10, 40);
        for number in 0..7_u32 {
            let case = format!("{name}, turn {number}");
            let (response, _) = turn(&mut model, &prompt, 40, &case);
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
    for (name, _) in MODELS {
        let (folder, mut original) = model(name, 64);
        let prompt = text(11, 100);
        let (response, _) = turn(&mut original, &prompt, 300, name);
        let copy = SavedCopy::of(&mut original, 0).expect("saved");
        let n_tokens = copy.tokens.len();
        assert!(n_tokens >= 399, "{name}: {n_tokens}");
        drop(original);
        let engine = MlxEngine::new();
        for (next, expected) in [
            ([&prompt[..], &response, &text(12, 20)].concat(), n_tokens),
            ([&prompt[..], &text(13, 20)].concat(), prompt.len()),
        ] {
            let limits = Limits::default();
            let mut model = load(&engine, folder.path(), &limits).expect("it loads");
            assert_eq!(copy.restore(&mut model), Ok(n_tokens), "{name}");
            let (_, cached) = turn(&mut model, &next, 20, name);
            assert_eq!(cached, expected, "{name}");
        }
        // The copy contains the tokens and the windows, not the keys of all tokens.
        let blocks = copy.blocks.iter().map(|(_, block)| block.len());
        let bytes = (copy.head.len() + blocks.sum::<usize>()) as u64;
        assert!(
            name != "mistral-window" || bytes < 24_000,
            "{name}: {bytes}"
        );
    }
}

#[test]
fn the_memory_need_covers_a_full_context() {
    let _mlx = lock_mlx();
    for (name, _) in MODELS.into_iter().chain([("gemma4-f32-unified", 9)]) {
        let folder = assemble(name);
        let engine = MlxEngine::new();
        let limits = Limits {
            context_length: 400,
            prefill_chunk: 64,
            ..Limits::default()
        };
        let source = ModelSource {
            path: folder.path().to_owned(),
        };
        let need = engine.memory_need(&source, &limits).expect("it is valid");
        let mut model = load(&engine, folder.path(), &limits).expect("it loads");
        let held = |model: &MlxModel| model.memory().kv_cache_bytes;
        greedy(&mut model, &text(14, 390), 9);
        let full = held(&model);
        assert!(full <= need.kv_cache_bytes, "{name}: {full}, {need:?}");
        assert!(full >= need.kv_cache_bytes / 2, "{name}: {full}, {need:?}");
        // Prompts that differ from the middle on, so that there are checkpoints.
        greedy(&mut model, &text(14, 30), 300);
        greedy(&mut model, &text(14, 60), 330);
        let checkpoint_bytes = need.cache_bytes - ALLOCATOR_CACHE_BYTES;
        let most = need.kv_cache_bytes + checkpoint_bytes;
        assert!(held(&model) <= most, "{name}: {need:?}");
    }
}
