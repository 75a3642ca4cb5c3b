//! Messages and token counts in Anthropic's form.

use std::time::Duration;

use serde_json::{Value, json};
use transom_signals::{SystemSignals, ThermalState};
use transom_supervisor::test_support::{Fault, WorkerScript};

use crate::chat::until_blocked;
use crate::server::{Answer, MODEL, TestServer, fast};

const PATH: &str = "/v1/messages";

/// Returns a request for a message with these fields.
fn message(fields: Value) -> Value {
    let mut body = json!({
        "model": MODEL,
        "max_tokens": 100,
        "messages": [{ "role": "user", "content": "The capital of France?" }],
    });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// Returns the data of the events, each of which has the name of its type.
fn events(answer: &Answer) -> Vec<Value> {
    let names = answer
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("event: "));
    let data = answer.data();
    let events: Vec<Value> = data
        .iter()
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let types: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(names.collect::<Vec<_>>(), types);
    events
}

#[tokio::test]
async fn a_streamed_message_is_the_whole_one() {
    let server = TestServer::start(fast()).await;
    let whole = server.post(PATH, &message(json!({}))).await;
    assert_eq!(whole.status, 200, "{}", whole.body);
    let whole = whole.json();
    assert!(whole["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(
        (&whole["type"], &whole["role"]),
        (&json!("message"), &json!("assistant"))
    );
    let text = json!([{ "type": "text", "text": "Paris is the capital." }]);
    assert_eq!(whole["content"], text);
    assert_eq!(whole["stop_reason"], "end_turn");
    assert_eq!(whole["stop_sequence"], Value::Null);
    assert_eq!(whole["usage"]["input_tokens"], 1);
    assert_eq!(whole["usage"]["cache_read_input_tokens"], 0);
    assert_eq!(whole["usage"]["output_tokens"], 5);

    let streamed = server.post(PATH, &message(json!({ "stream": true }))).await;
    assert_eq!(streamed.status, 200, "{}", streamed.body);
    assert!(streamed.headers["content-type"].starts_with("text/event-stream"));
    let events = events(&streamed);
    assert_eq!(events[0]["type"], "message_start");
    let start = &events[0]["message"];
    assert_eq!(start["model"], whole["model"]);
    assert_eq!(start["content"], json!([]));
    assert_eq!(start["usage"]["input_tokens"], 1);
    let deltas = events
        .iter()
        .filter_map(|event| event["delta"]["text"].as_str());
    assert_eq!(deltas.collect::<String>(), "Paris is the capital.");
    let [.., delta, stop] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(delta["type"], "message_delta");
    assert_eq!(delta["delta"]["stop_reason"], "end_turn");
    assert_eq!(delta["usage"], whole["usage"]);
    assert_eq!(stop, &json!({ "type": "message_stop" }));
    server.end().await;
}

#[tokio::test]
async fn a_message_ends_at_its_limit() {
    let server = TestServer::start(fast()).await;
    let whole = server
        .post(PATH, &message(json!({ "max_tokens": 2 })))
        .await
        .json();
    assert_eq!(whole["content"][0]["text"], "Paris is");
    assert_eq!(whole["stop_reason"], "max_tokens");
    // Agents ask for more than any local context holds.
    let fields = json!({ "max_tokens": 32_000 });
    let whole = server.post(PATH, &message(fields)).await.json();
    assert_eq!(whole["stop_reason"], "end_turn");
    server.end().await;
}

#[tokio::test]
async fn wrong_requests_have_errors_in_the_form_of_the_protocol() {
    let server = TestServer::start(fast()).await;
    for (fields, status, kind, words) in [
        (
            json!({ "max_tokens": null }),
            400,
            "invalid_request_error",
            "`max_tokens`",
        ),
        (
            json!({ "temperature": 2 }),
            400,
            "invalid_request_error",
            "`temperature`",
        ),
        (json!({ "model": "none" }), 404, "not_found_error", "none"),
        (
            json!({ "messages": [{ "role": "user", "content": [{ "type": "image" }] }] }),
            400,
            "invalid_request_error",
            "`messages[0].content[0]`",
        ),
    ] {
        for path in [PATH, "/v1/messages/count_tokens"] {
            let only_for_messages = words == "`max_tokens`" || words == "`temperature`";
            if path != PATH && only_for_messages {
                continue;
            }
            let answer = server.post(path, &message(fields.clone())).await;
            assert_eq!(answer.status, status, "{}", answer.body);
            let body = answer.json();
            assert_eq!(body["type"], "error");
            assert_eq!(body["error"]["type"], kind);
            assert_eq!(body["request_id"], answer.headers["request-id"]);
            let text = body["error"]["message"].as_str().unwrap();
            assert!(text.contains(words), "{text}");
        }
    }
    assert_eq!(server.workers.n_started(), 0);
    server.end().await;
}

#[tokio::test]
async fn the_version_may_be_missing_or_newer_but_not_wrong() {
    let server = TestServer::start(fast()).await;
    let body = message(json!({ "max_tokens": 1 })).to_string();
    for (version, status, ignored) in [
        ("", 200, None),
        ("2023-06-01", 200, None),
        ("2026-10-21", 200, None),
        ("2999-12-31", 200, Some("anthropic-version")),
        ("1999-01-01", 400, None),
        ("2025-01-01", 400, None),
        ("2999-12-3x", 400, None),
        ("latest", 400, None),
    ] {
        let headers = [
            ("anthropic-version", version),
            ("anthropic-beta", "any-2026-01-01"),
        ];
        let answer = server.send("POST", PATH, &headers, &body).await;
        assert_eq!(answer.status, status, "{version}: {}", answer.body);
        let found = answer.headers.get("x-transom-ignored");
        assert_eq!(found.map(String::as_str), ignored, "{version}");
    }
    server.end().await;
}

#[tokio::test]
async fn an_overloaded_server_has_the_status_that_clients_retry() {
    let server = TestServer::start(fast()).await;
    server.signals.set(SystemSignals {
        thermal: ThermalState::Critical,
        ..SystemSignals::default()
    });
    until_blocked(&server).await;
    for stream in [false, true] {
        let answer = server
            .post(PATH, &message(json!({ "stream": stream })))
            .await;
        assert_eq!(answer.status, 529, "{}", answer.body);
        assert!(answer.headers.contains_key("retry-after"));
        assert_eq!(answer.json()["error"]["type"], "overloaded_error");
    }
    server.end().await;
}

#[tokio::test]
async fn an_error_within_a_stream_is_its_last_event() {
    let server = TestServer::start(WorkerScript {
        token_interval: Duration::from_millis(5),
        fault: Fault::DiesAfter(2),
        ..fast()
    })
    .await;
    let answer = server.post(PATH, &message(json!({ "stream": true }))).await;
    assert_eq!(answer.status, 200);
    let events = events(&answer);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "error");
    assert_eq!(last["error"]["type"], "overloaded_error");
    assert_eq!(last["request_id"], answer.headers["request-id"]);
    assert!(events.iter().all(|event| event["type"] != "message_stop"));
    server.end().await;
}

#[tokio::test]
async fn tokens_are_counted_without_a_response() {
    let server = TestServer::start(fast()).await;
    let body = json!({
        "model": MODEL,
        "system": "Be brief.",
        "messages": [{ "role": "user", "content": "Hello" }],
    });
    let answer = server.post("/v1/messages/count_tokens", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    // The scripted worker has one token for each byte of a message.
    assert_eq!(answer.json(), json!({ "input_tokens": 14 }));
    server.end().await;
}

#[tokio::test]
async fn what_has_no_effect_is_named() {
    let server = TestServer::start(fast()).await;
    let fields = json!({ "mood": 1, "thinking": { "type": "enabled", "budget_tokens": 1024 } });
    let answer = server.post(PATH, &message(fields)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    // The model can't reason.
    let ignored = "thinking.budget_tokens, mood, thinking";
    assert_eq!(answer.headers["x-transom-ignored"], ignored);
    server.end().await;
}
