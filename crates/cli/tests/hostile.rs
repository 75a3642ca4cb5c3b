//! The real program with malicious files and a malicious hub: none of their control characters reaches
//! the terminal, and no file that blocks or never ends blocks a command.
//!
//! Rule: the output is a pipe, where the program writes no styles of its own, so every control
//! character but a line break comes from a file or the hub.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

#[path = "fixtures/hub.rs"]
#[expect(dead_code, reason = "other tests of the program need more of it")]
mod hub;
#[path = "fixtures/program.rs"]
#[expect(dead_code, reason = "other tests of the program need more of it")]
mod program;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use hub::{REPOSITORY, TestHub, err, out};
use transom_catalog::gguf::TensorType;
use transom_catalog::test_support::GgufWriter;
use transom_files::is_control;
use transom_hub::test_support::{Fault, Route};

/// A window title, a color, a cleared screen, a reversed direction, and a line break that could forge a
/// row.
const BAD: &str = "x\u{1b}]0;T\u{7}\u{1b}[31m\u{9b}2J\u{202e}\ny";
/// The same as a string of JSON, without the quotes.
const BAD_JSON: &str = r"x\u001b]0;T\u0007\u001b[31m\u009b2J\u202e\ny";

const STARTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/starter");

/// Runs a command and checks its output; returns both streams.
fn checked(fixture: &TestHub, arguments: &[&str]) -> String {
    let output = fixture.run(arguments);
    let text = out(&output) + &err(&output);
    let found = text.chars().find(|&c| is_control(c) && c != '\n');
    assert_eq!(found, None, "{arguments:?} wrote {text:?}");
    text
}

fn copy_of_starter(fixture: &TestHub, name: &str) -> PathBuf {
    let folder = fixture.home().join(name);
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(STARTER).unwrap() {
        let from = entry.unwrap().path();
        if from.is_file() && from.extension().is_none_or(|end| end != "gguf") {
            fs::copy(&from, folder.join(from.file_name().unwrap())).unwrap();
        }
    }
    folder
}

fn replace(path: &Path, text: &str) {
    fs::remove_file(path).unwrap();
    fs::write(path, text).unwrap();
}

fn gguf(path: &Path, name: &str, architecture: &str) {
    let mut file = GgufWriter::new();
    file.string("general.name", name)
        .string("general.architecture", architecture)
        .tensor("token_embd.weight", &[32], TensorType::F32, vec![0; 128]);
    let mut bytes = Vec::new();
    file.write(&mut bytes).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn no_control_character_of_a_file_is_written() {
    let fixture = TestHub::start();
    let file = fixture.home().join("a.gguf");
    let file = file.to_str().unwrap();
    for (name, architecture) in [(BAD, "qwen3"), ("name", BAD)] {
        gguf(Path::new(file), name, architecture);
        let text = checked(&fixture, &["inspect", file]);
        assert!(text.contains("x�]0;T��[31m�2J�"), "{text}");
        checked(&fixture, &["inspect", file, "--json"]);
        checked(&fixture, &["ask", "Hello", "--model", file]);
    }

    let folder = copy_of_starter(&fixture, "config");
    let config = fs::read_to_string(folder.join("config.json")).unwrap();
    let config = config.replace("\"qwen3\"", &format!("\"{BAD_JSON}\""));
    replace(&folder.join("config.json"), &config);
    let folder = folder.to_str().unwrap();
    assert!(checked(&fixture, &["inspect", folder]).contains("x�]0;T"));
    let text = checked(&fixture, &["ask", "Hello", "--model", folder]);
    assert!(text.contains("]0;T"), "{text}");

    let folder = copy_of_starter(&fixture, "template");
    let template = format!("{{{{ raise_exception('{BAD}') }}}}");
    fs::write(folder.join("chat_template.jinja"), template).unwrap();
    let text = checked(
        &fixture,
        &["ask", "Hello", "--model", folder.to_str().unwrap()],
    );
    assert!(text.contains("]0;T"), "{text}");

    // The child process warns about the value on its standard error.
    let folder = copy_of_starter(&fixture, "recommended");
    let recommended = format!(r#"{{"temperature": "{BAD_JSON}"}}"#);
    replace(&folder.join("generation_config.json"), &recommended);
    let text = checked(
        &fixture,
        &["ask", "Hello", "--model", folder.to_str().unwrap()],
    );
    assert!(text.contains("is not used"), "{text}");

    let folder = copy_of_starter(&fixture, "index");
    let index = format!(r#"{{"weight_map": {{"a": "{BAD_JSON}"}}}}"#);
    replace(&folder.join("model.safetensors.index.json"), &index);
    let text = checked(
        &fixture,
        &["ask", "Hello", "--model", folder.to_str().unwrap()],
    );
    assert!(text.contains("]0;T"), "{text}");
}

/// The template makes a string of 4 GiB in few steps, without writing it.
#[test]
fn a_template_with_a_huge_string_ends_only_the_process_of_the_model() {
    let fixture = TestHub::start();
    let folder = copy_of_starter(&fixture, "doubling");
    let template = "{% set ns = namespace(text='x') %}{% for _ in range(32) %}\
        {% set ns.text = ns.text ~ ns.text %}{% endfor %}";
    fs::write(folder.join("chat_template.jinja"), template).unwrap();
    let arguments = ["ask", "Hello", "--model", folder.to_str().unwrap()];
    let text = checked(&fixture, &arguments);
    assert!(
        text.contains("the chat template of the model took"),
        "{text}"
    );
}

#[test]
fn no_control_character_of_a_models_name_is_written() {
    let fixture = TestHub::start();
    let models = fixture.data().join("models");
    fs::create_dir(&models).unwrap();
    let file = models.join(format!("{BAD}.gguf"));
    gguf(&file, BAD, "qwen3");
    let name = format!("{BAD}.gguf");
    let text = checked(&fixture, &["models", "list"]);
    assert!(text.contains("x�]0;T��[31m�2J� y"), "{text}");
    checked(&fixture, &["models", "list", "--json"]);
    checked(&fixture, &["fit", file.to_str().unwrap()]);
    checked(&fixture, &["ask", "Hello", "--model", &name]);
    checked(&fixture, &["models", "add", file.to_str().unwrap()]);
    let text = checked(&fixture, &["models", "remove", BAD, "--yes"]);
    assert!(text.contains(": removed, "), "{text}");
}

#[test]
fn no_control_character_of_a_hub_is_written() {
    let fixture = TestHub::start();
    let answer = |route, json: String| fixture.hub.fail(route, Fault::Json(json), 1);
    let found = format!(
        r#"[{{"id": "o/{BAD_JSON}", "tags": ["gguf"]}},
            {{"id": "o/good", "tags": ["gguf", "license:{BAD_JSON}"]}}]"#
    );
    answer(Route::Search, found);
    let text = checked(&fixture, &["models", "search", "foo"]);
    assert!(text.contains("o/good"), "{text}");
    assert!(!text.contains("o/x"), "{text}");

    let listing = |id: &str, name: &str| {
        let file = format!(r#"{{"rfilename": "{name}", "size": 5, "blobId": "00"}}"#);
        format!(r#"{{"id": "{id}", "sha": "c", "siblings": [{file}]}}"#)
    };
    let install = ["models", "install", "o/n", "--dry-run", "--anyway"];
    answer(Route::Listing, listing(BAD_JSON, "a-Q4_K_M.gguf"));
    let text = checked(&fixture, &install);
    assert!(text.contains("o/n"), "the requested name: {text}");
    answer(Route::Listing, listing(REPOSITORY, "a-Q4_K_M.gguf"));
    assert!(!checked(&fixture, &install).contains(REPOSITORY));
    answer(Route::Listing, listing("o/n", &format!("{BAD_JSON}.gguf")));
    let text = checked(&fixture, &install);
    assert!(text.contains("isn't a valid name"), "{text}");
}

#[test]
fn files_that_block_or_never_end_do_not_block_a_command() {
    let fixture = TestHub::start();
    let models = fixture.data().join("models");
    fs::create_dir(&models).unwrap();
    for name in [
        "model.safetensors",
        "tokenizer_config.json",
        "chat_template.jinja",
    ] {
        for is_endless in [false, true] {
            let folder = copy_of_starter(&fixture, "bad");
            let bad = folder.join(name);
            let _ = fs::remove_file(&bad);
            if is_endless {
                symlink("/dev/zero", &bad).unwrap();
            } else {
                let made = Command::new("mkfifo").arg(&bad).status().unwrap();
                assert!(made.success());
            }
            let in_list = models.join("bad");
            fs::rename(&folder, &in_list).unwrap();
            let text = checked(&fixture, &["models", "list"]);
            assert!(text.contains("bad: "), "{text}");
            assert!(text.contains(name), "{text}");
            let text = checked(&fixture, &["inspect", in_list.to_str().unwrap()]);
            assert!(text.contains("is not a regular file"), "{text}");
            fs::remove_dir_all(&in_list).unwrap();
        }
    }
}
