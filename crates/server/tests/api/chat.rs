//! Chat completions: whole and streamed, their errors, and their end when the client leaves.

use std::time::Duration;

use serde_json::{Value, json};
use transom_signals::{SystemSignals, ThermalState};
use transom_supervisor::test_support::{Fault, WorkerScript, status_where};

use crate::server::{TestServer, chat, fast, read_until, within};

/// A response that takes minutes if nobody cancels it.
fn slow() -> WorkerScript {
    WorkerScript {
        tokens: vec![" word".to_owned(); 100_000],
        ..fast()
    }
}

/// Waits until no request may start.
pub(crate) async fn until_blocked(server: &TestServer) {
    let is_blocked = |status: &transom_supervisor::Status| status.restrictions.blocked_by.is_some();
    within(status_where(&server.handle, is_blocked)).await;
}

/// Joins a field of the deltas of a choice.
fn joined(chunks: &[Value], choice: usize, field: &str) -> String {
    let deltas = chunks.iter().filter_map(|chunk| chunk["choices"].get(0));
    let deltas = deltas.filter(|delta| delta["index"] == choice);
    deltas
        .filter_map(|delta| delta["delta"][field].as_str())
        .collect()
}

#[tokio::test]
async fn a_stream_has_the_same_text_as_a_whole_response() {
    let server = TestServer::start(fast()).await;
    let whole = server.chat(json!({})).await;
    assert_eq!(whole.status, 200, "{}", whole.body);
    assert_eq!(whole.headers["content-type"], "application/json");
    let whole = whole.json();
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(
        whole["choices"][0]["message"]["content"],
        "Paris is the capital."
    );
    assert_eq!(whole["choices"][0]["message"]["role"], "assistant");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert_eq!(whole["usage"]["prompt_tokens"], 1);
    assert_eq!(whole["usage"]["completion_tokens"], 5);
    assert_eq!(whole["usage"]["total_tokens"], 6);
    assert!(whole["timings"]["queue_ms"].is_number());
    assert!(whole["timings"]["sampling"]["temperature"].is_number());

    let usage = json!({ "include_usage": true });
    let fields = json!({ "stream": true, "stream_options": usage });
    let streamed = server.chat(fields).await;
    assert_eq!(streamed.status, 200, "{}", streamed.body);
    assert!(streamed.headers["content-type"].starts_with("text/event-stream"));
    let mut chunks = streamed.chunks();
    assert_eq!(joined(&chunks, 0, "content"), "Paris is the capital.");
    assert_eq!(joined(&chunks, 0, "role"), "assistant");
    let last = chunks.pop().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"], whole["usage"]);
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["id"], chunks[0]["id"]);
        assert_eq!(chunk["created"], chunks[0]["created"]);
        assert_eq!(chunk["usage"], Value::Null);
    }
    let reasons = chunks
        .iter()
        .filter(|chunk| !chunk["choices"][0]["finish_reason"].is_null());
    assert_eq!(reasons.count(), 1);
    let end = &chunks.last().unwrap()["choices"][0];
    assert_eq!(
        (&end["delta"], &end["finish_reason"]),
        (&json!({}), &json!("stop"))
    );
    server.end().await;
}

#[tokio::test]
async fn choices_come_one_after_another() {
    let server = TestServer::start(fast()).await;
    let whole = server.chat(json!({ "n": 3, "max_tokens": 2 })).await.json();
    let choices = whole["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 3);
    for (index, choice) in choices.iter().enumerate() {
        assert_eq!(choice["index"], index);
        assert_eq!(choice["message"]["content"], "Paris is");
        assert_eq!(choice["finish_reason"], "length");
    }
    assert_eq!(whole["usage"]["completion_tokens"], 6);
    let chunks = server
        .chat(json!({ "n": 2, "stream": true }))
        .await
        .chunks();
    for choice in 0..2 {
        assert_eq!(joined(&chunks, choice, "content"), "Paris is the capital.");
        assert_eq!(joined(&chunks, choice, "role"), "assistant");
    }
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
    server.end().await;
}

#[tokio::test]
async fn a_wrong_request_is_refused_by_name_before_a_model_is_loaded() {
    let server = TestServer::start(fast()).await;
    for (fields, status, param) in [
        (json!({ "temperature": 3 }), 400, json!("temperature")),
        (
            json!({ "messages": [{ "role": "user", "content": 1 }] }),
            400,
            json!("messages[0].content"),
        ),
        (json!({ "model": "none" }), 404, json!("model")),
        (json!({ "model": "/etc/passwd" }), 404, json!("model")),
        (json!({ "model": null }), 400, json!("model")),
        (json!({ "stream": true, "n": 0 }), 400, json!("n")),
    ] {
        let answer = server.chat(fields).await;
        assert_eq!(answer.status, status, "{}", answer.body);
        assert_eq!(answer.json()["error"]["param"], param);
    }
    let path = "/v1/chat/completions";
    for body in ["", "{", "[]", "{\"model\": 1e999}", "{\"a\": 1, \"a\": 2}"] {
        let answer = server.send("POST", path, &[], body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
    }
    assert_eq!(server.workers.n_started(), 0);
    server.end().await;
}

#[tokio::test]
async fn a_field_without_effect_is_named() {
    let server = TestServer::start(fast()).await;
    let answer = server.chat(json!({ "temprature": 0, "user": "me" })).await;
    assert_eq!(answer.headers["x-transom-ignored"], "temprature");
    let answer = server.chat(json!({ "user": "me" })).await;
    assert!(!answer.headers.contains_key("x-transom-ignored"));
    server.end().await;
}

#[tokio::test]
async fn a_conversation_that_does_not_fit_is_never_cut() {
    let server = TestServer::start(WorkerScript {
        context_messages: 1,
        ..fast()
    })
    .await;
    let message = json!({ "role": "user", "content": "Hi" });
    let fields = json!({ "messages": [message, message], "stream": true });
    let answer = server.chat(fields).await;
    assert_eq!(answer.status, 400);
    let error = &answer.json()["error"];
    assert_eq!(error["code"], "context_length_exceeded");
    assert_eq!(
        (&error["n_prompt_tokens"], &error["n_ctx"]),
        (&json!(2), &json!(1))
    );
    server.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_request() {
    let server = TestServer::start(slow()).await;
    for is_streamed in [true, false] {
        let body = chat(json!({ "stream": is_streamed })).to_string();
        let path = "/v1/chat/completions";
        let mut stream = server.open("POST", path, &[], &body).await;
        if is_streamed {
            read_until(&mut stream, " word").await;
        }
        let answering = status_where(&server.handle, transom_supervisor::Status::is_answering);
        within(answering).await;
        drop(stream);
        within(status_where(&server.handle, |status| {
            !status.is_answering()
        }))
        .await;
    }
    server.end().await;
}

#[tokio::test]
async fn a_server_that_ends_cancels_open_requests() {
    let server = TestServer::start(slow()).await;
    let body = chat(json!({ "stream": true })).to_string();
    let mut stream = server
        .open("POST", "/v1/chat/completions", &[], &body)
        .await;
    read_until(&mut stream, " word").await;
    server.end().await;
}

#[tokio::test]
async fn a_blocked_request_says_when_to_retry() {
    let server = TestServer::start(fast()).await;
    server.signals.set(SystemSignals {
        thermal: ThermalState::Critical,
        ..SystemSignals::default()
    });
    until_blocked(&server).await;
    for stream in [false, true] {
        let answer = server.chat(json!({ "stream": stream })).await;
        assert_eq!(answer.status, 503, "{}", answer.body);
        let seconds: u64 = answer.headers["retry-after"].parse().unwrap();
        assert!((1..=60).contains(&seconds));
        assert_eq!(answer.json()["error"]["code"], "overloaded");
    }
    server.end().await;
}

#[tokio::test]
async fn too_many_requests_are_refused_at_once() {
    let server = TestServer::start(slow()).await;
    let body = chat(json!({})).to_string();
    let mut open = Vec::new();
    for _ in 0..9 {
        open.push(
            server
                .open("POST", "/v1/chat/completions", &[], &body)
                .await,
        );
    }
    let n_waiting = |status: &transom_supervisor::Status| status.queue.len() == 8;
    within(status_where(&server.handle, n_waiting)).await;
    let answer = server.chat(json!({})).await;
    assert_eq!(answer.status, 503);
    assert!(answer.headers.contains_key("retry-after"));
    drop(open);
    within(status_where(&server.handle, |status| {
        status.queue.is_empty() && !status.is_answering()
    }))
    .await;
    server.end().await;
}

#[tokio::test]
async fn an_error_within_a_stream_ends_it_without_done() {
    let server = TestServer::start(WorkerScript {
        token_interval: Duration::from_millis(5),
        fault: Fault::DiesAfter(2),
        ..fast()
    })
    .await;
    let answer = server.chat(json!({ "stream": true })).await;
    assert_eq!(answer.status, 200);
    let data = answer.data();
    assert!(
        data.iter().any(|chunk| chunk.contains("Paris")),
        "{}",
        answer.body
    );
    let last: Value = serde_json::from_str(data.last().unwrap()).unwrap();
    assert_eq!(last["error"]["type"], "overloaded_error");
    assert!(!answer.body.contains("[DONE]"));
    server.end().await;
}
