//! The official Python clients of OpenAI, Anthropic and Ollama drive `transom serve` with the starter
//! and a tiny embedding model.
//!
//! The checks are in `fixtures/clients/clients.py`. Setup unpacks the clients; without them the test is
//! skipped.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

#[path = "fixtures/program.rs"]
#[expect(dead_code, reason = "no response here needs its options")]
mod program;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use program::{run_on, text, transom};
use rustix::process::{Pid, Signal, kill_process};
use transom_signals::test_support::skipped;

/// What setup must have unpacked.
const REQUIREMENTS: &str = include_str!("fixtures/clients/requirements.txt");

/// A key of the form of those that the server makes.
const KEY: &str = "sk-transom-test";

/// An embedding model with vectors of a few numbers, as it is named once it is added.
const EMBEDDER: &str = "qwen3-last";

/// Returns the folder of the clients, which is beside the MLX of this machine.
fn clients() -> Option<PathBuf> {
    let libraries = PathBuf::from(std::env::var_os("TRANSOM_MLX_LIB")?);
    let folder = libraries.ancestors().nth(3)?.join("python-clients");
    let made_from = fs::read_to_string(folder.join("requirements.txt"));
    made_from
        .is_ok_and(|text| text == REQUIREMENTS)
        .then_some(folder)
}

#[test]
fn the_official_clients_get_what_they_expect() {
    let Some(clients) = clients() else {
        skipped(
            "the Python clients are missing; `cargo xtask setup` unpacks them with Python 3.11 or newer",
        );
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let embedder = root.join("../engine-llama/tests/fixtures/embeddings/qwen3-last.gguf");
    let added = run_on(
        data.path(),
        &["models", "install", embedder.to_str().unwrap()],
    );
    assert_eq!(added.status.code(), Some(0), "{}", text(&added.stderr));

    let mut server = transom(&["serve", "--port", "0", "--key", KEY], data.path())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let address = lines.next().unwrap().unwrap();
    let address = address.split_whitespace().find(|word| word.contains("://"));
    let script = root.join("tests/fixtures/clients/clients.py");
    let checks = Command::new("python3")
        // Neither packages of this Python nor proxies may change what the clients do.
        .args(["-S", "-B"])
        .arg(script)
        .env("PYTHONPATH", clients)
        .env("NO_PROXY", "localhost")
        .env("TRANSOM_URL", address.unwrap())
        .env("TRANSOM_KEY", KEY)
        .env("TRANSOM_EMBEDDER", EMBEDDER)
        .output()
        .unwrap();
    kill_process(Pid::from_child(&server), Signal::INT).unwrap();
    let ended = server.wait_with_output().unwrap();
    assert!(
        checks.status.success(),
        "{}\nthe server wrote:\n{}",
        text(&checks.stderr),
        text(&ended.stderr)
    );
    assert_eq!(ended.status.code(), Some(0));
}
