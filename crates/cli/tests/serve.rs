//! `transom serve` with the starter model: one request over HTTP, its key, and Ctrl-C.
//!
//! Rule: each step waits for output or for the end of a program, never for a time.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

#[path = "fixtures/program.rs"]
#[expect(dead_code, reason = "no response here is endless")]
mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use program::{run_on, text, transom};
use rustix::process::{Pid, Signal, kill_process};

/// Sends a chat request, and returns the whole HTTP response.
fn ask(port: &str, key: &str) -> String {
    let body = r#"{"model": "starter", "temperature": 0,
        "messages": [{"role": "user", "content": "What is the capital of France?"}]}"#;
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\
         Authorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn the_server_answers_with_its_key_and_ends_with_ctrl_c() {
    let data = tempfile::tempdir().unwrap();
    let mut command = transom(&["serve", "--port", "0"], data.path());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let key = lines.next().unwrap().unwrap();
    let key = key.rsplit(' ').next().unwrap();
    assert!(key.starts_with("sk-transom-"), "{key}");
    let address = lines.next().unwrap().unwrap();
    let (_, port) = address.split_once("http://localhost:").unwrap();
    let port = port.split(' ').next().unwrap();

    assert!(ask(port, "wrong").starts_with("HTTP/1.1 401"));
    let response = ask(port, key);
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(response.contains("Paris"), "{response}");
    let taken = run_on(data.path(), &["serve", "--port", port]);
    assert_eq!(taken.status.code(), Some(2));
    assert!(text(&taken.stderr).contains("Transom serves at"));

    let listed = run_on(data.path(), &["serve", "keys", "list"]);
    assert_eq!(text(&listed.stdout), "default\n");
    let revoked = run_on(data.path(), &["serve", "keys", "revoke", "default"]);
    assert_eq!(revoked.status.code(), Some(0));
    assert!(ask(port, key).starts_with("HTTP/1.1 401"));

    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
