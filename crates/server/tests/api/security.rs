//! Requests that must not get through: smuggled, misdirected, oversized, or with a path for a name.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{KEY, TestServer, chat, fast, within};

/// Sends these bytes, and returns the statuses of all responses of the connection.
async fn statuses(server: &TestServer, request: &str) -> Vec<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port))
        .await
        .unwrap();
    // The server may close the connection before it has read all.
    let _ = within(stream.write_all(request.as_bytes())).await;
    let _ = stream.shutdown().await;
    let mut bytes = Vec::new();
    let _ = within(stream.read_to_end(&mut bytes)).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let heads = text.split("HTTP/1.1 ").skip(1);
    heads.map(|head| head[..3].parse().unwrap()).collect()
}

/// Returns a POST with these headers besides the host, the key and the type.
fn post(server: &TestServer, headers: &str, body: &str) -> String {
    let port = server.port;
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:{port}\r\n\
         Authorization: Bearer {KEY}\r\nContent-Type: application/json\r\n{headers}\r\n{body}"
    )
}

#[tokio::test]
async fn a_request_with_two_meanings_runs_nothing() {
    let server = TestServer::start(fast()).await;
    let body = chat(json!({})).to_string();
    let (length, size) = (body.len(), format!("{:x}", body.len()));
    let chunked = format!("{size}\r\n{body}\r\n0\r\n\r\n");
    // A second request that hides in the body of the first one.
    let hidden = post(&server, "Content-Length: 2\r\n", "{}");
    let smuggled = format!("0\r\n\r\n{hidden}");
    let both = format!(
        "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n",
        smuggled.len()
    );
    let found = statuses(&server, &post(&server, &both, &smuggled)).await;
    assert!(found.iter().all(|status| *status >= 400), "{found:?}");
    for (headers, body) in [
        (
            format!("Content-Length: {length}\r\nContent-Length: 2\r\n"),
            &*body,
        ),
        ("Content-Length: -1\r\n".to_owned(), &*body),
        (format!("Content-Length: +{length}\r\n"), &*body),
        ("Content-Length: 99999999999999999999999\r\n".to_owned(), ""),
        (format!("Content-Length : {length}\r\n"), &*body),
        (
            "Transfer-Encoding: chunked, identity\r\n".to_owned(),
            &*chunked,
        ),
        ("Transfer-Encoding: gzip\r\n".to_owned(), &*body),
        (
            format!("Host: evil.example\r\nContent-Length: {length}\r\n"),
            &*body,
        ),
        (format!("Content-Length: {length}\r\nX: a\0b\r\n"), &*body),
        (format!(" folded\r\nContent-Length: {length}\r\n"), &*body),
    ] {
        let found = statuses(&server, &post(&server, &headers, body)).await;
        assert!(
            found.iter().all(|status| (400..500).contains(status)),
            "{headers}: {found:?}"
        );
    }
    assert_eq!(server.workers.n_started(), 0, "no request reached a model");
    server.end().await;
}

#[tokio::test]
async fn an_address_within_the_request_line_must_be_ours() {
    let server = TestServer::start(fast()).await;
    let port = server.port;
    let ours = format!("localhost:{port}");
    for (target, host, status) in [
        ("/v1/models".to_owned(), ours.clone(), 200),
        (format!("http://{ours}/v1/models"), ours.clone(), 200),
        (
            "http://evil.example/v1/models".to_owned(),
            ours.clone(),
            421,
        ),
        (
            format!("http://{ours}/v1/models"),
            "evil.example".to_owned(),
            421,
        ),
        ("/v1/../v1/models".to_owned(), ours.clone(), 404),
        ("/v1/%2e%2e/models".to_owned(), ours.clone(), 404),
        (
            "/v1/models/..%2f..%2fetc%2fpasswd".to_owned(),
            ours.clone(),
            404,
        ),
        ("/v1/models/%2Fetc%2Fpasswd".to_owned(), ours.clone(), 404),
        ("/v1/models/%ff".to_owned(), ours.clone(), 400),
        ("/v1/models/%00".to_owned(), ours.clone(), 404),
    ] {
        let answer = server.send("GET", &target, &[("host", &*host)], "").await;
        assert_eq!(answer.status, status, "{target} {host}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_name_is_never_a_path_and_a_number_never_too_large() {
    let server = TestServer::start(fast()).await;
    let folder = env!("CARGO_MANIFEST_DIR");
    for name in [
        folder,
        "/etc/passwd",
        "../../etc/passwd",
        "file:///etc/passwd",
        "https://evil.example/model.gguf",
        "~",
        ".",
        "\0",
    ] {
        let answer = server.chat(json!({ "model": name })).await;
        assert_eq!(answer.status, 404, "{name}: {}", answer.body);
        assert!(!answer.body.contains("No such file"));
    }
    for (name, value) in [
        ("max_tokens", "1e400"),
        ("max_tokens", "-9223372036854775809"),
        ("seed", "1e999"),
        ("temperature", "1e308"),
        ("top_k", "99999999999999999999"),
        ("n", "4294967297"),
        ("logit_bias", "{\"99999999999\": 1}"),
        ("ttl", "-1"),
    ] {
        let body = chat(json!({})).to_string();
        let body = format!("{},\"{name}\":{value}}}", &body[..body.len() - 1]);
        let answer = server
            .send("POST", "/v1/chat/completions", &[], &body)
            .await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.body);
    }
    let length = [("content-length", "34359738368")];
    let answer = server
        .send("POST", "/v1/chat/completions", &length, "")
        .await;
    assert_eq!(answer.status, 413);
    let deep = "[".repeat(100_000);
    let answer = server
        .send("POST", "/v1/chat/completions", &[], &deep)
        .await;
    assert_eq!(answer.status, 400);
    let long = "x".repeat(70_000);
    // The server may close the connection before the client has read its response.
    let found = statuses(&server, &post(&server, &format!("X-Long: {long}\r\n"), "")).await;
    assert!(found.iter().all(|status| *status == 431), "{found:?}");
    assert_eq!(server.workers.n_started(), 0);
    server.end().await;
}

/// Read from the table of the kernel, which knows every listener, whoever opened it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn nothing_listens_on_another_interface() {
    use std::collections::BTreeSet;

    let server = TestServer::start(fast()).await;
    let mut found = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let Ok(text) = std::fs::read_to_string(table) else {
            continue;
        };
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (address, port) = fields[1].split_once(':').unwrap();
            let port = u16::from_str_radix(port, 16).unwrap();
            let is_listening = fields[3] == "0A";
            if is_listening && [server.port, server.ollama_port].contains(&port) {
                found.insert((port, address.to_owned()));
            }
        }
    }
    // 127.0.0.1 and ::1, as words in the byte order of the machine.
    let v4 = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
    let v6 = format!("{:024}{:08X}", 0, u32::from_ne_bytes([0, 0, 0, 1]));
    let ports: BTreeSet<u16> = found.iter().map(|(port, _)| *port).collect();
    assert_eq!(ports, BTreeSet::from([server.port, server.ollama_port]));
    for (port, address) in found {
        assert!(address == v4 || address == v6, "{port} {address}");
    }
    server.end().await;
}
