//! The starter model with its draft model: responses are the same as without.

#[path = "fixtures/support.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use support::{assemble, load, lock_mlx};
use tempfile::TempDir;
use transom_engine::test_support::Recorder;
use transom_engine::{
    ChatPrompt, Engine, GenerationParams, JobControl, Limits, LoadedModel, Message, ModelSource,
    Prompt, Role, SamplingParams, Trim,
};
use transom_engine_mlx::{MlxEngine, MlxModel};

fn starter() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/starter")
}

/// Returns a folder with the starter's draft model and the tokenizer that both share.
fn draft() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/starter-draft");
    for (from, name) in [
        (&source, "config.json"),
        (&source, "model.safetensors"),
        (&starter(), "tokenizer.json"),
        (&starter(), "tokenizer_config.json"),
        (&starter(), "special_tokens_map.json"),
        (&starter(), "generation_config.json"),
    ] {
        fs::copy(from.join(name), folder.path().join(name)).expect("the file exists");
    }
    folder
}

fn limits(draft: Option<&Path>) -> Limits {
    Limits {
        draft: draft.map(|path| ModelSource { path: path.into() }),
        ..Limits::default()
    }
}

fn load_starter(draft: Option<&Path>) -> MlxModel {
    let model = load(&MlxEngine::new(), &starter(), &limits(draft));
    model.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the tokens of the greedy answer to a question.
fn answer(model: &mut MlxModel, question: &str) -> Vec<u32> {
    let chat = ChatPrompt {
        messages: vec![Message::new(Role::User, question)],
        ..ChatPrompt::default()
    };
    let prompt = model.prepare(&Prompt::Chat(chat)).expect("the prompt fits");
    let params = GenerationParams {
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        max_tokens: Some(60),
        ..GenerationParams::default()
    };
    let mut recorder = Recorder::default();
    let ended = model.generate(&prompt, &params, &JobControl::new(), &mut recorder);
    ended.expect("the response succeeds");
    recorder.tokens
}

#[test]
fn a_draft_model_changes_no_response() {
    let _mlx = lock_mlx();
    let draft = draft();
    let mut alone = load_starter(None);
    assert_eq!(alone.info().draft, None);
    let questions = ["What is the capital of France?", "Hello!"];
    let expected = questions.map(|question| answer(&mut alone, question));
    drop(alone);
    let mut model = load_starter(Some(draft.path()));
    assert!(model.info().draft.is_some());
    for (question, expected) in questions.iter().zip(&expected) {
        // The second response continues the caches of the first, the third reads all of it again.
        for _ in 0..2 {
            assert_eq!(answer(&mut model, question), *expected);
        }
        model.trim(Trim::Everything);
        assert_eq!(model.memory().kv_cache_bytes, 0);
        assert_eq!(answer(&mut model, question), *expected);
    }
}

#[test]
fn the_memory_need_is_the_sum_of_both() {
    let _mlx = lock_mlx();
    mlx_rs::Device::set_default(&mlx_rs::Device::cpu());
    let draft = draft();
    let engine = MlxEngine::new();
    let need = |path: &Path, draft: Option<&Path>| {
        let source = ModelSource { path: path.into() };
        let need = engine.memory_need(&source, &limits(draft));
        need.expect("both can be read").total_bytes()
    };
    let alone = need(&starter(), None);
    let both = need(&starter(), Some(draft.path()));
    assert_eq!(both, alone + need(draft.path(), None));
}

#[test]
fn a_draft_model_that_cannot_draft_is_left_out() {
    let _mlx = lock_mlx();
    let other = assemble("qwen3-bf16");
    for unusable in [
        other.path(),
        Path::new("/missing"),
        &starter().join("README.md"),
    ] {
        assert_eq!(load_starter(Some(unusable)).info().draft, None);
    }
}
