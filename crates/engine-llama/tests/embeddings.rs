//! The vectors equal those of transformers, for every kind of pooling and attention.
//!
//! `fixtures/make_embeddings.py` makes the models and the expected vectors.

#[path = "fixtures/support.rs"]
mod support;

use std::fs;

use serde::Deserialize;
use support::{Model, fixtures, load, model_path};
use transom_engine::{
    EmbedInput, Embedding, EngineError, FinishReason, JobControl, Limits, Prompt, Stats, Trim,
};
use transom_engine_llama::LlamaEngine;

/// Mean, first and last token; encoders with positions, with rotation and with windows; a decoder.
const MODELS: [&str; 5] = [
    "bert-mean",
    "xlm-roberta-cls",
    "nomic-bert-mean",
    "qwen3-last",
    "gemma-mean",
];

/// Lowest cosine similarity with the expected vector. Matrices are in f16, and attention rounds too.
const MIN_COSINE: f64 = 0.999;

#[derive(Debug, Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

/// An input with its vector; `make_embeddings.py` describes them.
#[derive(Debug, Deserialize)]
struct Case {
    ids: Vec<u32>,
    text: Option<String>,
    vector: Vec<f32>,
}

fn golden(name: &str) -> Golden {
    let path = fixtures().join("embeddings").join(format!("{name}.json"));
    let text = fs::read_to_string(&path).expect("the golden is there");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

fn embedder(name: &str, limits: &Limits) -> Model {
    let path = fixtures().join("embeddings").join(format!("{name}.gguf"));
    let engine = LlamaEngine::new().with_threads(1);
    load(&engine, &path, limits).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn embed(
    model: &mut Model,
    inputs: &[EmbedInput],
) -> Result<(Vec<Embedding>, FinishReason, Stats), EngineError> {
    let mut results = Vec::new();
    let mut sink = |embedding| results.push(embedding);
    let (reason, stats) = model.embed(inputs, &JobControl::new(), &mut sink)?;
    Ok((results, reason, stats))
}

fn cosine(one: &[f32], other: &[f32]) -> f64 {
    assert_eq!(one.len(), other.len());
    let pairs = one.iter().zip(other);
    pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// Checks the vectors of all inputs that `input` returns for the cases.
fn check(model: &mut Model, name: &str, input: impl Fn(&Case) -> Option<EmbedInput>) {
    let cases = golden(name).cases;
    let (expected, inputs): (Vec<_>, Vec<_>) = cases
        .iter()
        .filter_map(|case| Some((case, input(case)?)))
        .unzip();
    assert!(!inputs.is_empty());
    let (results, reason, stats) = embed(model, &inputs).expect("it embeds");
    assert_eq!(reason, FinishReason::Stop);
    assert_eq!(results.len(), expected.len());
    let n_tokens: usize = expected.iter().map(|case| case.ids.len()).sum();
    assert_eq!(stats.prompt_tokens, n_tokens, "{name}");
    for (result, case) in results.iter().zip(expected) {
        assert_eq!(result.n_tokens, case.ids.len(), "{name}: {:?}", case.text);
        let length = cosine(&result.vector, &result.vector);
        assert!((length - 1.0).abs() < 1e-5, "{name}: length² {length}");
        let cosine = cosine(&result.vector, &case.vector);
        let n = case.ids.len();
        assert!(cosine >= MIN_COSINE, "{name}, {n} tokens: {cosine}");
    }
}

fn tokens(case: &Case) -> Option<EmbedInput> {
    Some(EmbedInput::Tokens(case.ids.clone()))
}

#[test]
fn vectors_of_tokens_are_those_of_transformers() {
    for name in MODELS {
        check(&mut embedder(name, &Limits::default()), name, tokens);
    }
}

/// Texts get the special tokens of the model, also where the file does not add the last one.
#[test]
fn vectors_of_texts_are_those_of_transformers() {
    for name in MODELS {
        let text = |case: &Case| case.text.clone().map(EmbedInput::Text);
        check(&mut embedder(name, &Limits::default()), name, text);
    }
}

/// A causal model reads in steps; others ignore the limit of a step.
#[test]
fn vectors_do_not_depend_on_the_length_of_steps_or_on_a_trim() {
    let limits = Limits {
        prefill_chunk: 5,
        ..Limits::default()
    };
    for name in MODELS {
        let mut model = embedder(name, &limits);
        check(&mut model, name, tokens);
        model.trim(Trim::Everything);
        check(&mut model, name, tokens);
    }
}

#[test]
fn different_texts_have_different_vectors() {
    for name in MODELS {
        let cases = golden(name).cases;
        let other = &cases[0].vector;
        for case in &cases[1..] {
            let cosine = cosine(&case.vector, other);
            assert!(cosine < MIN_COSINE, "{name}: the golden shows nothing");
        }
    }
}

#[test]
fn a_text_that_is_too_long_is_refused_with_the_numbers() {
    for name in MODELS {
        let mut model = embedder(name, &Limits::default());
        let inputs = [vec![5; 64], vec![5; 65]].map(EmbedInput::Tokens);
        let message = embed(&mut model, &inputs).unwrap_err().to_string();
        assert!(
            message.starts_with("input 2 is 65 tokens long"),
            "{message}"
        );
        assert!(message.contains("at most 64 tokens"), "{message}");
    }
}

#[test]
fn an_embedding_model_does_not_chat_and_a_chat_model_does_not_embed() {
    let model = embedder("bert-mean", &Limits::default());
    let refusal = model.prepare(&Prompt::Text("the train".to_owned()));
    assert!(matches!(refusal, Err(EngineError::Unsupported { .. })));
    let engine = LlamaEngine::new().with_threads(1);
    let mut chat = load(&engine, &model_path("llama-f16"), &Limits::default()).unwrap();
    let refusal = embed(&mut chat, &[EmbedInput::Text("the train".to_owned())]);
    let message = refusal.unwrap_err().to_string();
    assert!(message.contains("an embedding model"), "{message}");
}

#[test]
fn a_stopped_job_embeds_nothing_more() {
    let mut model = embedder("bert-mean", &Limits::default());
    let control = JobControl::new();
    let mut n_results = 0;
    let mut sink = |_| {
        n_results += 1;
        control.cancel();
    };
    let inputs = [5, 6, 7].map(|token| EmbedInput::Tokens(vec![token]));
    let (reason, _) = model.embed(&inputs, &control, &mut sink).unwrap();
    assert_eq!((reason, n_results), (FinishReason::Canceled, 1));
}
