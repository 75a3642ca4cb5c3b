//! The vectors of an embedding model equal those of mlx-lm's hidden states.
//!
//! `fixtures/make_embeddings.py` computes the expected vectors.

#[path = "fixtures/support.rs"]
mod support;

use std::fs;

use serde::Deserialize;
use support::{assemble, fixtures, load, lock_mlx};
use tempfile::TempDir;
use transom_engine::{
    EmbedInput, Embedding, EngineError, FinishReason, JobControl, Limits, LoadedModel, Prompt,
};
use transom_engine_mlx::{MlxEngine, MlxModel};

/// Lowest cosine similarity with the expected vector.
const MIN_COSINE: f64 = 0.999;

#[derive(Debug, Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

/// An input with its vectors; `make_embeddings.py` describes them.
#[derive(Debug, Deserialize)]
struct Case {
    ids: Vec<u32>,
    text: Option<String>,
    last: Vec<f32>,
    mean: Vec<f32>,
}

fn golden() -> Golden {
    let text = fs::read_to_string(fixtures().join("embeddings.json")).expect("it is there");
    serde_json::from_str(&text).expect("it is a golden")
}

/// Returns a folder with a model and the files that make it an embedding model, which pools the last
/// token or as `pooling` says.
fn folder(modules: &str, pooling: Option<&str>) -> TempDir {
    let folder = assemble("qwen3-bf16");
    fs::write(folder.path().join("modules.json"), modules).expect("it can be written");
    if let Some(flag) = pooling {
        let pooling = folder.path().join("1_Pooling");
        fs::create_dir(&pooling).expect("a folder can be made");
        let config = format!(r#"{{"{flag}": true}}"#);
        fs::write(pooling.join("config.json"), config).expect("it can be written");
    }
    folder
}

fn model(pooling: Option<&str>, limits: &Limits) -> MlxModel {
    let folder = folder("[]", pooling);
    // The weights are copied or stay mapped, so the folder may go.
    load(&MlxEngine::new(), folder.path(), limits).expect("it loads")
}

fn embed(model: &mut MlxModel, inputs: &[EmbedInput]) -> Result<Vec<Embedding>, EngineError> {
    let mut results = Vec::new();
    let mut sink = |embedding| results.push(embedding);
    let (reason, _) = model.embed(inputs, &JobControl::new(), &mut sink)?;
    assert_eq!(reason, FinishReason::Stop);
    Ok(results)
}

/// Checks the vectors of all cases, as tokens and as texts.
fn check(model: &mut MlxModel, expected: impl Fn(&Case) -> &Vec<f32>, has_end: bool) {
    for case in &golden().cases {
        let text = case.text.clone().filter(|_| has_end).map(EmbedInput::Text);
        let inputs = [Some(EmbedInput::Tokens(case.ids.clone())), text];
        let inputs: Vec<EmbedInput> = inputs.into_iter().flatten().collect();
        for result in embed(model, &inputs).expect("it embeds") {
            assert_eq!(result.n_tokens, case.ids.len(), "{:?}", case.text);
            let expected = expected(case);
            assert_eq!(result.vector.len(), expected.len());
            let pairs = result.vector.iter().zip(expected);
            let cosine: f64 = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            assert!(cosine >= MIN_COSINE, "{} tokens: {cosine}", case.ids.len());
        }
    }
}

#[test]
fn vectors_are_those_of_the_last_token_however_it_is_read() {
    let _mlx = lock_mlx();
    for prefill_chunk in [2048, 16] {
        let limits = Limits {
            prefill_chunk,
            ..Limits::default()
        };
        let mut model = model(None, &limits);
        check(&mut model, |case| &case.last, true);
    }
}

/// A text does not end with another token if all tokens count.
#[test]
fn the_mean_of_all_tokens_is_pooled_if_the_files_say_so() {
    let _mlx = lock_mlx();
    let mut model = model(Some("pooling_mode_mean_tokens"), &Limits::default());
    check(&mut model, |case| &case.mean, false);
}

#[test]
fn an_embedding_model_does_not_chat_and_a_chat_model_does_not_embed() {
    let _mlx = lock_mlx();
    let model = model(None, &Limits::default());
    let refusal = model.prepare(&Prompt::Text("Hello".to_owned()));
    assert!(matches!(refusal, Err(EngineError::Unsupported { .. })));
    let chat = assemble("qwen3-bf16");
    let mut chat = load(&MlxEngine::new(), chat.path(), &Limits::default()).expect("it loads");
    let refusal = embed(&mut chat, &[EmbedInput::Text("Hello".to_owned())]);
    let message = refusal.expect_err("it generates text").to_string();
    assert!(message.contains("an embedding model"), "{message}");
}

#[test]
fn what_only_llama_cpp_can_pool_is_refused_at_the_load() {
    let _mlx = lock_mlx();
    let dense = r#"[{"type": "sentence_transformers.models.Dense"}]"#;
    let first = Some("pooling_mode_cls_token");
    for folder in [folder(dense, None), folder("[]", first)] {
        let refusal = load(&MlxEngine::new(), folder.path(), &Limits::default());
        match refusal.err() {
            Some(EngineError::Unsupported { reason, .. }) => {
                assert!(reason.contains("GGUF"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_text_that_is_too_long_is_refused_with_the_numbers() {
    let _mlx = lock_mlx();
    let mut model = model(None, &Limits::default());
    let inputs = [EmbedInput::Tokens(vec![5; 513])];
    let message = embed(&mut model, &inputs)
        .expect_err("it is too long")
        .to_string();
    assert!(message.contains("513 tokens long"), "{message}");
    assert!(message.contains("at most 512 tokens"), "{message}");
}
