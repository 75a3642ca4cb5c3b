//! `transom serve` under load: 64 clients with two models at once. Some leave, some read slowly, and
//! the processes of the models are killed. Each request ends exactly once, the clients take turns, and
//! at the end neither descriptors nor memory of the server have grown.
//!
//! `TRANSOM_LOAD_SECONDS=600 cargo test --release -p transom-cli --test load -- --nocapture` runs for
//! ten minutes, sends 10,000 more requests, and also limits how long a client waits.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[path = "fixtures/http.rs"]
mod http;
#[path = "fixtures/program.rs"]
#[expect(dead_code, reason = "no response here needs its options")]
mod program;

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use http::{Answer, Client};
use program::{run_on, text, transom};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use transom_signals::footprint_bytes;

const N_CLIENTS: usize = 64;

/// Each has several clients, and takes turns with the others.
const N_KEYS: usize = 4;

/// The model that generates text.
const CHAT: &str = "starter";

/// The name of the embedding model after it was added.
const EMBEDDER: &str = "qwen3-last";

/// Requests of each client in a short run.
const ROUNDS: usize = 1;

/// After this number of complete requests, a process of a model is killed.
const KILL_INTERVAL: usize = 10;

/// What may remain of requests that have ended, in bytes: arenas of the allocator.
const MEMORY_SLACK: u64 = 16 << 20;

/// The time of the load, and whether times are limits, too.
fn time() -> Option<Duration> {
    let seconds = std::env::var("TRANSOM_LOAD_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("a number")))
}

/// What a client does with a request.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Whole,
    Stream,
    Embed,
    Leaves,
    ReadsSlowly,
    Tokenize,
    Wrong,
}

const KINDS: [Kind; 7] = [
    Kind::Whole,
    Kind::Stream,
    Kind::Embed,
    Kind::Leaves,
    Kind::ReadsSlowly,
    Kind::Tokenize,
    Kind::Wrong,
];

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Complete,
    /// Refused, or ended with an error that says when to try again.
    Refused,
    Left,
}

struct TestServer {
    process: Child,
    port: u16,
    keys: Vec<String>,
    data: tempfile::TempDir,
    /// Open, so that the server can write to it.
    _output: Lines<BufReader<ChildStdout>>,
}

impl TestServer {
    fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let embedder = root.join("../engine-llama/tests/fixtures/embeddings/qwen3-last.gguf");
        let added = run_on(
            data.path(),
            &["models", "install", embedder.to_str().unwrap()],
        );
        assert!(added.status.success(), "{}", text(&added.stderr));
        let keys = (0..N_KEYS).map(|number| {
            let name = format!("client-{number}");
            let added = run_on(data.path(), &["serve", "keys", "add", &name]);
            text(&added.stdout).trim().to_owned()
        });
        let keys: Vec<String> = keys.collect();
        let mut process = transom(&["serve", "--port", "0"], data.path())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("http://localhost:")?;
            rest.split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse()
                .ok()
        });
        Self {
            process,
            port: port.expect("it names its address"),
            keys,
            data,
            _output: lines,
        }
    }

    fn client(&self, number: usize) -> Client {
        Client {
            port: self.port,
            key: self.keys[number % N_KEYS].clone(),
        }
    }

    /// Waits until no request is open, and returns its descriptors and the bytes of its memory.
    fn settled(&self) -> (usize, u64) {
        let client = self.client(0);
        let idle = "transom_open_requests 0\n";
        while !client.get("/metrics").body.contains(idle) {}
        // The connection of the last request is being closed.
        let id = self.process.id();
        let descriptors = fs::read_dir(format!("/proc/{id}/fd")).unwrap().count();
        (descriptors, footprint_bytes(id).unwrap())
    }

    /// Kills the process of one model, if there is one.
    fn kill_a_model(&self) {
        if let Some(child) = children(self.process.id()).first() {
            // It may have ended by itself.
            let _ = kill_process(*child, Signal::KILL);
        }
    }

    fn end(mut self) {
        let children = children(self.process.id());
        kill_process(Pid::from_child(&self.process), Signal::INT).unwrap();
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
        for child in children {
            let process = PathBuf::from(format!("/proc/{}", child.as_raw_pid()));
            assert!(
                !process.exists(),
                "the process of a model outlives the server"
            );
        }
        drop(self.data);
    }
}

fn children(process: u32) -> Vec<Pid> {
    let mut children = Vec::new();
    for task in fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        // The thread may have ended.
        let text = fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
        let ids = text.split_whitespace().map(|id| id.parse().unwrap());
        children.extend(ids.filter_map(Pid::from_raw));
    }
    children
}

fn chat(fields: &[(&str, Value)]) -> Value {
    let mut body = json!({
        "model": CHAT, "max_tokens": 4, "temperature": 0,
        "messages": [{ "role": "user", "content": "What is the capital of France?" }],
    });
    for (name, value) in fields {
        body[*name] = value.clone();
    }
    body
}

/// Sends a request, and checks that it ends exactly once.
fn request(client: &Client, kind: Kind) -> End {
    let path = "/v1/chat/completions";
    let streamed = chat(&[("stream", true.into())]);
    match kind {
        Kind::Whole => end_of(kind, &client.post(path, &chat(&[]))),
        Kind::Stream => end_of(kind, &client.post(path, &streamed)),
        Kind::Embed => {
            let body = json!({ "model": EMBEDDER, "input": ["a cat", "a dog"] });
            end_of(kind, &client.post("/v1/embeddings", &body))
        }
        Kind::Leaves => {
            let long = chat(&[("stream", true.into()), ("max_tokens", 200.into())]);
            client.post_and_leave(path, &long);
            End::Left
        }
        Kind::ReadsSlowly => end_of(kind, &client.post_and_read_slowly(path, &streamed)),
        Kind::Tokenize => {
            let body = json!({ "model": CHAT, "content": "The capital of France" });
            end_of(kind, &client.post("/tokenize", &body))
        }
        Kind::Wrong => end_of(kind, &client.post(path, &chat(&[("n", 0.into())]))),
    }
}

fn end_of(kind: Kind, answer: &Answer) -> End {
    let body = &answer.body;
    match (kind, answer.status) {
        (Kind::Wrong, status) => {
            assert_eq!(status, 400, "{body}");
            return End::Complete;
        }
        (_, 429 | 503) => {
            assert!(answer.head.contains("retry-after: "), "{}", answer.head);
            return End::Refused;
        }
        (_, status) => assert_eq!(status, 200, "{kind:?}: {body}"),
    }
    match kind {
        Kind::Stream | Kind::ReadsSlowly => {
            let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
            let (done, data): (Vec<&str>, Vec<&str>) = data.partition(|data| *data == "[DONE]");
            let events = data.iter().map(|data| serde_json::from_str(data).unwrap());
            let events: Vec<Value> = events.collect();
            let has_end = |event: &&Value| event["choices"][0]["finish_reason"].is_string();
            let n_ends = events.iter().filter(has_end).count();
            let n_errors = events
                .iter()
                .filter(|event| event["error"].is_object())
                .count();
            // A stream with an error, after its process was killed, has no other end.
            assert!(n_errors <= 1, "{body}");
            assert_eq!((n_ends, done.len()), (1 - n_errors, 1 - n_errors), "{body}");
            match n_errors {
                0 => End::Complete,
                _ => End::Refused,
            }
        }
        Kind::Whole => {
            let choice = &answer.json()["choices"][0];
            assert_eq!(choice["finish_reason"], "length", "{body}");
            End::Complete
        }
        Kind::Embed => {
            assert_eq!(answer.json()["data"].as_array().unwrap().len(), 2, "{body}");
            End::Complete
        }
        Kind::Tokenize => {
            assert!(answer.json()["tokens"][0].is_u64(), "{body}");
            End::Complete
        }
        Kind::Leaves | Kind::Wrong => End::Complete,
    }
}

/// Runs all clients for a number of rounds, or for a time. Returns how many requests were complete,
/// and how many were sent.
fn load(server: &TestServer, time: Option<Duration>) -> (usize, usize) {
    let began = Instant::now();
    let (n_complete, n_sent) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // A refused client waits until another request has ended.
    let (ended, changed) = (Mutex::new(0_usize), Condvar::new());
    thread::scope(|scope| {
        for number in 0..N_CLIENTS {
            let (n_complete, n_sent, ended, changed) = (&n_complete, &n_sent, &ended, &changed);
            scope.spawn(move || {
                let client = server.client(number);
                for round in 0.. {
                    let is_over = match time {
                        Some(time) => began.elapsed() >= time,
                        None => round == ROUNDS,
                    };
                    if is_over {
                        break;
                    }
                    n_sent.fetch_add(1, Ordering::Relaxed);
                    match request(&client, KINDS[(number + round) % KINDS.len()]) {
                        End::Complete => {
                            let n = n_complete.fetch_add(1, Ordering::Relaxed) + 1;
                            if n.is_multiple_of(KILL_INTERVAL) {
                                server.kill_a_model();
                            }
                        }
                        End::Left => {}
                        End::Refused => {
                            let before = ended.lock().unwrap();
                            let same = *before;
                            let short = Duration::from_millis(200);
                            let waited =
                                changed.wait_timeout_while(before, short, |now| *now == same);
                            drop(waited.unwrap());
                        }
                    }
                    *ended.lock().unwrap() += 1;
                    changed.notify_all();
                }
            });
        }
    });
    (n_complete.into_inner(), n_sent.into_inner())
}

/// Lets each key send equal requests, one after the other. Returns the mean wait of each.
fn waits(server: &TestServer, n_requests: usize) -> Vec<Duration> {
    let start = Barrier::new(N_KEYS);
    thread::scope(|scope| {
        let clients = (0..N_KEYS).map(|number| {
            let start = &start;
            scope.spawn(move || {
                let client = server.client(number);
                start.wait();
                let began = Instant::now();
                for _ in 0..n_requests {
                    assert_eq!(request(&client, Kind::Whole), End::Complete);
                }
                began.elapsed() / u32::try_from(n_requests).unwrap()
            })
        });
        let clients: Vec<_> = clients.collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    })
}

#[test]
fn many_clients_are_served_in_turn_and_leave_nothing_behind() {
    let time = time();
    let server = TestServer::start();
    // Each kind of request once, so that memory that is needed once does not count.
    for kind in KINDS.into_iter().chain(KINDS) {
        request(&server.client(0), kind);
    }
    if time.is_some() {
        load(&server, None);
    }
    let before = server.settled();
    let (n_complete, n_sent) = load(&server, time);
    assert!(n_complete > 0);
    // Every model answers again.
    for kind in [Kind::Whole, Kind::Embed] {
        let ends = (0..3).map(|_| request(&server.client(0), kind));
        assert!(ends.into_iter().any(|end| end == End::Complete), "{kind:?}");
    }
    let after = server.settled();
    println!(
        "{n_complete} of {n_sent} requests complete; (descriptors, bytes) {before:?} -> {after:?}"
    );
    assert_flat(before, after);
    if time.is_some() {
        for index in 0..10_000 {
            request(&server.client(index), KINDS[index % KINDS.len()]);
        }
        let last = server.settled();
        println!("10,000 more requests: {after:?} -> {last:?}");
        assert_flat(after, last);
        let waits = waits(&server, 50);
        println!("mean waits: {waits:?}");
        let mean = waits.iter().sum::<Duration>() / N_KEYS as u32;
        assert!(waits.iter().all(|wait| *wait <= mean * 2), "{waits:?}");
    }
    server.end();
}

fn assert_flat(before: (usize, u64), after: (usize, u64)) {
    // A connection may still be closed, and a model that was killed is loaded again.
    assert!(
        after.0 <= before.0 + 4,
        "descriptors: {before:?} -> {after:?}"
    );
    assert!(
        after.1 <= before.1 + MEMORY_SLACK,
        "memory: {before:?} -> {after:?}"
    );
}
