//! Several programs with one data folder: the first owns the models, the others send it requests.
//!
//! Rule: each step waits for output or for the end of a program, never for a time.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

#[path = "fixtures/program.rs"]
mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use program::{ENDLESS, run_on, text, transom};
use serde_json::Value;
use transom_supervisor::test_support::n_saved_files;

/// A piped chat that runs until its input ends.
struct Chat {
    child: Child,
    input: ChildStdin,
    answers: BufReader<ChildStdout>,
    notes: BufReader<ChildStderr>,
}

impl Chat {
    fn open(data: &Path, arguments: &[&str]) -> Self {
        let arguments = [&["chat"], arguments].concat();
        let mut command = transom(&arguments, data);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            notes: BufReader::new(child.stderr.take().unwrap()),
            child,
        }
    }

    fn send(&mut self, message: &str) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line
    }

    /// Reads notes until one contains `expect`.
    fn note(&mut self, expect: &str) -> String {
        let mut all = String::new();
        while !all.contains(expect) {
            let n_read = self.notes.read_line(&mut all).unwrap();
            assert!(n_read > 0, "{expect} is not in:\n{all}");
        }
        all
    }

    fn leave(self) -> ExitStatus {
        drop(self.input);
        let mut child = self.child;
        child.wait().unwrap()
    }
}

fn status(data: &Path) -> Value {
    let output = run_on(data, &["status", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Process ids of the children of `parent`.
fn children(parent: u32) -> Vec<u32> {
    let is_child = |id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // After the name in brackets: state, parent.
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned());
        let field = fields.and_then(|rest| rest.split_whitespace().nth(1).map(str::to_owned));
        field == Some(parent.to_string())
    };
    let entries = std::fs::read_dir("/proc").unwrap();
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(is_child).collect()
}

fn kill(process_id: u32) {
    let id = process_id.to_string();
    let status = Command::new("kill").args(["-9", &id]).status().unwrap();
    assert!(status.success());
}

const STARTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/starter");

const CAPITAL: [&str; 4] = [
    "ask",
    "What is the capital of France?",
    "--temperature",
    "0",
];

#[test]
fn a_second_program_uses_the_model_of_the_first() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let mut chat = Chat::open(data, &["--temperature", "0"]);
    chat.send("Hello");
    assert!(!chat.answer().is_empty());

    let output = run_on(data, &CAPITAL);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("Paris"));
    let seen = status(data);
    assert_eq!(seen["is_running"], true);
    assert_eq!(seen["process_id"], chat.child.id());
    assert_eq!(seen["models"][0]["name"], "Starter");
    assert_eq!(seen["models"][0]["n_answered"], 2);

    assert!(text(&run_on(data, &["pause"]).stdout).starts_with("Paused"));
    assert_eq!(status(data)["is_paused"], true);
    assert!(text(&run_on(data, &["resume"]).stdout).starts_with("Resumed"));
    assert_eq!(status(data)["is_paused"], false);
    let output = run_on(data, &CAPITAL);
    assert!(text(&output.stdout).contains("Paris"), "it answers again");

    let unloaded = run_on(data, &["unload"]);
    let told = text(&unloaded.stdout);
    assert!(told.starts_with("Starter: "), "{told}");
    assert!(children(chat.child.id()).is_empty(), "its process is gone");
    assert_eq!(status(data)["models"].as_array().unwrap().len(), 0);
    assert_eq!(status(data)["last_unload"]["name"], "Starter");

    let output = run_on(data, &CAPITAL);
    assert!(text(&output.stdout).contains("Paris"), "it is loaded again");
    assert_eq!(status(data)["models"][0]["n_answered"], 1);
    chat.send("Hello again");
    assert!(!chat.answer().is_empty());
    assert_eq!(chat.leave().code(), Some(0));
    assert_eq!(status(data)["is_running"], false);
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_child_process_fails_one_response_and_the_chat_continues() {
    let data = tempfile::tempdir().unwrap();
    let arguments = [&ENDLESS[..], &["--max-tokens", "300"]].concat();
    let mut chat = Chat::open(data.path(), &arguments);
    chat.send("Tell me a story");
    let mut first = [0; 1];
    chat.answers.read_exact(&mut first).unwrap();
    let engines = children(chat.child.id());
    assert_eq!(engines.len(), 1, "{engines:?}");
    kill(engines[0]);
    let notes = chat.note("SIGKILL");
    assert!(
        notes.contains("transom: the model's process ended"),
        "{notes}"
    );
    chat.send("Tell me a story");
    chat.note("--max-tokens is reached");
    assert_eq!(chat.leave().code(), Some(1), "one message got no response");
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_child_process_fails_ask() {
    let data = tempfile::tempdir().unwrap();
    let arguments = [&["ask", "Tell me a story"], &ENDLESS[..]].concat();
    let mut ask = transom(&arguments, data.path()).spawn().unwrap();
    let mut out = ask.stdout.take().unwrap();
    let mut first = [0; 1];
    out.read_exact(&mut first).unwrap();
    kill(children(ask.id())[0]);
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"\n"), "the written text stays");
    let output = ask.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let err = text(&output.stderr);
    assert!(
        err.starts_with("transom: ") && err.contains("SIGKILL"),
        "{err}"
    );
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn when_the_owner_dies_the_next_program_replaces_it() {
    let data = tempfile::tempdir().unwrap();
    let mut owner = Chat::open(data.path(), &["--temperature", "0"]);
    owner.send("Hello");
    owner.answer();
    let mut client = Chat::open(data.path(), &["--temperature", "0"]);
    client.send("Hello");
    client.answer();
    assert_eq!(status(data.path())["process_id"], owner.child.id());

    kill(owner.child.id());
    owner.child.wait().unwrap();
    client.send("Are you there?");
    assert!(!client.answer().is_empty(), "the client owns the model now");
    assert_eq!(status(data.path())["process_id"], client.child.id());
    let output = run_on(data.path(), &CAPITAL);
    assert!(text(&output.stdout).contains("Paris"));
    assert_eq!(client.leave().code(), Some(0));
}

#[test]
fn an_owner_that_quits_finishes_the_responses_of_others_first() {
    let data = tempfile::tempdir().unwrap();
    let mut owner = Chat::open(data.path(), &["--temperature", "0"]);
    owner.send("Hello");
    owner.answer();
    let arguments = [&["ask", "Tell me a story"], &ENDLESS[..]].concat();
    let mut ask = transom(&arguments, data.path()).spawn().unwrap();
    let mut out = ask.stdout.take().unwrap();
    let mut first = [0; 1];
    out.read_exact(&mut first).unwrap();
    owner.send("/quit");
    owner.note("Finishing a response for another program; Ctrl-C ends it.");
    // Without a reader the response is canceled, so the owner has nothing to wait for.
    drop(out);
    assert_eq!(ask.wait().unwrap().code(), Some(0));
    assert_eq!(owner.leave().code(), Some(0));
}

#[test]
fn without_an_instance_no_command_starts_one_to_read_its_status() {
    let data = tempfile::tempdir().unwrap();
    for command in ["status", "unload", "pause", "resume"] {
        let output = run_on(data.path(), &[command]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).starts_with("Nothing is running"));
        assert_eq!(text(&output.stderr), "");
    }
}

/// The app writes the file. A change while an instance runs counts from the next one on.
#[test]
fn the_command_line_obeys_the_settings_and_doctor_shows_those_in_force() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let set_budget = |bytes: u64| {
        let settings = serde_json::json!({ "memory_budget_bytes": bytes });
        std::fs::write(data.join("supervisor.json"), settings.to_string()).unwrap();
    };
    let doctor = || -> Value {
        let output = run_on(data, &["doctor", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let model = ["--model", STARTER];
    set_budget(2_000_000_000);
    let mut chat = Chat::open(data, &model);
    chat.send("Hello");
    assert!(!chat.answer().is_empty());
    set_budget(1);
    let shown = doctor();
    assert_eq!(shown["is_in_force"], true);
    let budget_bytes = shown["budget_bytes"].as_u64().unwrap();
    assert!((2..=2_000_000_000).contains(&budget_bytes), "{shown}");
    assert_eq!(shown["settings"]["chosen"]["memory_budget_bytes"], 1);
    assert_eq!(chat.leave().code(), Some(0));

    let shown = doctor();
    assert_eq!(shown["is_in_force"], false);
    assert!(shown["budget_bytes"].as_u64().unwrap() <= 1, "{shown}");
    let output = run_on(data, &[&CAPITAL[..], &model].concat());
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("models may use 0 MB here"), "{err}");
}

/// A service manager sends SIGTERM, a closed terminal SIGHUP: the saved KV cache of a conversation is
/// deleted.
#[test]
fn sigterm_and_sighup_shut_down_in_order() {
    use rustix::process::{Pid, Signal, kill_process};
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        let mut chat = Chat::open(data, &["--temperature", "0"]);
        chat.send("Hello");
        assert!(!chat.answer().is_empty());
        let paused = run_on(data, &["pause"]);
        assert_eq!(paused.status.code(), Some(0), "{}", text(&paused.stderr));
        let saved = data.join("cache/saved-states");
        while !status(data)["models"].as_array().unwrap().is_empty() {}
        assert!(n_saved_files(&saved) > 0);
        kill_process(Pid::from_child(&chat.child), signal).unwrap();
        assert_eq!(chat.child.wait().unwrap().code(), Some(code));
        assert_eq!(n_saved_files(&saved), 0);
    }
}

/// The signal comes while its model loads or responds.
#[test]
fn a_benchmark_of_conversations_that_sigterm_ends_leaves_no_files() {
    use rustix::process::{Pid, Signal, kill_process};
    let (data, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = transom(&["bench", "--conversations"], data.path());
    command.env("TMPDIR", temporary.path());
    let mut bench = command.spawn().unwrap();
    let folders = || {
        let entries = std::fs::read_dir(temporary.path()).unwrap();
        entries.map(|entry| entry.unwrap().path())
    };
    let has_model = |folder: &Path| {
        let models = status(folder)["models"].clone();
        models.as_array().is_some_and(|models| !models.is_empty())
    };
    while !folders().any(|folder| folder.is_dir() && has_model(&folder)) {
        assert_eq!(bench.try_wait().unwrap(), None, "it ended by itself");
    }
    kill_process(Pid::from_child(&bench), Signal::TERM).unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(143));
    assert_eq!(
        folders().collect::<Vec<_>>(),
        Vec::<std::path::PathBuf>::new()
    );
}
