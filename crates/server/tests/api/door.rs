//! What is let in, what is refused, and the routes that tell about the server.

use serde_json::json;
use transom_server::{BindError, Server};
use transom_signals::{SignalSource, SystemSignals, ThermalState};

use crate::server::{KEY, MODEL, TestServer, fast};

#[tokio::test]
async fn only_programs_of_this_computer_with_a_key_are_let_in() {
    let server = TestServer::start(fast()).await;
    let port = server.port;
    let host = |name: &str| format!("{name}:{port}");
    let models = "/v1/models";
    for (method, path, header, value, status) in [
        ("GET", models, "host", host("localhost"), 200),
        ("GET", models, "host", host("127.0.0.1"), 200),
        ("GET", models, "host", host("[::1]"), 200),
        ("GET", models, "host", host("LOCALHOST"), 200),
        ("GET", models, "host", host("evil.example"), 421),
        ("GET", models, "host", "localhost".to_owned(), 421),
        ("GET", models, "host", String::new(), 421),
        ("GET", "/health", "host", host("evil.example"), 421),
        (
            "GET",
            models,
            "origin",
            "http://localhost:3000".to_owned(),
            200,
        ),
        (
            "GET",
            models,
            "origin",
            "https://chat.example.org".to_owned(),
            200,
        ),
        (
            "GET",
            models,
            "origin",
            "https://evil.example".to_owned(),
            403,
        ),
        (
            "GET",
            models,
            "origin",
            "http://localhost.evil.example".to_owned(),
            403,
        ),
        ("GET", models, "origin", "null".to_owned(), 403),
        (
            "OPTIONS",
            models,
            "origin",
            "https://evil.example".to_owned(),
            403,
        ),
        (
            "OPTIONS",
            models,
            "origin",
            "http://127.0.0.1:1".to_owned(),
            204,
        ),
        ("GET", models, "authorization", String::new(), 401),
        (
            "GET",
            models,
            "authorization",
            "Bearer wrong".to_owned(),
            401,
        ),
        ("GET", models, "authorization", format!("Basic {KEY}"), 401),
        ("GET", models, "authorization", format!("bearer {KEY}"), 200),
        ("GET", "/health", "authorization", String::new(), 200),
        ("GET", "/", "authorization", String::new(), 200),
        ("HEAD", "/", "authorization", String::new(), 200),
        ("GET", "/metrics", "authorization", String::new(), 401),
        (
            "POST",
            "/v1/chat/completions",
            "content-type",
            "text/plain".to_owned(),
            415,
        ),
        (
            "POST",
            "/v1/chat/completions",
            "content-type",
            String::new(),
            415,
        ),
        (
            "POST",
            "/v1/chat/completions",
            "content-length",
            "99999999999".to_owned(),
            413,
        ),
        ("GET", "/nothing", "accept", "*/*".to_owned(), 404),
        (
            "GET",
            "/v1/chat/completions",
            "accept",
            "*/*".to_owned(),
            405,
        ),
        ("POST", "/v1/models", "accept", "*/*".to_owned(), 405),
    ] {
        let answer = server.send(method, path, &[(header, &*value)], "").await;
        assert_eq!(answer.status, status, "{method} {path} {header}: {value}");
        assert!(answer.headers["x-request-id"].starts_with("req_"));
        assert_eq!(answer.headers["x-request-id"], answer.headers["request-id"]);
        assert_eq!(answer.headers["cache-control"], "no-cache");
        assert_eq!(
            answer.headers.contains_key("allow"),
            status == 405 || method == "OPTIONS"
        );
        let allowed = answer.headers.get("access-control-allow-origin");
        let is_allowed_origin = header == "origin" && status < 400;
        assert_eq!(allowed, is_allowed_origin.then_some(&value));
        assert!(
            !answer
                .headers
                .contains_key("access-control-allow-credentials")
        );
        if status >= 400 && method != "HEAD" && method != "OPTIONS" {
            assert!(answer.json()["error"]["message"].is_string());
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_missing_key_and_a_wrong_one_cannot_be_told_apart() {
    let server = TestServer::start(fast()).await;
    let with = async |headers: &[(&str, &str)]| {
        let mut answer = server.send("GET", "/v1/models", headers, "").await;
        answer
            .headers
            .retain(|name, _| !name.contains("request-id") && name != "date");
        (answer.status, answer.headers, answer.body)
    };
    let missing = with(&[("authorization", "")]).await;
    assert_eq!(missing.0, 401);
    assert_eq!(with(&[("authorization", "Bearer wrong")]).await, missing);
    assert_eq!(
        with(&[("authorization", ""), ("x-api-key", "wrong")]).await,
        missing
    );
    let right = with(&[("authorization", ""), ("x-api-key", KEY)]).await;
    assert_eq!(right.0, 200);
    server.end().await;
}

#[tokio::test]
async fn errors_have_the_form_of_the_protocol_of_the_path() {
    let server = TestServer::start(fast()).await;
    let error = async |path: &str| {
        let answer = server.send("GET", path, &[("authorization", "")], "").await;
        assert_eq!(answer.status, 401);
        answer.json()
    };
    assert_eq!(
        error("/v1/completions").await["error"]["code"],
        "invalid_api_key"
    );
    let anthropic = error("/v1/messages").await;
    assert_eq!(anthropic["type"], "error");
    assert_eq!(anthropic["error"]["type"], "authentication_error");
    assert!(
        anthropic["request_id"]
            .as_str()
            .unwrap()
            .starts_with("req_")
    );
    assert!(error("/api/chat").await["error"].is_string());
    server.end().await;
}

#[tokio::test]
async fn models_are_listed_by_name_with_their_context() {
    let server = TestServer::start(fast()).await;
    let list = server.get("/v1/models").await.json();
    assert_eq!(list["object"], "list");
    let listed = &list["data"][0];
    let id = listed["id"].as_str().unwrap();
    assert!(id.starts_with(MODEL), "{id}");
    assert!(!list.to_string().contains(".gguf"), "{list}");
    assert_eq!(listed["object"], "model");
    assert_eq!(listed["loaded"], false);
    assert_eq!(listed["context_length"], listed["max_model_len"]);
    let one = server.get(&format!("/v1/models/{id}")).await.json();
    assert_eq!(&one, listed);
    let missing = server.get("/v1/models/owner/none").await;
    assert_eq!(missing.status, 404);
    assert_eq!(missing.json()["error"]["code"], "model_not_found");
    let version = [("anthropic-version", "2023-06-01")];
    let list = server.send("GET", "/v1/models", &version, "").await.json();
    assert_eq!(
        (&list["has_more"], &list["data"][0]["type"]),
        (&json!(false), &json!("model"))
    );
    assert_eq!(server.chat(json!({})).await.status, 200);
    let listed = &server.get("/v1/models").await.json()["data"][0];
    assert_eq!(listed["loaded"], true);
    server.end().await;
}

#[tokio::test]
async fn health_status_and_metrics_tell_the_state_without_texts() {
    let server = TestServer::start(fast()).await;
    assert_eq!(
        server.get("/health").await.json(),
        json!({ "status": "ok" })
    );
    assert_eq!(server.chat(json!({})).await.status, 200);
    let status = server.get("/v1/status").await.json();
    assert_eq!(status["models"][0]["state"]["phase"], "ready");
    assert_eq!(status["models"][0]["responses"], 1);
    let metrics = server.get("/metrics").await;
    assert!(metrics.headers["content-type"].starts_with("text/plain"));
    for expected in [
        "transom_requests_total{route=\"/v1/chat/completions\",status=\"200\"} 1\n",
        "transom_tokens_total{kind=\"generated\"} 5\n",
        "transom_open_requests 0\n",
        "transom_model_loaded{model=\"tiny",
    ] {
        assert!(
            metrics.body.contains(expected),
            "{expected}: {}",
            metrics.body
        );
    }
    for body in [status.to_string(), metrics.body] {
        assert!(
            !body.contains("France") && !body.contains(".gguf"),
            "{body}"
        );
    }
    server.signals.set(SystemSignals {
        thermal: ThermalState::Critical,
        ..server.signals.current()
    });
    crate::chat::until_blocked(&server).await;
    assert_eq!(
        server.get("/health").await.json(),
        json!({ "status": "hot" })
    );
    server.end().await;
}

#[tokio::test]
async fn the_last_requests_and_the_tokens_of_a_key_are_recorded() {
    let server = TestServer::start(fast()).await;
    let whole = server.chat(json!({})).await;
    assert_eq!(whole.status, 200, "{}", whole.body);
    let wrong = server.chat(json!({ "temperature": 9 })).await;
    assert_eq!(wrong.status, 400);
    let refused = server
        .send("GET", "/v1/models", &[("authorization", "")], "")
        .await;
    assert_eq!(refused.status, 401);
    // Programs read it all the time.
    server.get("/v1/status").await;
    let activity = server.state.activity();
    let routes: Vec<_> = activity
        .requests
        .iter()
        .map(|request| (&*request.route, request.key.as_deref(), request.status))
        .collect();
    let chat = "/v1/chat/completions";
    assert_eq!(
        routes,
        [
            ("/v1/models", None, Some(401)),
            (chat, Some("local"), Some(400)),
            (chat, Some("local"), Some(200)),
        ]
    );
    let answered = &activity.requests[2];
    assert_eq!(answered.model.as_deref(), whole.json()["model"].as_str());
    let usage = &whole.json()["usage"];
    assert_eq!(
        Some(answered.prompt_tokens),
        usage["prompt_tokens"].as_u64()
    );
    assert!(answered.took_ms.is_some() && !answered.is_canceled);
    let [key] = &*activity.keys else {
        panic!("one key: {:?}", activity.keys);
    };
    assert_eq!((&*key.name, key.requests), ("local", 2));
    assert_eq!(Some(key.tokens), usage["total_tokens"].as_u64());
    server.end().await;
}

#[tokio::test]
async fn a_second_server_says_that_transom_has_the_port() {
    let server = TestServer::start(fast()).await;
    let port = server.port;
    let second = Server::bind(port).await;
    assert!(matches!(second, Err(BindError::AlreadyServed { port: taken }) if taken == port));
    server.end().await;
    let other = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let port = other.local_addr().unwrap().port();
    let answering = tokio::spawn(async move {
        // Another program closes the connection, or says something else.
        while let Ok((stream, _)) = other.accept().await {
            drop(stream);
        }
    });
    let second = Server::bind(port).await;
    assert!(matches!(second, Err(BindError::PortTaken { port: taken }) if taken == port));
    answering.abort();
}
