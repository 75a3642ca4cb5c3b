//! The starter model in its two forms: MLX runs the folder, llama.cpp the GGUF file, and the program
//! chooses by the machine.
//!
//! Rule: the file is the one that set-up wrote; folders without it, or with a damaged copy, are made
//! here.

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

/// The starter's file; missing only where no set-up ran.
fn gguf() -> PathBuf {
    let file = Path::new(STARTER).join("starter.gguf");
    assert!(file.is_file(), "run `cargo xtask setup` first");
    file
}

/// A folder with all of the starter but its GGUF file.
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

/// What a short benchmark of `model` reports.
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

/// D108: the machine decides which form runs.
#[test]
fn without_a_word_from_the_user_the_engine_that_suits_the_machine_runs() {
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
fn each_form_is_run_by_its_engine_when_there_is_no_other() {
    let folder = safetensors_folder();
    assert_eq!(bench(Some(folder.path()))["engine"], "mlx");
    assert_eq!(bench(Some(&gguf()))["engine"], "llama.cpp");
}

/// The file holds the same numbers as the folder, to the bit.
#[test]
fn both_forms_give_the_same_greedy_answers() {
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

/// D108: a form that does not run gives way to the next, and the user hears why. The file is tried
/// first only where MLX has no GPU.
#[cfg(target_os = "linux")]
#[test]
fn a_form_that_does_not_run_gives_way_to_the_next_with_its_reason() {
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

/// The starter's file with a tokenizer that llama.cpp does not know: the name's first letter is
/// another one.
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
fn a_folder_with_several_files_asks_which() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b.gguf", "a.gguf"] {
        symlink(gguf().canonicalize().unwrap(), folder.path().join(name)).unwrap();
    }
    let data = tempfile::tempdir().unwrap();
    let model = folder.path().to_str().unwrap();
    let output = run_on(data.path(), &["ask", "Hi", "--model", model]);
    assert_eq!(output.status.code(), Some(3));
    let told = text(&output.stderr);
    assert!(told.contains("name one of them: a.gguf, b.gguf"), "{told}");

    fs::remove_file(folder.path().join("b.gguf")).unwrap();
    let report = bench(Some(folder.path()));
    assert_eq!(report["model"], "a", "a link keeps its own name");
}

/// The notes of a piped chat in a context of 256 tokens, whose only answer has no end of its own.
fn notes_of_an_endless_answer(model: &Path) -> String {
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

/// D037: a full context is shifted where the engine can, and either way the user hears of it.
#[test]
fn an_endless_answer_goes_on_past_the_context_but_not_for_ever() {
    let shifted = notes_of_an_endless_answer(&gguf());
    assert!(shifted.contains("to go on, the model forgot"), "{shifted}");
    assert!(
        shifted.contains("as long as the whole context"),
        "{shifted}"
    );
    let full = notes_of_an_endless_answer(safetensors_folder().path());
    assert!(full.contains("the context is full"), "{full}");
}

#[test]
fn guesses_are_counted_and_a_flag_forbids_them() {
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
    assert!(with.contains("guesses right"), "{with}");
    let without = stats(&["--no-speculation"]);
    assert!(!without.contains("guesses"), "{without}");
}
