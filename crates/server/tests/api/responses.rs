//! Responses in OpenAI's newer form: whole and streamed, their end, and what needs a store.

use std::time::Duration;

use serde_json::{Value, json};
use transom_supervisor::test_support::{Fault, WorkerScript};

use crate::server::{Answer, MODEL, TestServer, fast};

const PATH: &str = "/v1/responses";

fn body(fields: &Value) -> Value {
    let mut body = json!({ "model": MODEL, "input": "The capital of France?" });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

async fn respond(server: &TestServer, fields: Value) -> Answer {
    server.post(PATH, &body(&fields)).await
}

/// Returns the events of a stream.
fn events(answer: &Answer) -> Vec<Value> {
    let events = answer.data().into_iter().map(serde_json::from_str);
    events.collect::<Result<_, _>>().unwrap()
}

/// Returns a response without what differs in each one.
fn comparable(response: &Value) -> Value {
    let mut response = response.clone();
    for name in ["id", "created_at", "completed_at", "timings"] {
        response[name] = Value::Null;
    }
    for item in response["output"].as_array_mut().unwrap() {
        item["id"] = Value::Null;
    }
    response
}

#[tokio::test]
async fn a_stream_ends_with_the_same_response_as_a_whole_one() {
    let server = TestServer::start(fast()).await;
    let fields =
        json!({ "instructions": "Be brief.", "temperature": 0.5, "metadata": { "a": "b" } });
    let whole = respond(&server, fields.clone()).await;
    assert_eq!(whole.status, 200, "{}", whole.body);
    let whole = whole.json();
    for (name, value) in [
        ("object", json!("response")),
        ("status", json!("completed")),
        ("error", Value::Null),
        ("incomplete_details", Value::Null),
        ("instructions", json!("Be brief.")),
        ("temperature", json!(0.5)),
        ("metadata", json!({ "a": "b" })),
        ("parallel_tool_calls", json!(true)),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
        ("store", json!(false)),
        ("truncation", json!("disabled")),
    ] {
        assert_eq!(whole[name], value, "{name}");
    }
    assert!(whole["id"].as_str().unwrap().starts_with("resp_"));
    assert!(whole["top_p"].is_number() && whole["created_at"].is_number());
    let item = &whole["output"][0];
    assert_eq!(
        (&item["type"], &item["role"]),
        (&json!("message"), &json!("assistant"))
    );
    let part = json!({
        "type": "output_text",
        "text": "Paris is the capital.",
        "annotations": [],
        "logprobs": [],
    });
    assert_eq!(item["content"], json!([part]));
    assert_eq!(whole["usage"]["input_tokens"], 1);
    assert_eq!(whole["usage"]["output_tokens"], 5);
    assert_eq!(whole["usage"]["total_tokens"], 6);

    let mut fields = fields;
    fields["stream"] = true.into();
    let streamed = respond(&server, fields).await;
    assert!(streamed.headers["content-type"].starts_with("text/event-stream"));
    let events = events(&streamed);
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], index);
        let line = format!("event: {}\n", event["type"].as_str().unwrap());
        assert!(streamed.body.contains(&line));
    }
    let deltas = events.iter().filter_map(|event| event["delta"].as_str());
    assert_eq!(deltas.collect::<String>(), "Paris is the capital.");
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(comparable(&last["response"]), comparable(&whole));
    server.end().await;
}

#[tokio::test]
async fn log_probabilities_come_with_the_text_if_they_are_included() {
    let server = TestServer::start(fast()).await;
    let included = json!(["message.output_text.logprobs"]);
    let fields = json!({ "include": included, "top_logprobs": 1, "max_output_tokens": 2 });
    let expected = ["Paris", " is"].map(|text| {
        let token = json!({ "token": text, "logprob": -0.5, "bytes": text.as_bytes() });
        let mut expected = token.clone();
        expected["top_logprobs"] = json!([token]);
        expected
    });
    let whole = respond(&server, fields.clone()).await.json();
    let logprobs = &whole["output"][0]["content"][0]["logprobs"];
    assert_eq!(*logprobs, json!(expected));
    assert_eq!(whole["top_logprobs"], 1);

    let mut fields = fields;
    fields["stream"] = true.into();
    let events = events(&respond(&server, fields).await);
    let of = |kind: &str| -> Vec<&Value> {
        let events = events.iter().filter(|event| event["type"] == kind);
        events.map(|event| &event["logprobs"]).collect()
    };
    let deltas = expected.each_ref().map(|token| json!([token]));
    assert_eq!(of("response.output_text.delta"), deltas.each_ref());
    assert_eq!(of("response.output_text.done"), [&json!(expected)]);
    server.end().await;
}

#[tokio::test]
async fn a_response_without_room_is_incomplete() {
    let server = TestServer::start(fast()).await;
    let fields = json!({ "max_output_tokens": 2 });
    let whole = respond(&server, fields).await.json();
    assert_eq!(whole["status"], "incomplete");
    assert_eq!(whole["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(whole["output"][0]["content"][0]["text"], "Paris is");
    assert_eq!(whole["output"][0]["status"], "incomplete");
    let fields = json!({ "max_output_tokens": 2, "stream": true });
    let events = events(&respond(&server, fields).await);
    assert_eq!(events.last().unwrap()["type"], "response.incomplete");
    server.end().await;
}

#[tokio::test]
async fn a_response_that_fails_says_so() {
    let server = TestServer::start(WorkerScript {
        token_interval: Duration::from_millis(5),
        fault: Fault::DiesAfter(2),
        ..fast()
    })
    .await;
    let answer = respond(&server, json!({ "stream": true })).await;
    assert_eq!(answer.status, 200);
    let events = events(&answer);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed");
    assert_eq!(last["response"]["status"], "failed");
    assert!(last["response"]["error"]["message"].is_string());
    assert_eq!(
        last["response"]["output"][0]["content"][0]["text"],
        "Paris is"
    );
    server.end().await;
}

#[tokio::test]
async fn messages_are_dropped_only_if_the_request_allows_it() {
    let server = TestServer::start(WorkerScript {
        context_messages: 1,
        ..fast()
    })
    .await;
    let message = json!({ "role": "user", "content": "Hi" });
    let input = json!([message, message]);
    for stream in [false, true] {
        let answer = respond(&server, json!({ "input": input, "stream": stream })).await;
        assert_eq!(answer.status, 400);
        let error = &answer.json()["error"];
        assert_eq!(error["code"], "context_length_exceeded");
        assert_eq!(error["param"], "input");
    }
    let fields = json!({ "input": input, "truncation": "auto" });
    let whole = respond(&server, fields).await.json();
    assert_eq!(whole["status"], "completed");
    assert_eq!(whole["truncation"], "auto");
    assert_eq!(whole["dropped_messages"], 1);
    server.end().await;
}

#[tokio::test]
async fn tokens_are_counted_without_a_response() {
    let server = TestServer::start(fast()).await;
    let path = "/v1/responses/input_tokens";
    let fields = json!({ "input": "Hello", "instructions": "Be brief." });
    let answer = server.post(path, &body(&fields)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    // The scripted worker counts bytes.
    let expected = json!({ "object": "response.input_tokens", "input_tokens": 14 });
    assert_eq!(answer.json(), expected);
    let answer = server.post(path, &body(&json!({ "stream": true }))).await;
    assert_eq!(answer.json()["error"]["param"], "stream");
    server.end().await;
}

#[tokio::test]
async fn what_needs_a_store_is_refused() {
    let server = TestServer::start(fast()).await;
    for (fields, param) in [
        (
            json!({ "previous_response_id": "resp_1" }),
            "previous_response_id",
        ),
        (
            json!({ "conversation": { "id": "conv_1" } }),
            "conversation",
        ),
        (json!({ "background": true, "stream": true }), "background"),
        (
            json!({ "text": { "format": { "type": "json_schema" } } }),
            "text.format.schema",
        ),
        (
            json!({ "tools": [{ "type": "function" }] }),
            "tools[0].name",
        ),
        (json!({ "tool_choice": "required" }), "tool_choice"),
    ] {
        let answer = respond(&server, fields).await;
        assert_eq!(answer.status, 400, "{}", answer.body);
        assert_eq!(answer.json()["error"]["param"], param);
    }
    for method in ["GET", "DELETE"] {
        let answer = server.send(method, "/v1/responses/resp_1", &[], "").await;
        assert_eq!(answer.status, 404);
        let error = answer.json();
        assert!(
            error["error"]["message"]
                .as_str()
                .unwrap()
                .contains("stored")
        );
    }
    assert_eq!(server.workers.n_started(), 0);
    let stored = respond(&server, json!({ "store": true })).await;
    assert_eq!(stored.headers["x-transom-ignored"], "store");
    assert_eq!(stored.json()["store"], false);
    server.end().await;
}

#[tokio::test]
async fn a_client_that_wants_a_web_socket_is_told_to_post() {
    let server = TestServer::start(fast()).await;
    let answer = server
        .send("GET", PATH, &[("upgrade", "websocket")], "")
        .await;
    assert_eq!(answer.status, 426);
    assert!(
        answer.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("POST")
    );
    let answer = server.get(PATH).await;
    assert_eq!(answer.status, 405);
    assert_eq!(answer.headers["allow"], "POST");
    server.end().await;
}
