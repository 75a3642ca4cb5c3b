//! Errors about what the content of a response must match.

use serde_json::{Value, json};
use transom_engine::EngineError;
use transom_supervisor::test_support::WorkerScript;

use crate::server::{MODEL, TestServer, chat, fast};

/// A schema, and its requests to each route with the path of the schema.
fn requests() -> [(&'static str, Value, &'static str); 7] {
    let schema = json!({ "type": "object", "properties": { "a": { "not": {} } } });
    let named = json!({ "type": "json_schema", "json_schema": { "schema": schema } });
    let plain = json!({ "type": "json_schema", "name": "a", "schema": schema });
    let message = json!({
        "model": MODEL,
        "max_tokens": 9,
        "messages": [{ "role": "user", "content": "Hi" }],
        "output_config": { "format": { "type": "json_schema", "schema": schema } },
    });
    [
        (
            "/v1/chat/completions",
            chat(json!({ "response_format": named })),
            "response_format.json_schema.schema",
        ),
        (
            "/v1/chat/completions",
            chat(json!({ "structured_outputs": { "json": schema } })),
            "structured_outputs.json",
        ),
        (
            "/v1/completions",
            json!({ "model": MODEL, "prompt": "Hi", "guided_json": schema }),
            "guided_json",
        ),
        (
            "/v1/responses",
            json!({ "model": MODEL, "input": "Hi", "text": { "format": plain } }),
            "text.format.schema",
        ),
        ("/v1/messages", message, "output_config.format.schema"),
        (
            "/api/generate",
            json!({ "model": MODEL, "prompt": "Hi", "format": schema }),
            "format",
        ),
        ("/api/chat", chat(json!({ "format": schema })), "format"),
    ]
}

async fn failing(after_tokens: usize, error: EngineError) -> TestServer {
    TestServer::start(WorkerScript {
        response_error: Some((after_tokens, error)),
        ..fast()
    })
    .await
}

#[tokio::test]
async fn a_constraint_that_no_grammar_can_hold_is_refused_with_its_place() {
    let server = failing(
        0,
        EngineError::InvalidConstraint {
            path: "/properties/a".to_owned(),
            keyword: "not".to_owned(),
            message: "it can't be held; leave it out".to_owned(),
        },
    )
    .await;
    for (path, body, field) in requests() {
        let place = format!("{field}.properties.a");
        for stream in [false, true] {
            let mut body = body.clone();
            body["stream"] = stream.into();
            let answer = server.post(path, &body).await;
            assert_eq!(answer.status, 400, "{path}: {}", answer.body);
            let text = &answer.body;
            for expected in [&*place, "`not`"] {
                assert!(text.contains(expected), "{path}: {expected}: {text}");
            }
            if path.starts_with("/v1/") && path != "/v1/messages" {
                let error = &answer.json()["error"];
                assert_eq!(error["param"], *place);
                assert_eq!(error["code"], "invalid_constraint");
                assert_eq!(error["type"], "invalid_request_error");
            }
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_response_that_can_not_match_its_constraint_is_no_error_of_the_server() {
    let message = "the grammar stopped".to_owned();
    let server = failing(2, EngineError::ConstraintFailed { message }).await;
    for (path, mut body, field) in requests() {
        body["stream"] = false.into();
        let answer = server.post(path, &body).await;
        assert_eq!(answer.status, 422, "{path}: {}", answer.body);
        let text = &answer.body;
        assert!(text.contains(field), "{path}: {text}");
        assert!(!answer.headers.contains_key("retry-after"), "{path}");
        if path.starts_with("/v1/") && path != "/v1/messages" {
            let error = &answer.json()["error"];
            assert_eq!(error["param"], field);
            assert_eq!(error["code"], "constraint_failed");
        }
        body["stream"] = true.into();
        let answer = server.post(path, &body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let text = &answer.body;
        for expected in ["Paris", "the grammar stopped"] {
            assert!(text.contains(expected), "{path}: {expected}: {text}");
        }
        assert!(!text.contains("[DONE]"), "{path}: {text}");
    }
    server.end().await;
}
