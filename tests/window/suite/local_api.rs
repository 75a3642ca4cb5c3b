//! The local API of the app: turned on in the settings, used over HTTP, turned off again.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use transom_window_tests::{Failure, Outcome, Page, check, run_test, until};

/// Longest time for a response of the starter, with its load.
const TIMEOUT: Duration = Duration::from_secs(120);

#[tokio::test]
async fn the_app_serves_a_program_with_the_key_that_it_shows() {
    run_test("the_local_api", async |setup| {
        let chat = setup.open().await?;
        let port = free_port().map_err(Failure::doing("find a free port"))?;
        // Another server may use the default port of this computer.
        set_port(&chat, port).await?;
        setup.desktop.follow("transom://settings/api").await?;
        let settings = setup.window("settings").await?;
        settings.click("switch", "^Serve models").await?;
        let address = format!("http://localhost:{port}/v1");
        settings.until_says(&address).await?;
        let key = until("the first key is shown", async || {
            settings.text_of(".created code").await
        })
        .await?;
        let body =
            r#"{"model":"starter","max_tokens":4,"messages":[{"role":"user","content":"Hello"}]}"#;
        let asked = key.clone();
        let answer = tokio::task::spawn_blocking(move || post(port, asked.trim(), body));
        let answer = answer.await.map_err(Failure::doing("ask the app"))??;
        check(answer.starts_with("HTTP/1.1 200"), || answer.clone())?;
        check(answer.contains("\"completion_tokens\":"), || answer.clone())?;
        settings.until_says("/v1/chat/completions").await?;
        let refused = tokio::task::spawn_blocking(move || post(port, "wrong", body));
        let refused = refused.await.map_err(Failure::doing("ask the app"))??;
        check(refused.starts_with("HTTP/1.1 401"), || refused.clone())?;
        settings.click("switch", "^Serve models").await?;
        until("nothing listens any more", async || {
            let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
            Ok(connected.is_err().then_some(()))
        })
        .await
    })
    .await;
}

/// Stores the port before the API is on.
async fn set_port(chat: &Page, port: u16) -> Outcome {
    let body = format!(
        "window.__TAURI_INTERNALS__
            .invoke('update_settings', {{ patch: {{ local_api: {{ port: {port} }} }} }})
            .then(() => done(null), (error) => done(JSON.stringify(error)));"
    );
    let error = chat.run_until_done(&body).await?;
    check(error.is_null(), || format!("the port is refused: {error}"))
}

fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Sends a chat request, and returns the whole HTTP response.
fn post(port: u16, key: &str, body: &str) -> Outcome<String> {
    let sent = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        write!(
            stream,
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost:{port}\r\nauthorization: Bearer \
             {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: \
             close\r\n\r\n{body}",
            body.len()
        )?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok::<_, std::io::Error>(response)
    };
    sent().map_err(Failure::doing("ask the local API"))
}
