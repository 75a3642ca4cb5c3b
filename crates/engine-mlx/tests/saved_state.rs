//! Saved and restored sessions: a restored session equals the saved one bit for bit, and data of
//! another model or of another form is refused.

#[path = "fixtures/support.rs"]
mod support;

use std::cell::RefCell;
use std::fs;
use std::ops::Range;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::{assemble, fixtures, load, lock_mlx};
use tempfile::TempDir;
use transom_engine::test_support::{Recorder, SavedCopy};
use transom_engine::{
    ChatPrompt, EngineError, GenerationParams, JobControl, Limits, LoadedModel, Message, Prompt,
    SamplingParams, SavableCache, Section, Stats, Trim,
};
use transom_engine_mlx::{MlxEngine, MlxModel};

/// Generates greedy tokens after `prompt`, and their text.
fn greedy(model: &mut MlxModel, prompt: &Prompt, n_tokens: usize) -> (Vec<u32>, Stats, String) {
    let params = GenerationParams {
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        max_tokens: Some(n_tokens),
        // Wider steps round differently.
        speculate: false,
        ..GenerationParams::default()
    };
    let prompt = model.prepare(prompt).expect("the prompt fits");
    let mut recorder = Recorder::default();
    let result = model.generate(&prompt, &params, &JobControl::new(), &mut recorder);
    let (_, stats) = result.expect("the response succeeds");
    let text = [Section::Reasoning, Section::Answer].map(|section| recorder.text(section));
    (recorder.tokens, stats, text.concat())
}

/// Returns twenty tokens from `first` on, which every model of the fixtures has.
fn tokens(first: u32) -> Prompt {
    Prompt::Tokens((first..first + 20).collect())
}

fn as_prompt(tokens: &[u32]) -> Prompt {
    Prompt::Tokens(tokens.to_vec())
}

fn small() -> Limits {
    Limits {
        context_length: 100,
        ..Limits::default()
    }
}

/// Loads a model of the fixtures and generates a response of eight tokens to a prompt of twenty.
fn with_response(name: &str) -> (TempDir, MlxModel) {
    let folder = assemble(name);
    let mut model = load(&MlxEngine::new(), folder.path(), &small()).expect("it loads");
    greedy(&mut model, &tokens(10), 8);
    (folder, model)
}

/// Copies the session of [`with_response`].
fn with_copy(name: &str) -> (TempDir, MlxModel, SavedCopy) {
    let (folder, mut model) = with_response(name);
    let copy = SavedCopy::of(&mut model, 0).expect("saved");
    assert!(copy.tokens.len() >= 27, "{} tokens", copy.tokens.len());
    (folder, model, copy)
}

/// Returns the reason for which restoring fails.
#[track_caller]
fn restore_error(model: &mut MlxModel, copy: &SavedCopy) -> String {
    match copy.restore(model) {
        Err(EngineError::Backend { message, .. }) => message,
        other => panic!("{other:?}"),
    }
}

/// A session that continues and one that was saved and restored generate the same tokens.
#[test]
fn every_model_continues_restored_state_with_the_same_tokens() {
    let _mlx = lock_mlx();
    for entry in fs::read_dir(fixtures().join("models")).expect("the models exist") {
        let name = entry.expect("the models can be listed").file_name();
        let name = name.to_str().expect("names are ASCII");
        for dense_limit_bytes in [0, u64::MAX] {
            let engine = MlxEngine::new().with_dense_limit_bytes(dense_limit_bytes);
            let folder = assemble(name);
            let mut original = load(&engine, folder.path(), &small()).expect("it loads");
            let (response, ..) = greedy(&mut original, &tokens(10), 8);
            let next: Vec<u32> = (10..30).chain(response).chain(40..50).collect();

            let copy = SavedCopy::of(&mut original, 0).expect("saved");
            let n_tokens = copy.tokens.len();
            let (expected, expected_stats, _) = greedy(&mut original, &as_prompt(&next), 12);
            drop(original);
            let mut model = load(&engine, folder.path(), &small()).expect("it loads");
            assert_eq!(model.memory().kv_cache_bytes, 0);
            assert_eq!(copy.restore(&mut model), Ok(n_tokens), "{name}");
            assert!(model.memory().kv_cache_bytes > 0);
            let (found, stats, _) = greedy(&mut model, &as_prompt(&next), 12);
            assert_eq!(found, expected, "{name}");
            assert_eq!(stats.cached_tokens, expected_stats.cached_tokens, "{name}");
            assert_eq!(stats.cached_tokens, n_tokens, "{name}");
        }
    }
}

/// The starter model with its chat template, and a conversation that grows the buffers.
#[test]
fn the_starter_model_continues_a_restored_conversation() {
    let _mlx = lock_mlx();
    let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter");
    let engine = MlxEngine::new();
    let mut original = load(&engine, &starter, &Limits::default()).expect("it loads");
    let question = format!("{} What is light?", "Tell me of the sun. ".repeat(60));
    let mut chat = ChatPrompt {
        messages: vec![Message::new(transom_engine::Role::User, question)],
        ..ChatPrompt::default()
    };
    let (_, _, text) = greedy(&mut original, &Prompt::Chat(chat.clone()), 24);
    chat.messages
        .push(Message::new(transom_engine::Role::Assistant, text));
    chat.messages
        .push(Message::new(transom_engine::Role::User, "And why?"));
    let second = Prompt::Chat(chat);

    let copy = SavedCopy::of(&mut original, 0).expect("saved");
    let n_tokens = copy.tokens.len();
    assert!(n_tokens > 256, "{n_tokens} tokens were saved");
    let (expected, expected_stats, _) = greedy(&mut original, &second, 24);
    drop(original);
    let mut model = load(&engine, &starter, &Limits::default()).expect("it loads");
    assert_eq!(copy.restore(&mut model), Ok(n_tokens));
    let (found, stats, _) = greedy(&mut model, &second, 24);
    assert_eq!(found, expected);
    assert_eq!(stats.cached_tokens, expected_stats.cached_tokens);
    assert!(stats.cached_tokens > 256, "{stats:?}");
}

#[test]
fn a_trimmed_session_is_not_saved() {
    let _mlx = lock_mlx();
    let (_folder, mut model) = with_response("qwen3-q4-g64");
    model.trim(Trim::KeepConversation);
    assert_eq!(model.conversations().len(), 1);
    model.trim(Trim::Everything);
    assert_eq!(model.conversations(), []);
}

/// Blocks that were saved at different times, one token after another, restore the same session.
#[test]
fn blocks_of_any_length_restore_the_same_session() {
    let _mlx = lock_mlx();
    let (folder, mut model, copy) = with_copy("qwen3-q4-g64");
    let n_tokens = copy.tokens.len();
    let block = |range: Range<usize>| (range.clone(), model.save_block(0, range).expect("saved"));
    let blocks = [0..1, 1..2, 2..20, 20..n_tokens].map(block).to_vec();
    let in_parts = SavedCopy { blocks, ..copy };
    let next: Vec<u32> = in_parts.tokens.iter().copied().chain(40..50).collect();
    let (expected, ..) = greedy(&mut model, &as_prompt(&next), 12);
    let mut model = load(&MlxEngine::new(), folder.path(), &small()).expect("it loads");
    assert_eq!(in_parts.restore(&mut model), Ok(n_tokens));
    let (found, stats, _) = greedy(&mut model, &as_prompt(&next), 12);
    assert_eq!((found, stats.cached_tokens), (expected, n_tokens));
}

#[test]
fn state_of_another_model_is_refused() {
    let _mlx = lock_mlx();
    let (_folder, _, copy) = with_copy("llama-f16-linear");
    let (_other_folder, mut other) = with_response("qwen3-q4-g64");
    let reason = restore_error(&mut other, &copy);
    assert_eq!(reason, "it was saved by another model");
}

/// Whatever is wrong with the data, the model can be used.
#[test]
fn data_with_another_form_is_refused() {
    let _mlx = lock_mlx();
    for name in ["qwen3-q4-g64", "gpt-oss-mxfp4"] {
        let (_folder, mut model, copy) = with_copy(name);
        let heads = [0, 7, 8, 9, copy.head.len() - 1].map(|n| copy.head[..n].to_vec());
        let longer = [&copy.head[..], b"x"].concat();
        for head in heads.into_iter().chain([longer]) {
            restore_error(
                &mut model,
                &SavedCopy {
                    head,
                    ..copy.clone()
                },
            );
        }
        for length in [u64::MAX, u64::MAX - 8, 1 << 40, copy.head.len() as u64] {
            let head = [&length.to_le_bytes()[..], &copy.head[8..]].concat();
            restore_error(
                &mut model,
                &SavedCopy {
                    head,
                    ..copy.clone()
                },
            );
        }
        let mut short = copy.clone();
        short.blocks[0].1.pop();
        restore_error(&mut model, &short);
        let mut gap = copy.clone();
        gap.blocks[0].0.start = 1;
        restore_error(&mut model, &gap);
        let blocks = Vec::new();
        restore_error(
            &mut model,
            &SavedCopy {
                blocks,
                ..copy.clone()
            },
        );
        let mut fewer = copy.clone();
        fewer.tokens.pop();
        restore_error(&mut model, &fewer);
        let n_tokens = copy.tokens.len();
        assert_eq!(copy.restore(&mut model), Ok(n_tokens), "{name}");
        greedy(&mut model, &tokens(10), 8);
    }
}

/// Restoring a damaged header fails or gives the same session.
#[test]
fn a_damaged_header_is_refused_or_means_the_same() {
    let _mlx = lock_mlx();
    let (_folder, mut model, copy) = with_copy("qwen3-q4-g64");
    let length = copy.head[..8].try_into().expect("8 bytes");
    let header_bytes = u64::from_le_bytes(length) as usize;
    let cell = RefCell::new(&mut model);
    TestRunner::new(Config::with_cases(100))
        .run(&(0..8 + header_bytes, any::<u8>()), |(offset, byte)| {
            let mut damaged = copy.clone();
            damaged.head[offset] = byte;
            match damaged.restore(&mut **cell.borrow_mut()) {
                Ok(n) => prop_assert_eq!(n, copy.tokens.len()),
                Err(EngineError::Backend { .. }) => {}
                Err(other) => prop_assert!(false, "{other:?}"),
            }
            Ok(())
        })
        .expect("every header is refused or valid");
}
