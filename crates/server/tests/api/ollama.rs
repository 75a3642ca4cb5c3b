//! Replies, lists and refusals in Ollama's form.

use serde_json::{Value, json};
use transom_server::{BindError, Server};
use transom_supervisor::test_support::{Fault, WorkerScript, status_where};

use crate::server::{Answer, MODEL, TestServer, fast, within};

const TEXT: &str = "Paris is the capital.";

/// Returns a request for a reply with these fields.
fn chat(fields: Value) -> Value {
    let mut body = json!({
        "model": MODEL,
        "messages": [{ "role": "user", "content": "The capital of France?" }],
    });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    let lines = answer.body.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn the_lines_of_a_reply_are_the_whole_one() {
    let server = TestServer::start(fast()).await;
    let prompt = json!({ "model": MODEL, "prompt": "The capital of France?" });
    let text_of = |path: &str, reply: &Value| {
        let text = match path {
            "/api/chat" => &reply["message"]["content"],
            _ => &reply["response"],
        };
        text.as_str().unwrap().to_owned()
    };
    for (path, mut body) in [("/api/chat", chat(json!({}))), ("/api/generate", prompt)] {
        let replies = lines(&server.post(path, &body).await);
        let (last, pieces) = replies.split_last().unwrap();
        assert!(!pieces.is_empty());
        let streamed: String = replies.iter().map(|reply| text_of(path, reply)).collect();
        assert_eq!(streamed, TEXT);
        assert!(pieces.iter().all(|piece| piece["done"] == false));
        assert_eq!(last["done"], true);
        body["stream"] = false.into();
        let whole = server.post(path, &body).await.json();
        assert_eq!(text_of(path, &whole), TEXT);
        for reply in [last, &whole] {
            assert_eq!(reply["done_reason"], "stop");
            assert_eq!(reply["prompt_eval_count"], 1);
            assert_eq!(reply["eval_count"], 5);
            assert!(reply["total_duration"].as_u64().unwrap() > 0);
            assert!(reply["load_duration"].is_u64() && reply["eval_duration"].is_u64());
            assert!(reply["created_at"].as_str().unwrap().ends_with('Z'));
        }
    }
    let limited = json!({ "stream": false, "options": { "num_predict": 2 } });
    let whole = server.post("/api/chat", &chat(limited)).await.json();
    assert_eq!(whole["message"]["content"], "Paris is");
    assert_eq!(whole["done_reason"], "length");
    server.end().await;
}

#[tokio::test]
async fn wrong_requests_are_refused_with_a_sentence() {
    let server = TestServer::start(fast()).await;
    for (fields, status, words) in [
        (json!({ "model": "none" }), 404, "none"),
        (json!({ "format": "xml" }), 400, "`format`"),
        (json!({ "keep_alive": "soon" }), 400, "`keep_alive`"),
        (json!({ "think": true }), 400, "does not support thinking"),
        (
            json!({ "options": { "num_ctx": 1_000_000 } }),
            400,
            "`options.num_ctx`",
        ),
    ] {
        let answer = server.post("/api/chat", &chat(fields)).await;
        assert_eq!(answer.status, status, "{}", answer.body);
        let text = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(text.contains(words), "{text}");
    }
    for (method, path) in [
        ("POST", "/api/pull"),
        ("POST", "/api/push"),
        ("POST", "/api/create"),
        ("POST", "/api/copy"),
        ("DELETE", "/api/delete"),
        ("HEAD", "/api/blobs/sha256:00"),
    ] {
        let body = if method == "POST" { "{}" } else { "" };
        let answer = server.send(method, path, &[], body).await;
        assert_eq!(answer.status, 501, "{path}");
        assert!(
            method == "HEAD" || answer.json()["error"].is_string(),
            "{path}"
        );
    }
    assert_eq!(server.workers.n_started(), 0);
    server.end().await;
}

#[tokio::test]
async fn old_messages_are_dropped_only_on_request_and_the_reply_says_how_many() {
    let server = TestServer::start(WorkerScript {
        context_messages: 1,
        ..fast()
    })
    .await;
    let of = |role: &str| json!({ "role": role, "content": "Hi" });
    let messages = json!([of("user"), of("assistant"), of("user")]);
    let refused = chat(json!({ "messages": messages }));
    let answer = server.post("/api/chat", &refused).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    let allowed = chat(json!({ "messages": messages, "truncate": true }));
    let replies = lines(&server.post("/api/chat", &allowed).await);
    assert_eq!(replies.last().unwrap()["dropped_messages"], 2);
    server.end().await;
}

#[tokio::test]
async fn an_error_within_a_stream_is_its_last_line() {
    let server = TestServer::start(WorkerScript {
        fault: Fault::DiesAfter(2),
        ..fast()
    })
    .await;
    let replies = lines(&server.post("/api/chat", &chat(json!({}))).await);
    let (last, pieces) = replies.split_last().unwrap();
    assert!(last["error"].is_string());
    assert!(pieces.iter().all(|piece| piece["done"] == false));
    server.end().await;
}

#[tokio::test]
async fn a_model_is_loaded_and_unloaded_without_a_prompt_and_unloaded_after_a_reply() {
    let server = TestServer::start(fast()).await;
    let until_gone = async || {
        within(status_where(&server.handle, |status| {
            status.models.is_empty()
        }))
        .await;
    };
    let load = json!({ "model": MODEL });
    let unload = json!({ "model": MODEL, "keep_alive": 0 });
    for path in ["/api/generate", "/api/chat"] {
        let answer = server.post(path, &load).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.json()["done_reason"], "load");
        let running = server.get("/api/ps").await.json();
        let running = running["models"].as_array().unwrap().clone();
        assert_eq!(running.len(), 1);
        assert!(running[0]["name"].as_str().unwrap().starts_with(MODEL));
        assert!(running[0]["size"].as_u64().unwrap() > 0);
        let answer = server.post(path, &unload).await;
        assert_eq!(answer.json()["done_reason"], "unload");
        until_gone().await;
        assert_eq!(server.get("/api/ps").await.json(), json!({ "models": [] }));
    }
    for stream in [false, true] {
        let body = chat(json!({ "keep_alive": "0s", "stream": stream }));
        let answer = server.post("/api/chat", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert!(answer.body.contains("\"done_reason\":\"stop\""));
        until_gone().await;
    }
    server.end().await;
}

#[tokio::test]
async fn models_are_described_as_clients_expect() {
    let server = TestServer::start(fast()).await;
    let tags = server.get("/api/tags").await.json();
    let model = &tags["models"][0];
    let name = model["name"].as_str().unwrap();
    assert_eq!(model["model"], name);
    assert_eq!(model["details"]["format"], "gguf");
    assert_eq!(model["digest"].as_str().unwrap().len(), 64);
    assert!(!tags.to_string().contains(".gguf"), "{tags}");
    for field in ["model", "name"] {
        let shown = server
            .post("/api/show", &json!({ field: name }))
            .await
            .json();
        assert_eq!(shown["details"], model["details"]);
        assert_eq!(shown["capabilities"], json!(["completion", "tools"]));
        let architecture = shown["model_info"]["general.architecture"]
            .as_str()
            .unwrap();
        let context_length = &shown["model_info"][format!("{architecture}.context_length")];
        assert!(context_length.is_u64(), "{shown}");
        assert!(shown["template"].is_string());
    }
    let nameless = server.post("/api/show", &json!({})).await;
    assert_eq!(nameless.status, 400);
    assert_eq!(nameless.json()["error"], "`model` is required");
    let version = server.get("/api/version").await.json();
    assert_eq!(version["version"].as_str().unwrap().split('.').count(), 3);
    server.end().await;
}

#[tokio::test]
async fn clients_of_ollama_find_it_at_its_port() {
    let server = TestServer::start(fast()).await;
    for (port, words) in [
        (server.ollama_port, "Ollama is running"),
        (server.port, "Transom is running"),
    ] {
        let host = format!("127.0.0.1:{port}");
        let answer = server.send("GET", "/", &[("host", &*host)], "").await;
        assert_eq!((answer.status, &*answer.body), (200, words));
        let answer = server.send("HEAD", "/", &[("host", &*host)], "").await;
        assert_eq!(answer.status, 200);
    }
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", server.ollama_port)).await;
    assert!(stream.is_ok());
    drop(stream);
    let second = Server::bind(0).await.unwrap();
    let refused = second.with_ollama_port(server.ollama_port).await;
    assert!(matches!(refused, Err(BindError::OllamaPortTaken { .. })));
    server.end().await;
}
