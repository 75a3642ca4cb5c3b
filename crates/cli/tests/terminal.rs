//! The real program on a pseudo-terminal, as a person sees and uses it.
//!
//! Rule: each step waits for text on the screen, never for a time.

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

use std::path::Path;
use std::process::Command;

use rexpect::process::WaitStatus;
use rexpect::session::{Options, PtySession, spawn_with_options};
use serde_json::Value;
use transom_hub::test_support::{Fault, Route};

use hub::{TestHub, code, err, out};

/// Long enough for the slowest machine; a test that passes never waits for it.
const PATIENCE_MS: u64 = 60_000;

/// Suppresses both end tokens of the starter, so its response continues until the context is full.
const ENDLESS: [&str; 4] = ["--logit-bias", "0=-1000", "--logit-bias", "2=-1000"];

/// Starts a command that generates.
fn generating(arguments: &[&str], home: &Path) -> PtySession {
    started(&[arguments, &["--temperature", "0"]].concat(), home)
}

fn started(arguments: &[&str], home: &Path) -> PtySession {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command
        .args(arguments)
        .env_remove("TRANSOM_MODEL")
        .env_remove("TRANSOM_LOG")
        .env_remove("NO_COLOR")
        .env("TRANSOM_DATA", home.join("data"))
        .env("HOME", home)
        .env("TERM", "xterm-256color");
    let options = Options::new()
        .timeout_ms(Some(PATIENCE_MS))
        .strip_ansi_escape_codes(true);
    spawn_with_options(command, options).unwrap()
}

fn check_exit(session: &PtySession, code: i32) {
    match session.process().wait().unwrap() {
        WaitStatus::Exited(_, exit) => assert_eq!(exit, code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn ctrl_c_stops_the_response_and_the_chat_continues() {
    let home = tempfile::tempdir().unwrap();
    let mut chat = generating(&[&["chat"], &ENDLESS[..]].concat(), home.path());
    chat.exp_string("bundled starter model").unwrap();
    chat.exp_string("> ").unwrap();
    chat.send_line("What is the capital of France?").unwrap();
    chat.exp_string("Paris").unwrap();
    chat.send_control('c').unwrap();
    chat.exp_string("(stopped)").unwrap();
    chat.exp_string("> ").unwrap();

    let saved = home.path().join("chat.md");
    chat.send_line("/save ~/chat.md").unwrap();
    chat.exp_string("Saved to").unwrap();
    let text = std::fs::read_to_string(saved).unwrap();
    assert!(
        text.contains("Paris"),
        "the partial response is kept: {text}"
    );

    chat.exp_string("> ").unwrap();
    chat.send_control('c').unwrap();
    chat.exp_string("To leave, type /quit").unwrap();
    chat.exp_string("> ").unwrap();
    chat.send_line("/quit").unwrap();
    chat.exp_eof().unwrap();
    check_exit(&chat, 0);
}

#[test]
fn ctrl_d_ends_the_chat_and_the_next_chat_has_its_history() {
    let home = tempfile::tempdir().unwrap();
    for is_first in [true, false] {
        let mut chat = generating(&["chat"], home.path());
        chat.exp_string("> ").unwrap();
        if is_first {
            chat.send_line("/system Be brief.").unwrap();
            chat.exp_string("The system prompt is set").unwrap();
        } else {
            chat.send("\x1b[A").unwrap();
            chat.flush().unwrap();
            chat.exp_string("/system Be brief.").unwrap();
            chat.send_line("").unwrap();
            chat.exp_string("The system prompt is set").unwrap();
        }
        chat.exp_string("> ").unwrap();
        chat.send_control('d').unwrap();
        chat.exp_eof().unwrap();
        check_exit(&chat, 0);
    }
}

#[test]
fn a_backslash_continues_the_message_on_the_next_line() {
    let home = tempfile::tempdir().unwrap();
    let mut chat = generating(&["chat"], home.path());
    chat.exp_string("> ").unwrap();
    chat.send_line("/system first\\").unwrap();
    chat.send_line("second").unwrap();
    chat.exp_string("The system prompt is set").unwrap();
    chat.exp_string("> ").unwrap();
    chat.send_line("/system").unwrap();
    chat.exp_regex("first\r?\nsecond").unwrap();
    chat.send_line("/quit").unwrap();
    chat.exp_eof().unwrap();
    check_exit(&chat, 0);
}

#[test]
fn ctrl_c_ends_ask_with_130_and_keeps_its_output() {
    let home = tempfile::tempdir().unwrap();
    let question = "What is the capital of France?";
    let mut ask = generating(&[&["ask", question], &ENDLESS[..]].concat(), home.path());
    ask.exp_string("Paris").unwrap();
    ask.send_control('c').unwrap();
    ask.exp_eof().unwrap();
    check_exit(&ask, 130);
}

#[test]
fn ask_without_a_prompt_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let mut ask = generating(&["ask"], home.path());
    ask.exp_string("transom: there is no prompt; write it after `ask`")
        .unwrap();
    ask.exp_eof().unwrap();
    check_exit(&ask, 2);
}

/// Ctrl-C stops the response but not the child process, so the same model is ready again.
#[test]
fn status_shows_every_change_until_ctrl_c() {
    let home = tempfile::tempdir().unwrap();
    let mut chat = generating(&[&["chat"], &ENDLESS[..]].concat(), home.path());
    chat.exp_string("> ").unwrap();
    let mut status = started(&["status", "--watch"], home.path());
    status.exp_string("Starter: ready").unwrap();
    chat.send_line("What is the capital of France?").unwrap();
    status.exp_string("Starter: generating").unwrap();
    chat.exp_string("Paris").unwrap();
    chat.send_control('c').unwrap();
    chat.exp_string("(stopped)").unwrap();
    status.exp_string("Starter: ready, 1 response").unwrap();
    status.send_control('c').unwrap();
    status.exp_eof().unwrap();
    check_exit(&status, 0);
    chat.send_line("/quit").unwrap();
    chat.exp_eof().unwrap();
    check_exit(&chat, 0);
}

/// Starts a command with a hub on a terminal of this width.
fn with_hub(fixture: &TestHub, columns: usize, words: &str) -> PtySession {
    let mut command = fixture.command(&[]);
    let program = command.get_program().to_owned();
    let variables: Vec<_> = command
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.map(std::ffi::OsStr::to_owned)))
        .collect();
    command = Command::new("sh");
    let program = program.to_string_lossy();
    command.args([
        "-c",
        &format!("stty rows 24 cols {columns}; exec '{program}' {words}"),
    ]);
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let options = Options::new().timeout_ms(Some(PATIENCE_MS));
    spawn_with_options(command, options).unwrap()
}

#[test]
fn progress_is_one_line_of_80_columns_and_a_yes_removes_the_model() {
    install_and_remove(80);
}

#[test]
fn progress_is_one_line_of_50_columns_and_a_yes_removes_the_model() {
    install_and_remove(50);
}

fn install_and_remove(columns: usize) {
    let fixture = TestHub::start();
    // The whole takes some seconds, so that progress is drawn on a busy machine too.
    let bytes_per_second = fixture.bytes().len() as u64 / 4;
    fixture
        .hub
        .fail(Route::Blob, Fault::Slow(bytes_per_second), u32::MAX);
    let mut session = with_hub(&fixture, columns, "models install tiny");
    let seen = session.exp_string("is installed, ").unwrap();
    session.exp_eof().unwrap();
    // rexpect returns each byte as a character.
    let bytes: Vec<u8> = seen.chars().map(|byte| byte as u8).collect();
    let seen = String::from_utf8(bytes).unwrap();
    let drawn: Vec<&str> = seen.split("\r\x1b[2K").skip(1).collect();
    let is_progress = |line: &&&str| line.contains('█') && line.contains("of 4.9 MB");
    let n_progress = drawn.iter().filter(is_progress).count();
    assert!(n_progress > 0, "{seen:?}");
    for line in &drawn[..drawn.len() - 1] {
        assert!(
            line.chars().count() < columns && !line.contains('\n'),
            "{line:?}"
        );
    }
    let mut session = with_hub(&fixture, columns, "models remove tiny");
    session.exp_string("Remove tiny (4.9 MB) from ").unwrap();
    session.exp_string("[y/N] ").unwrap();
    session.send_line("y").unwrap();
    session.exp_string("tiny: removed, 4.9 MB freed.").unwrap();
    session.exp_eof().unwrap();
    assert!(!fixture.file().exists());
}

#[test]
fn a_loaded_model_is_not_removed() {
    let fixture = TestHub::start();
    assert_eq!(code(&fixture.run(&["models", "install", "tiny"])), 0);
    let mut chat = with_hub(&fixture, 80, "chat --model tiny");
    chat.exp_string("Type a message").unwrap();
    let removed = fixture.run(&["models", "remove", "tiny", "--yes"]);
    assert_eq!(code(&removed), 1);
    assert!(
        err(&removed).contains("`transom unload tiny`"),
        "{}",
        err(&removed)
    );
    assert!(fixture.file().exists());
    let unloaded = fixture.run(&["unload", "tiny"]);
    assert!(
        out(&unloaded).contains("Tiny · F16: "),
        "{}",
        out(&unloaded)
    );
    let removed = fixture.run(&["models", "remove", "tiny", "--yes"]);
    assert_eq!(code(&removed), 0, "{}", err(&removed));
    chat.send_line("/quit").unwrap();
    chat.exp_eof().unwrap();
}

#[test]
fn a_token_is_not_shown_while_it_is_typed() {
    let fixture = TestHub::start();
    let mut session = with_hub(&fixture, 80, "models token set");
    session.exp_string("(it is not shown): ").unwrap();
    session.send_line("hf_secret").unwrap();
    let seen = session.exp_eof().unwrap();
    assert!(!seen.contains("hf_secret"), "{seen:?}");
    assert!(seen.contains("No keychain was found"), "{seen:?}");
    let mut command = fixture.command(&["models", "token", "status", "--json"]);
    let status = command.env("HF_TOKEN", "hf_secret").output().unwrap();
    let json: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(json["token_from"], "environment");
    assert!(!out(&status).contains("hf_secret"));
}
