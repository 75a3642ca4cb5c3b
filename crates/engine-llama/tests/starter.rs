//! The starter model as GGUF gives the same responses as with MLX, and its tokenizer equals the original.
//!
//! The expected responses are mlx-lm's, which the MLX engine is compared with as well; the tokens of
//! texts are those of the `tokenizers` library (`fixtures/make_goldens.py`).

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;
use transom_catalog::test_support::convert::{Quantization, convert};
use transom_engine::{
    ChatPrompt, Engine, EngineError, FinishReason, GenerationParams, JobControl, Limits,
    LoadedModel, Message, ModelSource, PreparedPrompt, Prompt, SamplingParams, Section, TokenEvent,
};
use transom_engine_llama::LlamaEngine;

type Model = Box<dyn LoadedModel>;

/// mlx-lm's responses of the starter model, in float32.
#[derive(Debug, Deserialize)]
struct Answers {
    model: String,
    max_tokens: usize,
    cases: Vec<Answer>,
}

#[derive(Debug, Deserialize)]
struct Answer {
    name: String,
    messages: Vec<Message>,
    prompt_tokens: Vec<u32>,
    text: String,
    ended: bool,
}

#[derive(Debug, Deserialize)]
struct Texts {
    texts: Vec<(String, Vec<u32>)>,
}

/// Returns the root folder of the repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads a JSON file of the repository.
fn read_json<T: DeserializeOwned>(path: &str) -> T {
    let path = repository().join(path);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// Converts the starter model to GGUF in a temporary folder, and loads it.
fn starter(quantization: Quantization) -> (TempDir, Model) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("starter.gguf");
    let source = repository().join("assets/starter");
    convert(&source, &path, quantization).expect("the starter is converted");
    let model = LlamaEngine::new()
        .load(
            &ModelSource { path },
            &Limits::default(),
            &JobControl::new(),
            &mut |_| {},
        )
        .expect("the starter loads");
    (folder, model)
}

#[test]
fn in_f16_the_starter_gives_the_same_responses_as_with_mlx() {
    let answers: Answers = read_json("crates/engine-mlx/tests/fixtures/starter_golden.json");
    assert_eq!(answers.model, "assets/starter");
    assert_eq!(answers.cases.len(), 10);
    let (_folder, mut model) = starter(Quantization::F16);
    for speculate in [false, true] {
        for case in &answers.cases {
            check(&mut model, case, answers.max_tokens, speculate);
        }
    }
}

/// A new user asks these first.
#[test]
fn the_starter_answers_the_examples_of_the_empty_chat() {
    let texts: serde_json::Value = read_json("ui/src/i18n/en/chat.json");
    let (_folder, mut model) = starter(Quantization::F16);
    let mut answer_to_example = |number: usize| {
        let question = texts[format!("empty.example_{number}")].as_str();
        let chat = ChatPrompt {
            messages: vec![Message::user(question.expect("it is a text"))],
            ..ChatPrompt::default()
        };
        let prompt = model.prepare(&Prompt::Chat(chat)).expect("the prompt fits");
        let (answer, reason) = answer(&mut model, &prompt, 200, false);
        assert_eq!(reason, FinishReason::Stop, "{answer}");
        answer
    };
    let sky = answer_to_example(1);
    assert!(sky.contains("scatters blue light"), "{sky}");
    assert_eq!(sky.matches('.').count(), 3, "{sky}");
    let note = answer_to_example(2);
    assert!(note.starts_with("Dear neighbo"), "{note}");
    assert!(note.contains("Thank you"), "{note}");
    let ideas = answer_to_example(3);
    let numbers = ideas
        .lines()
        .map(|line| line.split_once(". ").map(|(n, _)| n));
    let expected = ["1", "2", "3", "4", "5"].map(Some);
    assert_eq!(numbers.collect::<Vec<_>>(), expected, "{ideas}");
}

fn check(model: &mut Model, case: &Answer, max_tokens: usize, speculate: bool) {
    let chat = ChatPrompt {
        messages: case.messages.clone(),
        ..ChatPrompt::default()
    };
    let prompt = model.prepare(&Prompt::Chat(chat)).expect("the prompt fits");
    assert_eq!(prompt.tokens, case.prompt_tokens, "{}", case.name);
    let (answer, reason) = answer(model, &prompt, max_tokens, speculate);
    let expected = if case.ended {
        FinishReason::Stop
    } else {
        FinishReason::Length
    };
    assert_eq!(answer, case.text, "{}, speculative: {speculate}", case.name);
    assert_eq!(reason, expected, "{}", case.name);
}

/// Returns the most likely response, and why it ended.
fn answer(
    model: &mut Model,
    prompt: &PreparedPrompt,
    max_tokens: usize,
    speculate: bool,
) -> (String, FinishReason) {
    let params = GenerationParams {
        sampling: SamplingParams {
            temperature: 0.0,
            ..SamplingParams::default()
        },
        max_tokens: Some(max_tokens),
        speculate,
        ..GenerationParams::default()
    };
    let mut answer = String::new();
    let mut sink = |event| {
        if let TokenEvent::Text { section, text, .. } = event {
            assert_eq!(section, Section::Answer);
            answer.push_str(&text);
        }
    };
    let (reason, _) = model
        .generate(prompt, &params, &JobControl::new(), &mut sink)
        .expect("the answer succeeds");
    (answer, reason)
}

#[test]
fn the_tokenizer_in_the_file_equals_the_original() {
    let golden: Texts = read_json("crates/engine-llama/tests/fixtures/goldens/starter.json");
    let (_folder, model) = starter(Quantization::Q4_1);
    for (text, expected) in &golden.texts {
        let prepared = model.prepare(&Prompt::Text(text.clone()));
        if expected.is_empty() {
            assert!(
                matches!(prepared, Err(EngineError::EmptyPrompt)),
                "{text:?}"
            );
        } else {
            let tokens = prepared.expect("the text fits").tokens;
            assert_eq!(&tokens, expected, "{text:?}");
        }
    }
}
