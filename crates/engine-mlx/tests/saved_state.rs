//! Saved and restored sessions: a restored session equals the saved one bit for bit, and a file of
//! another model or a damaged file changes nothing.

#[path = "fixtures/support.rs"]
mod support;

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::{assemble, fixtures, load, lock_mlx};
use tempfile::TempDir;
use transom_engine::test_support::Recorder;
use transom_engine::{
    ChatPrompt, EngineError, GenerationParams, JobControl, Limits, LoadedModel, Message, Prompt,
    SamplingParams, Section, Stats, Trim,
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

/// Saves the session of [`with_response`] to a file.
fn with_saved_state(name: &str) -> (TempDir, MlxModel, PathBuf) {
    let (folder, model) = with_response(name);
    let path = folder.path().join("state");
    let n_tokens = model.save_state(&path).expect("saved");
    assert!(n_tokens >= 27, "{n_tokens} tokens were saved");
    (folder, model, path)
}

/// Returns the reason for which restoring fails.
#[track_caller]
fn restore_error(model: &mut MlxModel, path: &Path) -> String {
    match model.restore_state(path) {
        Err(EngineError::BadFile {
            path: named,
            reason,
        }) => {
            assert_eq!(named, path);
            reason
        }
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
            let path = folder.path().join("state");
            let mut original = load(&engine, folder.path(), &small()).expect("it loads");
            let (response, ..) = greedy(&mut original, &tokens(10), 8);
            let next: Vec<u32> = (10..30).chain(response).chain(40..50).collect();

            let n_tokens = original.save_state(&path).expect("saved");
            let (expected, expected_stats, _) = greedy(&mut original, &as_prompt(&next), 12);
            drop(original);
            let mut model = load(&engine, folder.path(), &small()).expect("it loads");
            assert_eq!(model.memory().kv_cache_bytes, 0);
            assert_eq!(model.restore_state(&path), Ok(n_tokens), "{name}");
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
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("state");
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

    let n_tokens = original.save_state(&path).expect("saved");
    assert!(n_tokens > 256, "{n_tokens} tokens were saved");
    let (expected, expected_stats, _) = greedy(&mut original, &second, 24);
    drop(original);
    let mut model = load(&engine, &starter, &Limits::default()).expect("it loads");
    assert_eq!(model.restore_state(&path), Ok(n_tokens));
    let (found, stats, _) = greedy(&mut model, &second, 24);
    assert_eq!(found, expected);
    assert_eq!(stats.cached_tokens, expected_stats.cached_tokens);
    assert!(stats.cached_tokens > 256, "{stats:?}");
}

#[test]
fn only_the_user_can_read_saved_state() {
    let _mlx = lock_mlx();
    let (_folder, _, path) = with_saved_state("qwen3-q4-g64");
    let mode = fs::metadata(&path)
        .expect("the file exists")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_trimmed_session_is_not_saved() {
    let _mlx = lock_mlx();
    let (folder, mut model) = with_response("qwen3-q4-g64");
    let path = folder.path().join("state");
    model.trim(Trim::KeepConversation);
    assert!(model.save_state(&path).expect("saved") > 0);
    fs::remove_file(&path).expect("the file exists");
    model.trim(Trim::Everything);
    assert_eq!(model.save_state(&path), Ok(0));
    assert!(!path.exists());
}

#[test]
fn saving_does_not_overwrite_a_file() {
    let _mlx = lock_mlx();
    let (_folder, model, path) = with_saved_state("qwen3-q4-g64");
    let before = fs::read(&path).expect("the file exists");
    assert!(matches!(
        model.save_state(&path),
        Err(EngineError::BadFile { .. })
    ));
    assert_eq!(fs::read(&path).expect("the file exists"), before);
}

#[test]
fn state_of_another_model_is_refused() {
    let _mlx = lock_mlx();
    let (_folder, _, path) = with_saved_state("llama-f16-linear");
    let (_other_folder, mut other) = with_response("qwen3-q4-g64");
    let reason = restore_error(&mut other, &path);
    assert_eq!(reason, "it was saved by another model");
}

#[test]
fn state_longer_than_the_context_is_refused() {
    let _mlx = lock_mlx();
    let (folder, _, path) = with_saved_state("qwen3-q4-g64");
    let limits = Limits {
        context_length: 20,
        ..Limits::default()
    };
    let mut short = load(&MlxEngine::new(), folder.path(), &limits).expect("it loads");
    let reason = restore_error(&mut short, &path);
    assert!(reason.contains("but the context holds 20"), "{reason}");
}

/// A refused file does not change the session.
#[test]
fn damaged_data_is_refused_and_the_session_stays() {
    let _mlx = lock_mlx();
    let (_folder, mut model, path) = with_saved_state("qwen3-q4-g64");
    let valid = fs::read(&path).expect("the file exists");
    let header_bytes = u64::from_le_bytes(valid[..8].try_into().expect("8 bytes")) as usize;
    let n_data = valid.len() - 8 - header_bytes;
    for n_bytes in [0, 7, 8, 9, 8 + header_bytes, valid.len() - 1] {
        fs::write(&path, &valid[..n_bytes]).expect("written");
        restore_error(&mut model, &path);
    }
    fs::write(&path, [&valid[..], b"x"].concat()).expect("written");
    restore_error(&mut model, &path);
    for length in [u64::MAX, u64::MAX - 8, 1 << 40, valid.len() as u64] {
        let damaged = [&length.to_le_bytes()[..], &valid[8..]].concat();
        fs::write(&path, damaged).expect("written");
        restore_error(&mut model, &path);
    }
    let cell = RefCell::new(&mut model);
    TestRunner::new(Config::with_cases(200))
        .run(&(0..n_data, 1..=u8::MAX), |(offset, change)| {
            let mut damaged = valid.clone();
            damaged[8 + header_bytes + offset] ^= change;
            fs::write(&path, damaged).expect("written");
            restore_error(&mut cell.borrow_mut(), &path);
            Ok(())
        })
        .expect("every change of the data is noticed");
    let (_, stats, _) = greedy(&mut model, &tokens(10), 8);
    assert_eq!(stats.cached_tokens, 19, "the session has not changed");
}

/// Restoring a damaged header fails or gives the same session.
#[test]
fn a_damaged_header_is_refused_or_means_the_same() {
    let _mlx = lock_mlx();
    let (_folder, mut model, path) = with_saved_state("qwen3-q4-g64");
    let valid = fs::read(&path).expect("the file exists");
    let n_tokens = model.restore_state(&path).expect("it is valid");
    let header_bytes = u64::from_le_bytes(valid[..8].try_into().expect("8 bytes")) as usize;
    let cell = RefCell::new(&mut model);
    TestRunner::new(Config::with_cases(300))
        .run(&(0..8 + header_bytes, any::<u8>()), |(offset, byte)| {
            let mut damaged = valid.clone();
            damaged[offset] = byte;
            fs::write(&path, damaged).expect("written");
            match cell.borrow_mut().restore_state(&path) {
                Ok(n) => prop_assert_eq!(n, n_tokens),
                Err(EngineError::BadFile { .. }) => {}
                Err(other) => prop_assert!(false, "{other:?}"),
            }
            Ok(())
        })
        .expect("every header is refused or valid");
}

/// The file has the right checksum and an unknown token.
#[test]
fn a_token_outside_the_vocabulary_is_refused() {
    let _mlx = lock_mlx();
    let (_folder, mut model, path) = with_saved_state("qwen3-q4-g64");
    let mut damaged = fs::read(&path).expect("the file exists");
    let header_bytes = u64::from_le_bytes(damaged[..8].try_into().expect("8 bytes")) as usize;
    let data = 8 + header_bytes;
    let vocab_size = model.info().vocab_size as u32;
    damaged[data..data + 4].copy_from_slice(&vocab_size.to_le_bytes());
    let end = damaged.len() - 4;
    let sum = crc32fast::hash(&damaged[data..end]);
    damaged[end..].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, damaged).expect("written");
    let reason = restore_error(&mut model, &path);
    assert!(reason.contains("is not in the vocabulary"), "{reason}");
}
