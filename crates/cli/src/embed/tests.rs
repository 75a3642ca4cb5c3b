use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::failure;
use crate::test_console::TestConsole;
use crate::test_engine::TestEngine;

/// A folder that is an embedding model by its name.
fn embedder() -> (TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("tiny-embedding");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("config.json"), r#"{"model_type": "qwen3"}"#).unwrap();
    let header = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let length = (header.len() as u64).to_le_bytes();
    let weights = [&length[..], header, &[0; 4]].concat();
    fs::write(folder.join("model.safetensors"), weights).unwrap();
    (root, folder)
}

/// Runs the command with this model and input; returns the exit code and both outputs.
fn embed(args: &EmbedArgs, model: &Path, input: &str) -> (u8, String, String) {
    let mut streams = TestConsole::typing(input);
    let engine = TestEngine::answering(&[]);
    let args = EmbedArgs {
        model: Some(model.to_owned()),
        ..args.clone()
    };
    let mut console = streams.console();
    let result = run(&args, &engine.client(), &mut console);
    let code = failure::report(result, console.err);
    (code, streams.out_text(), streams.err_text())
}

fn of(texts: &[&str]) -> EmbedArgs {
    EmbedArgs {
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        ..EmbedArgs::default()
    }
}

fn lines(out: &str) -> Vec<Value> {
    let lines = out.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

#[test]
fn each_text_becomes_a_line_with_its_vector() {
    let (_root, model) = embedder();
    let (code, out, err) = embed(&of(&["one two three", "-"]), &model, "a\nb c\n");
    assert_eq!((code, &*err), (0, ""));
    let lines = lines(&out);
    let field = |name: &str| -> Vec<u64> {
        let values = lines.iter().map(|line| line[name].as_u64().unwrap());
        values.collect()
    };
    assert_eq!(field("index"), [0, 1, 2]);
    assert_eq!(field("tokens"), [3, 1, 2]);
    for line in &lines {
        let values = line["embedding"].as_array().unwrap();
        let squares = values.iter().map(|value| value.as_f64().unwrap().powi(2));
        assert!((squares.sum::<f64>() - 1.0).abs() < 1e-6, "{line}");
    }
}

#[test]
fn base64_has_the_same_numbers() {
    let (_root, model) = embedder();
    let (_, plain, _) = embed(&of(&["one two"]), &model, "");
    let args = EmbedArgs {
        format: VectorFormat::Base64,
        ..of(&["one two"])
    };
    let (_, encoded, _) = embed(&args, &model, "");
    let encoded = lines(&encoded)[0]["embedding"].as_str().unwrap().to_owned();
    let bytes = STANDARD.decode(encoded).unwrap();
    let (values, rest) = bytes.as_chunks();
    assert!(rest.is_empty());
    let values: Vec<f32> = values.iter().copied().map(f32::from_le_bytes).collect();
    let plain = lines(&plain)[0]["embedding"].take();
    assert_eq!(serde_json::from_value::<Vec<f32>>(plain).unwrap(), values);
}

#[test]
fn a_model_without_known_prefixes_is_noted() {
    let (_root, model) = embedder();
    let args = EmbedArgs {
        query: true,
        ..of(&["a"])
    };
    let (code, out, err) = embed(&args, &model, "");
    assert_eq!((code, lines(&out).len()), (0, 1));
    assert!(err.contains("tiny-embedding"), "{err}");
}

#[test]
fn a_chat_model_is_refused_with_what_to_do() {
    let (root, _) = embedder();
    let chat = root.path().join("chat");
    fs::rename(root.path().join("tiny-embedding"), &chat).unwrap();
    let (code, out, err) = embed(&of(&["a"]), &chat, "");
    assert_eq!((code, &*out), (3, ""));
    assert!(err.contains("chat generates text"), "{err}");
    let names_a_way = err.contains("--model") || err.contains("models install");
    assert!(names_a_way, "{err}");
}

#[test]
fn no_text_is_a_wrong_request() {
    let (_root, model) = embedder();
    let (code, _, err) = embed(&of(&[]), &model, "");
    assert_eq!(code, 2, "{err}");
}
