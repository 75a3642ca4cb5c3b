//! The real program on a pseudo-terminal: what a person sees and types.
//!
//! Rule: each step waits for text on the screen, never for a time.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

use std::path::Path;
use std::process::Command;

use rexpect::process::WaitStatus;
use rexpect::session::{Options, PtySession, spawn_with_options};

/// Long enough for the slowest machine that builds this; a test that passes never waits for it.
const PATIENCE_MS: u64 = 60_000;

/// Both end tokens of the starter are ruled out, so its answer goes on until the context is full.
const ENDLESS: [&str; 4] = ["--logit-bias", "0=-1000", "--logit-bias", "2=-1000"];

/// A command that answers.
fn on_terminal(arguments: &[&str], home: &Path) -> PtySession {
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
fn ctrl_c_stops_the_answer_and_the_chat_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let mut chat = on_terminal(&[&["chat"], &ENDLESS[..]].concat(), home.path());
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
    assert!(text.contains("Paris"), "the partial answer is kept: {text}");

    chat.exp_string("> ").unwrap();
    chat.send_control('c').unwrap();
    chat.exp_string("To leave, type /quit").unwrap();
    chat.exp_string("> ").unwrap();
    chat.send_line("/quit").unwrap();
    chat.exp_eof().unwrap();
    check_exit(&chat, 0);
}

#[test]
fn ctrl_d_ends_the_chat_and_the_history_is_kept_for_the_next() {
    let home = tempfile::tempdir().unwrap();
    for is_first in [true, false] {
        let mut chat = on_terminal(&["chat"], home.path());
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
fn a_backslash_goes_on_with_the_message_on_the_next_line() {
    let home = tempfile::tempdir().unwrap();
    let mut chat = on_terminal(&["chat"], home.path());
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
fn ctrl_c_ends_an_ask_with_130_and_keeps_what_was_written() {
    let home = tempfile::tempdir().unwrap();
    let question = "What is the capital of France?";
    let mut ask = on_terminal(&[&["ask", question], &ENDLESS[..]].concat(), home.path());
    ask.exp_string("Paris").unwrap();
    ask.send_control('c').unwrap();
    ask.exp_eof().unwrap();
    check_exit(&ask, 130);
}

#[test]
fn an_ask_with_nothing_to_ask_says_how() {
    let home = tempfile::tempdir().unwrap();
    let mut ask = on_terminal(&["ask"], home.path());
    ask.exp_string("transom: there is no prompt; write it after `ask`")
        .unwrap();
    ask.exp_eof().unwrap();
    check_exit(&ask, 2);
}

/// The model's process must outlive the Ctrl-C that stops its answer, so the same model is ready
/// again.
#[test]
fn status_follows_every_change_until_ctrl_c() {
    let home = tempfile::tempdir().unwrap();
    let mut chat = on_terminal(&[&["chat"], &ENDLESS[..]].concat(), home.path());
    chat.exp_string("> ").unwrap();
    let mut status = started(&["status", "--watch"], home.path());
    status.exp_string("Starter: ready").unwrap();
    chat.send_line("What is the capital of France?").unwrap();
    status.exp_string("Starter: answering").unwrap();
    chat.exp_string("Paris").unwrap();
    chat.send_control('c').unwrap();
    chat.exp_string("(stopped)").unwrap();
    status.exp_string("Starter: ready, 1 answer given").unwrap();
    status.send_control('c').unwrap();
    status.exp_eof().unwrap();
    check_exit(&status, 0);
    chat.send_line("/quit").unwrap();
    chat.exp_eof().unwrap();
    check_exit(&chat, 0);
}
