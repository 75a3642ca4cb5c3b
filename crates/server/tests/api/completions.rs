//! Completions: whole and streamed, several prompts, and their errors.

use serde_json::{Value, json};
use transom_supervisor::test_support::WorkerScript;

use crate::server::{Answer, MODEL, TestServer, fast};

const PATH: &str = "/v1/completions";

async fn complete(server: &TestServer, fields: Value) -> Answer {
    let mut body = json!({ "model": MODEL, "prompt": "The capital of France?" });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    server.post(PATH, &body).await
}

/// Joins the texts of a choice.
fn joined(chunks: &[Value], index: usize) -> String {
    let choices = chunks.iter().filter_map(|chunk| chunk["choices"].get(0));
    let choices = choices.filter(|choice| choice["index"] == index);
    choices
        .map(|choice| choice["text"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_stream_has_the_same_texts_as_a_whole_response() {
    let server = TestServer::start(fast()).await;
    let fields = json!({ "prompt": ["One:", "Two:"], "n": 2, "echo": true, "max_tokens": 2 });
    let whole = complete(&server, fields.clone()).await;
    assert_eq!(whole.status, 200, "{}", whole.body);
    let whole = whole.json();
    assert_eq!(whole["object"], "text_completion");
    let choices = whole["choices"].as_array().unwrap();
    let texts: Vec<_> = choices.iter().map(|choice| &choice["text"]).collect();
    let expected = [
        "One:Paris is",
        "One:Paris is",
        "Two:Paris is",
        "Two:Paris is",
    ];
    assert_eq!(texts, expected);
    for (index, choice) in choices.iter().enumerate() {
        assert_eq!(choice["index"], index);
        assert_eq!(choice["finish_reason"], "length");
        assert_eq!(choice["logprobs"], Value::Null);
    }
    assert_eq!(whole["usage"]["prompt_tokens"], 2);
    assert_eq!(whole["usage"]["completion_tokens"], 8);
    assert_eq!(whole["usage"]["total_tokens"], 10);

    let mut fields = fields;
    fields["stream"] = true.into();
    fields["stream_options"] = json!({ "include_usage": true });
    let streamed = complete(&server, fields).await;
    assert!(streamed.headers["content-type"].starts_with("text/event-stream"));
    let mut chunks = streamed.chunks();
    let last = chunks.pop().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"], whole["usage"]);
    for (index, expected) in expected.into_iter().enumerate() {
        assert_eq!(joined(&chunks, index), expected);
    }
    for chunk in &chunks {
        assert_eq!(chunk["object"], "text_completion");
        assert_eq!(chunk["id"], chunks[0]["id"]);
        assert_eq!(chunk["usage"], Value::Null);
    }
    let reasons = chunks.iter().map(|chunk| &chunk["choices"][0]);
    let reasons = reasons.filter(|choice| choice["finish_reason"] == "length");
    assert_eq!(reasons.count(), 4);
    server.end().await;
}

#[tokio::test]
async fn log_probabilities_have_the_older_form() {
    let server = TestServer::start(fast()).await;
    let fields = json!({ "logprobs": 1, "max_tokens": 2 });
    let whole = complete(&server, fields.clone()).await.json();
    let expected = json!({
        "tokens": ["Paris", " is"],
        "token_logprobs": [-0.5, -0.5],
        "top_logprobs": [{ "Paris": -0.5 }, { " is": -0.5 }],
        "text_offset": [0, 5],
    });
    assert_eq!(whole["choices"][0]["logprobs"], expected);
    let mut fields = fields;
    fields["stream"] = true.into();
    let chunks = complete(&server, fields).await.chunks();
    let logprobs = chunks.iter().map(|chunk| &chunk["choices"][0]["logprobs"]);
    let offsets = logprobs.filter(|logprobs| logprobs.is_object());
    let offsets: Vec<&Value> = offsets.map(|logprobs| &logprobs["text_offset"]).collect();
    assert_eq!(offsets, [&json!([0]), &json!([5])]);
    server.end().await;
}

#[tokio::test]
async fn a_prompt_of_token_ids_has_16_tokens_by_default() {
    let server = TestServer::start(WorkerScript {
        tokens: vec![" word".to_owned(); 100],
        ..fast()
    })
    .await;
    let whole = complete(&server, json!({ "prompt": [1, 2, 3] }))
        .await
        .json();
    assert_eq!(whole["choices"][0]["text"], " word".repeat(16));
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    assert_eq!(whole["usage"]["completion_tokens"], 16);
    let chunks = complete(&server, json!({ "stream": true })).await.chunks();
    assert_eq!(joined(&chunks, 0), " word".repeat(16));
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
    server.end().await;
}

#[tokio::test]
async fn a_wrong_request_is_refused_by_name_before_a_model_is_loaded() {
    let server = TestServer::start(fast()).await;
    for (fields, status, param) in [
        (json!({ "prompt": [] }), 400, "prompt"),
        (json!({ "suffix": "end", "echo": true }), 400, "echo"),
        (json!({ "best_of": 2 }), 400, "best_of"),
        (json!({ "logprobs": 21 }), 400, "logprobs"),
        (json!({ "prompt": [1], "echo": true }), 400, "echo"),
        (json!({ "stream": true, "n": 0 }), 400, "n"),
        (json!({ "model": "none" }), 404, "model"),
    ] {
        let answer = complete(&server, fields).await;
        assert_eq!(answer.status, status, "{}", answer.body);
        assert_eq!(answer.json()["error"]["param"], param);
    }
    assert_eq!(server.workers.n_started(), 0);
    server.end().await;
}
