//! The starter model in its two forms: MLX runs the folder, llama.cpp the GGUF file, and the program
//! chooses the one that suits the machine.
//!
//! Rule: the file is the one that `cargo xtask setup` wrote; the tests create folders without it, or
//! with a damaged copy.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

#[path = "fixtures/program.rs"]
mod program;

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use program::{ENDLESS, run_on, text, transom};
use serde_json::Value;
use tempfile::TempDir;

const STARTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/starter");

/// The starter's file, which `cargo xtask setup` writes.
fn gguf() -> PathBuf {
    let file = Path::new(STARTER).join("starter.gguf");
    assert!(file.is_file(), "run `cargo xtask setup` first");
    file
}

/// A folder with all files of the starter but the GGUF file.
fn safetensors_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(STARTER).unwrap() {
        let path = entry.unwrap().path().canonicalize().unwrap();
        if path.extension().is_none_or(|extension| extension != "gguf") {
            symlink(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    folder
}

/// The report of a short benchmark of `model`.
fn bench(model: Option<&Path>) -> Value {
    let data = tempfile::tempdir().unwrap();
    let mut arguments = vec!["bench", "--prompt-tokens", "8", "--generate-tokens", "2"];
    arguments.extend(["--runs", "1", "--warmup", "0", "--json"]);
    arguments.extend(
        model
            .iter()
            .flat_map(|model| ["--model", model.to_str().unwrap()]),
    );
    let output = run_on(data.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn greedy_answer(model: &Path, prompt: &str) -> String {
    let data = tempfile::tempdir().unwrap();
    let model = model.to_str().unwrap();
    let arguments = ["ask", prompt, "--temperature", "0", "--model", model];
    let output = run_on(data.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

/// The machine decides which form runs.
#[test]
fn the_engine_that_suits_the_machine_runs_by_default() {
    gguf();
    let expect = if cfg!(target_os = "macos") {
        "mlx"
    } else {
        "llama.cpp"
    };
    let report = bench(None);
    assert_eq!(report["engine"], expect);
    assert_eq!(report["model"], "starter");
    assert!(report.get("passed_over").is_none(), "{report}");
}

#[test]
fn each_form_runs_with_its_engine() {
    let folder = safetensors_folder();
    assert_eq!(bench(Some(folder.path()))["engine"], "mlx");
    assert_eq!(bench(Some(&gguf()))["engine"], "llama.cpp");
}

/// The file holds the same numbers as the folder, to the bit.
#[test]
fn both_forms_give_the_same_greedy_responses() {
    let folder = safetensors_folder();
    for prompt in [
        "What is the capital of France?",
        "Good evening!",
        "What is 17 + 25?",
    ] {
        let of_mlx = greedy_answer(folder.path(), prompt);
        assert_eq!(of_mlx, greedy_answer(&gguf(), prompt), "{prompt}");
        assert!(!of_mlx.trim().is_empty(), "{prompt}");
    }
}

/// If a form does not run, the next is tried, and the reason is reported. The file is tried first
/// only if MLX has no GPU.
#[cfg(target_os = "linux")]
#[test]
fn if_a_form_does_not_run_the_next_is_tried_and_the_reason_reported() {
    let folder = safetensors_folder();
    fs::write(folder.path().join("odd.gguf"), with_unknown_tokenizer()).unwrap();
    let report = bench(Some(folder.path()));
    assert_eq!(report["engine"], "mlx");
    let passed_over = &report["passed_over"][0];
    let path = Path::new(passed_over["path"].as_str().unwrap());
    assert_eq!(path.file_name().unwrap(), "odd.gguf");
    let reason = passed_over["reason"].as_str().unwrap();
    assert!(reason.contains("pre-tokenizer"), "{reason}");

    let data = tempfile::tempdir().unwrap();
    let model = folder.path().join("odd.gguf");
    let output = run_on(
        data.path(),
        &["ask", "Hi", "--model", model.to_str().unwrap()],
    );
    assert_eq!(output.status.code(), Some(3), "nothing else is tried");
    assert!(
        text(&output.stderr).contains("pre-tokenizer"),
        "{}",
        text(&output.stderr)
    );
}

/// The starter's file with an unknown tokenizer: the first letter of its name is changed.
#[cfg(target_os = "linux")]
fn with_unknown_tokenizer() -> Vec<u8> {
    let mut bytes = fs::read(gguf()).unwrap();
    let key = b"tokenizer.ggml.pre";
    let mut windows = bytes.windows(key.len());
    let at = windows.position(|window| window == key).unwrap();
    // After the key: the value's type in 4 bytes, its length in 8.
    let first_letter = at + key.len() + 12;
    assert!(bytes[first_letter].is_ascii_alphabetic());
    bytes[first_letter] = b'?';
    bytes
}

#[test]
fn a_folder_with_several_files_is_refused_with_their_names() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b.gguf", "a.gguf"] {
        symlink(gguf().canonicalize().unwrap(), folder.path().join(name)).unwrap();
    }
    let data = tempfile::tempdir().unwrap();
    let model = folder.path().to_str().unwrap();
    let output = run_on(data.path(), &["ask", "Hi", "--model", model]);
    assert_eq!(output.status.code(), Some(3));
    let err = text(&output.stderr);
    assert!(err.contains("name one of them: a.gguf, b.gguf"), "{err}");

    fs::remove_file(folder.path().join("b.gguf")).unwrap();
    let report = bench(Some(folder.path()));
    assert_eq!(report["model"], "a", "a link keeps its own name");
}

/// The notes of a piped chat in a context of 256 tokens, whose only response never ends by itself.
fn notes_of_an_endless_response(model: &Path) -> String {
    let data = tempfile::tempdir().unwrap();
    let model = model.to_str().unwrap();
    let narrow = ["chat", "--model", model, "--context-length", "256"];
    let mut command = transom(&[&narrow[..], &ENDLESS[..]].concat(), data.path());
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"Tell me a story\n").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stderr).to_owned()
}

/// A full context is shifted if the engine can, and a note tells so in both cases.
#[test]
fn an_endless_response_ends_when_it_is_as_long_as_the_context() {
    let shifted = notes_of_an_endless_response(&gguf());
    assert!(shifted.contains("so the model no longer sees"), "{shifted}");
    assert!(
        shifted.contains("as long as the whole context"),
        "{shifted}"
    );
    let full = notes_of_an_endless_response(safetensors_folder().path());
    assert!(full.contains("the context is full"), "{full}");
}

#[test]
fn an_option_turns_speculative_decoding_off() {
    let stats = |more: &[&str]| {
        let data = tempfile::tempdir().unwrap();
        let file = gguf();
        let model = ["--model", file.to_str().unwrap()];
        let copy = "Repeat this exactly: one, two, three, one, two, three, one, two, three";
        let long = ["ask", copy, "--max-tokens", "100", "--stats"];
        let arguments = [&long[..], &model[..], &ENDLESS[..], more].concat();
        let output = run_on(data.path(), &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stderr).to_owned()
    };
    let with = stats(&[]);
    assert!(with.contains("draft tokens accepted"), "{with}");
    let without = stats(&["--no-speculation"]);
    assert!(!without.contains("guesses"), "{without}");
}
