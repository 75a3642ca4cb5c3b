//! Chat completions: whole and streamed, their errors, and their end when the client leaves.

use std::time::Duration;

use serde_json::{Value, json};
use transom_signals::{SystemSignals, ThermalState};
use transom_supervisor::Class;
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
    let all_wait =
        |status: &transom_supervisor::Status| status.is_answering() && status.queue.len() == 8;
    within(status_where(&server.handle, all_wait)).await;
    let status = server.handle.status().borrow().clone();
    for request in status.running.iter().chain(&status.queue) {
        assert_eq!(request.client.as_str(), "api:local");
        assert_eq!(request.class, Class::Background);
    }
    let answer = server.chat(json!({})).await;
    assert_eq!(answer.status, 429);
    assert!(answer.headers.contains_key("retry-after"));
    assert_eq!(answer.json()["error"]["type"], "rate_limit_error");
    let count = "/v1/chat/completions/input_tokens";
    assert_eq!(server.post(count, &chat(json!({}))).await.status, 429);
    let metrics = server.get("/metrics").await.body;
    assert!(metrics.contains("transom_open_requests 9\n"), "{metrics}");
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

#[tokio::test]
async fn log_probabilities_come_with_the_text_of_their_tokens() {
    let server = TestServer::start(fast()).await;
    let fields = json!({ "logprobs": true, "top_logprobs": 2, "max_tokens": 2 });
    let whole = server.chat(fields.clone()).await.json();
    let token = |text: &str| json!({ "token": text, "logprob": -0.5, "bytes": text.as_bytes() });
    let expected = ["Paris", " is"].map(|text| {
        let mut expected = token(text);
        expected["top_logprobs"] = json!([token(text), token(text)]);
        expected
    });
    let logprobs = &whole["choices"][0]["logprobs"];
    assert_eq!(*logprobs, json!({ "content": expected, "refusal": null }));

    let mut streamed = fields;
    streamed["stream"] = true.into();
    let chunks = server.chat(streamed).await.chunks();
    let texts = chunks.iter().map(|chunk| &chunk["choices"][0]);
    let texts = texts.filter(|choice| choice["delta"]["content"] != "");
    let texts = texts.filter(|choice| choice["delta"]["content"].is_string());
    let texts: Vec<&Value> = texts
        .map(|choice| &choice["logprobs"]["content"][0])
        .collect();
    assert_eq!(texts, expected.iter().collect::<Vec<_>>());

    let without = server.chat(json!({})).await.json();
    assert_eq!(without["choices"][0]["logprobs"], Value::Null);
    server.end().await;
}

#[tokio::test]
async fn the_tokens_of_a_conversation_are_counted_without_a_response() {
    let server = TestServer::start(WorkerScript {
        context_messages: 0,
        ..fast()
    })
    .await;
    let path = "/v1/chat/completions/input_tokens";
    let answer = server.post(path, &chat(json!({ "stream": true }))).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    // The scripted worker counts bytes, and the conversation need not fit.
    let expected = json!({ "object": "response.input_tokens", "input_tokens": 22 });
    assert_eq!(answer.json(), expected);
    let answer = server.post(path, &chat(json!({ "mood": 1 }))).await;
    assert_eq!(answer.headers["x-transom-ignored"], "mood");
    let answer = server.post(path, &chat(json!({ "messages": [] }))).await;
    assert_eq!(answer.json()["error"]["param"], "messages");
    server.end().await;
}

#[tokio::test]
async fn the_name_of_a_route_adds_its_instructions_and_its_temperature() {
    let server = TestServer::start(fast()).await;
    let plain = server.chat(json!({})).await.json();
    let routed = server.chat(json!({ "model": "transom/translate" })).await;
    assert_eq!(routed.status, 200, "{}", routed.body);
    let routed = routed.json();
    assert_eq!(routed["model"], plain["model"], "it takes the loaded model");
    let fields = json!({ "model": "transom/translate", "temperature": 1.5 });
    let own = server.chat(fields).await.json();
    let temperature = |answer: &Value| answer["timings"]["sampling"]["temperature"].as_f64();
    assert!((temperature(&routed).unwrap() - 0.2).abs() < 1e-6);
    assert_eq!(temperature(&own), Some(1.5));
    let reasoning = json!({
        "model": "transom/translate",
        "chat_template_kwargs": { "enable_thinking": true },
    });
    let reasoning = server.chat(reasoning).await.json();
    assert_eq!(temperature(&reasoning), temperature(&plain));
    assert_ne!(temperature(&reasoning), temperature(&routed));
    // The scripted worker counts bytes.
    let path = "/v1/chat/completions/input_tokens";
    let body = chat(json!({ "model": "transom/translate" }));
    let count = server.post(path, &body).await.json();
    let instructions = transom_engine::Route::Translate.settings();
    let n_bytes = 22 + instructions.instructions.len();
    assert_eq!(count["input_tokens"], n_bytes);
    let unknown = server.chat(json!({ "model": "transom/sing" })).await;
    assert_eq!(unknown.status, 404, "{}", unknown.body);
    server.end().await;
}

#[tokio::test]
async fn a_request_says_how_long_the_model_stays_loaded() {
    let server = TestServer::start(fast()).await;
    assert_eq!(server.chat(json!({ "ttl": 7200 })).await.status, 200);
    let stays = |status: &transom_supervisor::Status| {
        let unloads_in = status.models.first().and_then(|model| model.unloads_in);
        unloads_in.is_some_and(|time| time > Duration::from_secs(7000))
    };
    within(status_where(&server.handle, stays)).await;
    // The model is not unloaded between the choices.
    let fields = json!({ "keep_alive": 0, "n": 3 });
    assert_eq!(server.chat(fields).await.status, 200);
    within(status_where(&server.handle, |status| {
        status.models.is_empty()
    }))
    .await;
    assert_eq!(server.workers.n_started(), 1);
    server.end().await;
}
