//! The real program with the bundled starter model, as shell scripts use it.
//!
//! Rule: every test runs the built `transom` and uses no code of it.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

#[path = "fixtures/program.rs"]
mod program;

use std::io::{Read, Write};
use std::process::{Output, Stdio};

use program::{ENDLESS, run_on, text, transom};
use serde_json::Value;

/// Runs to the end on a data folder of its own.
fn run(arguments: &[&str]) -> Output {
    let data = tempfile::tempdir().unwrap();
    run_on(data.path(), arguments)
}

fn run_with_input(arguments: &[&str], input: &[u8]) -> Output {
    let data = tempfile::tempdir().unwrap();
    let mut command = transom(arguments, data.path());
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// Runs and compares the exit code; the only line of standard error must contain `expect`.
fn check_failure(arguments: &[&str], code: i32, expect: &str) {
    let output = run(arguments);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
    assert!(err.starts_with("transom: "), "{arguments:?}: {err}");
    assert_eq!(err.lines().count(), 1, "{arguments:?}: {err}");
    assert!(err.contains(expect), "{arguments:?}: {err}");
}

#[test]
fn the_bundled_model_answers_offline() {
    let output = run(&[
        "ask",
        "What is the capital of France?",
        "--temperature",
        "0",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("Paris"));
    assert!(text(&output.stdout).ends_with('\n'));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_piped_question_is_answered_and_stats_go_to_standard_error() {
    let arguments = ["ask", "--temperature", "0", "--stats"];
    let output = run_with_input(&arguments, b"What is the capital of France?\n");
    assert!(text(&output.stdout).contains("Paris"));
    let stats = text(&output.stderr);
    assert!(
        stats.contains("prompt tokens") && stats.contains("tok/s"),
        "{stats}"
    );
}

#[test]
fn json_lines_are_events_in_order() {
    let output = run(&["ask", "Hello", "--temperature", "0", "--json"]);
    let events: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut names: Vec<&str> = events
        .iter()
        .map(|e| e["event"].as_str().unwrap())
        .collect();
    names.dedup();
    assert_eq!(names, ["loading", "started", "prefill", "text", "finished"]);
    let last = events.last().unwrap();
    assert_eq!(last["reason"], "stop");
    assert!(last["stats"]["generated_tokens"].as_u64().unwrap() > 0);
    assert!(
        last["stats"]["time_to_first_token_seconds"]
            .as_f64()
            .unwrap()
            > 0.0
    );
}

#[test]
fn a_failure_is_also_the_last_json_line() {
    let output = run(&["ask", "Hello", "--json", "--model", "/nowhere/at-all"]);
    assert_eq!(output.status.code(), Some(3));
    let line = text(&output.stdout).lines().last().unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["event"], "error");
    assert_eq!(line["exit_code"], 3);
    assert!(
        line["message"]
            .as_str()
            .unwrap()
            .contains("/nowhere/at-all")
    );
}

#[test]
fn each_failure_has_its_exit_code_and_one_line() {
    check_failure(
        &["ask", "Hi", "--temperature", "-1"],
        2,
        "temperature is -1",
    );
    check_failure(&["ask", "Hi", "--modle", "x"], 2, "--model");
    check_failure(&["ask"], 2, "prompt is empty");
    check_failure(&["ask", "  "], 2, "prompt is empty");
    check_failure(&["bench", "--prompt-tokens", "100000"], 2, "100128");
    check_failure(
        &["ask", "Hi", "--model", "/nowhere/at-all"],
        3,
        "/nowhere/at-all",
    );
    check_failure(&["ask", "Hi", "--logit-bias", "99999999=1"], 2, "99999999");
}

#[test]
fn a_prompt_longer_than_the_context_is_refused() {
    let long = "word ".repeat(5000);
    let output = run_with_input(&["ask"], long.as_bytes());
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("context holds 2048"),
        "{}",
        text(&output.stderr)
    );
}

/// Returns the number of tokens in the prompt of an `ask` with these options.
fn prompt_tokens(options: &[&str]) -> u64 {
    let question = ["ask", "Who is praised here?", "--json", "--max-tokens", "1"];
    let output = run(&[&question, options].concat());
    let lines = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{lines}");
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    last["stats"]["prompt_tokens"].as_u64().unwrap()
}

#[test]
fn attached_documents_are_part_of_the_prompt() {
    let pdf = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../document-reader/tests/fixtures/files/crazyones.pdf"
    );
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("note.txt");
    std::fs::write(&note, "The crazy ones are praised.").unwrap();
    let note = note.to_str().unwrap();
    let without = prompt_tokens(&[]);
    let with_note = prompt_tokens(&["--attach", note]);
    let with_both = prompt_tokens(&["-a", pdf, "-a", note]);
    assert!(with_note > without + 5, "{without} {with_note}");
    assert!(with_both > with_note + 100, "{with_note} {with_both}");
}

#[test]
fn documents_that_cannot_be_read_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let image = write("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let check = |path: &str, expect| check_failure(&["ask", "Hi", "--attach", path], 2, expect);
    check(&image, "a.png: it is an image");
    check(
        &write("a.pdf", b"%PDF-1.7\nnothing"),
        "a.pdf: it is damaged",
    );
    check("/nowhere/at-all", "/nowhere/at-all: there is no such file");
    let long = write("long.txt", "word ".repeat(5000).as_bytes());
    check(&long, "tokens of the documents: about");
    let output = run(&["ask", "Hi", "--json", "--attach", &image]);
    let line: Value = serde_json::from_str(text(&output.stdout).trim_end()).unwrap();
    assert_eq!(line["exit_code"], 2);
}

#[test]
fn standard_input_that_is_not_utf8_is_refused() {
    let output = run_with_input(&["ask", "Hi"], b"caf\xe9");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("not UTF-8"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_closed_pipe_ends_the_response_silently() {
    let arguments = [&["ask", "Tell me a story"], &ENDLESS[..]].concat();
    let data = tempfile::tempdir().unwrap();
    let mut child = transom(&arguments, data.path()).spawn().unwrap();
    let mut first = [0; 1];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn stop_strings_and_length_limits_end_a_response() {
    let question = "What is the capital of France?";
    let stopped = run(&["ask", question, "--temperature", "0", "--stop", "Paris"]);
    assert!(!text(&stopped.stdout).contains("Paris"));
    let short = run(&[
        "ask",
        question,
        "--temperature",
        "0",
        "--max-tokens",
        "2",
        "--json",
    ]);
    let last = text(&short.stdout).lines().last().unwrap().to_owned();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["reason"], "length");
    assert_eq!(last["stats"]["generated_tokens"], 2);
}

#[test]
fn the_same_seed_gives_the_same_response() {
    let arguments = [
        "ask",
        "Hello",
        "--temperature",
        "1.5",
        "--seed",
        "7",
        "--max-tokens",
        "30",
    ];
    assert_eq!(run(&arguments).stdout, run(&arguments).stdout);
}

#[test]
fn a_piped_chat_remembers_and_saves_its_messages() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chat.json");
    let script = format!(
        "My name is Ada.\nWhat is my name?\n/save {}\n/quit\n",
        file.display()
    );
    let output = run_with_input(&["chat", "--temperature", "0"], script.as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let last = text(&output.stdout).lines().last().unwrap();
    assert!(last.contains("Ada"), "{}", text(&output.stdout));
    let saved: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(saved["messages"].as_array().unwrap().len(), 4);
    assert!(text(&output.stderr).contains("bundled starter model"));
}

#[test]
fn a_benchmark_uses_the_prefix_cache_only_in_the_second_turn() {
    let arguments = [
        "bench",
        "--prompt-tokens",
        "64,128",
        "--generate-tokens",
        "8",
        "--runs",
        "2",
        "--turn2",
        "--json",
    ];
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let reports: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(reports.len(), 2);
    for (report, n_prompt) in reports.iter().zip([64, 128]) {
        assert_eq!(report["prompt_tokens"], n_prompt);
        assert_eq!(report["runs"].as_array().unwrap().len(), 2);
        assert!(
            report["median"]["decode_tokens_per_second"]
                .as_f64()
                .unwrap()
                > 0.0
        );
        assert!(report["peak_memory_bytes"].as_u64().unwrap() > 0);
        // The last token of the response was sampled, but not yet processed.
        assert_eq!(
            report["turn2"]["runs"][0]["cached_tokens"],
            n_prompt + 8 - 1
        );
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    for arguments in [["--help"], ["--version"], ["-h"]] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("transom"));
    }
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Usage"));
}

#[test]
fn the_help_names_every_command_and_each_explains_itself() {
    let help = run(&["--help"]);
    let help = text(&help.stdout);
    for command in [
        "ask", "chat", "serve", "bench", "status", "unload", "doctor", "inspect",
    ] {
        let names_it = help
            .lines()
            .any(|line| line.trim_start().starts_with(&format!("{command} ")));
        assert!(names_it, "{command} is not in:\n{help}");
        let own = run(&[command, "--help"]);
        assert_eq!(own.status.code(), Some(0));
        assert!(text(&own.stdout).contains("Exit codes:"), "{command}");
    }
    assert!(help.contains("TRANSOM_DATA"), "{help}");
}

/// Limits from power and heat are shown with their reasons.
#[test]
fn the_doctor_shows_the_limits_of_simulated_signals() {
    let doctor = |signals: &str| {
        let output = run(&["doctor", "--simulate", signals]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    let calm = doctor("memory=normal");
    assert!(!calm.contains("shorter responses"), "{calm}");
    let low = doctor("power=low");
    assert!(low.contains("Low Power Mode"), "{low}");
    assert!(low.contains("shorter responses"), "{low}");
    let hot = doctor("heat=critical");
    assert!(
        hot.contains("new requests wait: this computer is too hot"),
        "{hot}"
    );
    check_failure(&["doctor", "--simulate", "weather=fine"], 2, "weather");
}

#[test]
fn the_doctors_json_describes_this_computer() {
    let output = run(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["hardware"]["memory_bytes"].as_u64().unwrap() > 0);
    assert!(report["budget_bytes"].as_u64().unwrap() > 0);
    let sources = report["sources"].as_array().unwrap();
    assert!(
        sources
            .iter()
            .any(|source| source["signal"] == "memory pressure")
    );
    assert_eq!(report["instance"]["process_id"], Value::Null);
}
