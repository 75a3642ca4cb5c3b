//! The tokens of texts and the text of tokens. A scripted worker has one token for each byte.

use serde_json::json;

use crate::server::{MODEL, TestServer, VECTORS, fast};
use transom_supervisor::test_support::ScriptedWorkers;

#[tokio::test]
async fn a_text_becomes_tokens_and_tokens_become_the_text() {
    let server = TestServer::start_with(ScriptedWorkers::all(fast()), true).await;
    for model in [MODEL, VECTORS] {
        let body = json!({ "model": model, "content": "Grüße" });
        let answer = server.post("/tokenize", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let tokens = answer.json()["tokens"].clone();
        assert_eq!(tokens, json!("Grüße".as_bytes()));
        let body = json!({ "model": model, "tokens": tokens, "temprature": 0 });
        let answer = server.post("/detokenize", &body).await;
        assert_eq!(answer.json(), json!({ "content": "Grüße" }));
        assert_eq!(answer.headers["x-transom-ignored"], "temprature");
    }
    // A part of a character is no text.
    let body = json!({ "model": MODEL, "content": "aü", "with_pieces": true });
    let answer = server.post("/tokenize", &body).await;
    let expected = json!([
        { "id": 97, "piece": "a" },
        { "id": 195, "piece": [195] },
        { "id": 188, "piece": [188] },
    ]);
    assert_eq!(answer.json()["tokens"], expected);
    let empty = json!({ "model": MODEL, "content": "" });
    let answer = server.post("/tokenize", &empty).await;
    assert_eq!(answer.json(), json!({ "tokens": [] }));
    server.end().await;
}

#[tokio::test]
async fn a_wrong_request_is_refused_by_name() {
    let server = TestServer::start(fast()).await;
    let long = "x".repeat((1 << 20) + 1);
    for (path, fields, status, param) in [
        ("/tokenize", json!({ "content": long }), 400, "content"),
        ("/tokenize", json!({ "content": [1] }), 400, "content"),
        ("/tokenize", json!({}), 400, "content"),
        ("/detokenize", json!({ "tokens": "x" }), 400, "tokens"),
        (
            "/detokenize",
            json!({ "tokens": [1, -1] }),
            400,
            "tokens[1]",
        ),
        (
            "/detokenize",
            json!({ "tokens": vec![1; (1 << 18) + 1] }),
            400,
            "tokens",
        ),
        (
            "/tokenize",
            json!({ "content": "a", "model": "none" }),
            404,
            "model",
        ),
    ] {
        let mut body = json!({ "model": MODEL });
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        let answer = server.post(path, &body).await;
        assert_eq!(answer.status, status, "{}", answer.body);
        assert_eq!(answer.json()["error"]["param"], param);
    }
    assert_eq!(server.workers.n_started(), 0);
    let unknown = json!({ "model": MODEL, "tokens": [256] });
    let answer = server.post("/detokenize", &unknown).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["param"], "tokens");
    server.end().await;
}
