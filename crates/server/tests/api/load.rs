//! Many clients at once: some leave, some read slowly, and processes of models crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;
use transom_supervisor::test_support::{Fault, ScriptedWorkers, WorkerScript};

use crate::server::{Answer, TestServer, VECTORS, chat, fast, read_until, within};

const N_CLIENTS: usize = 64;
const N_REQUESTS: usize = 6;

/// What a client does with a request.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Whole,
    Stream,
    Embed,
    Leaves,
    ReadsSlowly,
}

const KINDS: [Kind; 5] = [
    Kind::Whole,
    Kind::Stream,
    Kind::Embed,
    Kind::Leaves,
    Kind::ReadsSlowly,
];

/// Every third process of a model crashes within its fourth response.
fn workers() -> ScriptedWorkers {
    ScriptedWorkers::new(|index| WorkerScript {
        fault: match index % 3 {
            1 => Fault::DiesAfter(4),
            _ => Fault::None,
        },
        ..fast()
    })
}

/// Checks that a response ended exactly once: with all its text, or with an error that says when to
/// try again. Returns true for the first.
fn is_complete(kind: Kind, answer: &Answer) -> bool {
    match (kind, answer.status) {
        (_, 429 | 503) => {
            assert!(
                answer.headers.contains_key("retry-after"),
                "{}",
                answer.body
            );
            return false;
        }
        (_, status) => assert_eq!(status, 200, "{kind:?}: {}", answer.body),
    }
    let data = answer.data();
    let n_done = data.iter().filter(|data| **data == "[DONE]").count();
    match kind {
        Kind::Whole => {
            let message = &answer.json()["choices"][0]["message"];
            assert_eq!(message["content"], "Paris is the capital.");
        }
        Kind::Embed => assert_eq!(answer.json()["data"].as_array().unwrap().len(), 2),
        Kind::Stream | Kind::Leaves | Kind::ReadsSlowly => {
            let events = data.iter().filter(|data| **data != "[DONE]");
            let events: Vec<Value> = events
                .map(|data| serde_json::from_str(data).unwrap())
                .collect();
            let has_end = |event: &&Value| event["choices"][0]["finish_reason"].is_string();
            let n_ends = events.iter().filter(has_end).count();
            let n_errors = events
                .iter()
                .filter(|event| event["error"].is_object())
                .count();
            assert_eq!(
                (n_ends, n_done, n_errors),
                (1 - n_errors, 1 - n_errors, n_errors)
            );
            return n_errors == 0;
        }
    }
    true
}

async fn request(server: &TestServer, kind: Kind) -> bool {
    let stream = chat(json!({ "stream": true })).to_string();
    let path = "/v1/chat/completions";
    match kind {
        Kind::Whole => is_complete(kind, &server.chat(json!({})).await),
        Kind::Stream => is_complete(kind, &server.chat(json!({ "stream": true })).await),
        Kind::Embed => {
            let body = json!({ "model": VECTORS, "input": ["a", "b"] });
            is_complete(kind, &server.post("/v1/embeddings", &body).await)
        }
        Kind::Leaves => {
            let mut connection = server.open("POST", path, &[], &stream).await;
            read_until(&mut connection, "HTTP/1.1").await;
            true
        }
        Kind::ReadsSlowly => {
            let mut connection = server.open("POST", path, &[], &stream).await;
            let mut bytes = Vec::new();
            let mut buffer = [0; 16];
            loop {
                tokio::task::yield_now().await;
                match within(connection.read(&mut buffer)).await.unwrap() {
                    0 => break,
                    n => bytes.extend_from_slice(&buffer[..n]),
                }
            }
            is_complete(kind, &Answer::parse(&String::from_utf8(bytes).unwrap()))
        }
    }
}

#[cfg(target_os = "linux")]
fn n_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_request_of_many_clients_ends_exactly_once() {
    let server = Arc::new(TestServer::start_with(workers(), true).await);
    let n_complete = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for client in 0..N_CLIENTS {
        let (server, n_complete) = (server.clone(), n_complete.clone());
        clients.spawn(async move {
            for round in 0..N_REQUESTS {
                let kind = KINDS[(client + round) % KINDS.len()];
                if request(&server, kind).await {
                    n_complete.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    let mut n_clients = 0;
    while let Some(ended) = within(clients.join_next()).await {
        ended.unwrap();
        n_clients += 1;
    }
    assert_eq!(n_clients, N_CLIENTS);
    assert!(n_complete.load(Ordering::Relaxed) > 0);
    // Those whose client left end too, and then every model answers again.
    let metric = "transom_open_requests 0\n";
    within(async { while !server.get("/metrics").await.body.contains(metric) {} }).await;
    let mut last = server.chat(json!({})).await;
    for _ in 0..2 * N_REQUESTS {
        if last.status == 200 {
            break;
        }
        // The process of the model crashed once more.
        last = server.chat(json!({})).await;
    }
    assert!(is_complete(Kind::Whole, &last), "{}", last.body);
    let server = Arc::into_inner(server).unwrap();
    server.end().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn descriptors_do_not_grow_with_the_number_of_requests() {
    let server = TestServer::start_with(ScriptedWorkers::all(fast()), true).await;
    let rounds = async |n: usize| {
        for index in 0..n {
            request(&server, KINDS[index % KINDS.len()]).await;
        }
        let metric = "transom_open_requests 0\n";
        within(async { while !server.get("/metrics").await.body.contains(metric) {} }).await;
    };
    rounds(10).await;
    let before = n_descriptors();
    rounds(100).await;
    // Tests that run beside this one open some too.
    assert!(
        n_descriptors() < before + 60,
        "{before} {}",
        n_descriptors()
    );
    server.end().await;
}
