//! Tests of incompatible, invalid and slow connections.

use std::os::unix::fs::PermissionsExt;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use transom_engine_host::frame::{self, FrameReader};

use super::protocol::{ClientMessage, Hello, OLDEST_PROTOCOL, PROTOCOL, Welcome};
use super::*;
use crate::request::RequestId;

async fn open_stream(data: &Path) -> UnixStream {
    UnixStream::connect(data.join("transom.sock"))
        .await
        .unwrap()
}

/// Reads until the other side closes; returns the number of bytes.
async fn rest(stream: &mut UnixStream) -> usize {
    let mut bytes = Vec::new();
    // A connection that is closed with unread data is reset.
    let _ = stream.read_to_end(&mut bytes).await;
    bytes.len()
}

async fn hello_of(stream: &mut UnixStream) -> Hello {
    let mut reader = FrameReader::new(stream);
    reader.read_async().await.unwrap().unwrap()
}

/// Only then can it be said which versions do not match.
#[test]
fn programs_of_other_protocols_read_the_hello() {
    let earlier = serde_json::json!({
        "protocol": 10,
        "version": "0.1.0",
        "process_id": 1,
        "welcome": { "from": 7 },
        "oldest_protocol": 10,
    });
    let hello: Hello = serde_json::from_value(earlier.clone()).unwrap();
    assert!(!hello.is_compatible_with(&Hello::own()));
    assert_eq!(hello.welcome, Some(Welcome::Accepted(RequestId(7))));
    assert_eq!(serde_json::to_value(&hello).unwrap(), earlier);
}

#[tokio::test]
async fn an_owner_with_an_incompatible_version_is_reported() {
    let data = data_folder();
    let lock = InstanceLock::take(data.path()).unwrap().unwrap();
    let socket = folder::socket_path(data.path()).unwrap();
    let listener = tokio::net::UnixListener::bind(socket).unwrap();
    let owner = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let hello = hello_of(&mut stream).await;
        let theirs = Hello {
            protocol: PROTOCOL + 1,
            oldest_protocol: Some(PROTOCOL + 1),
            version: "9.9.9".to_owned(),
            welcome: Some(Welcome::Accepted(RequestId(1))),
            ..hello
        };
        frame::write_async(&mut stream, &theirs).await.unwrap();
        let n_bytes = rest(&mut stream).await;
        drop(lock);
        n_bytes
    });
    let refusal = open(data.path(), || panic!("there is an owner"))
        .await
        .unwrap_err();
    let message = refusal.to_string();
    let expected = format!(
        "the running Transom is version 9.9.9 (protocol {}), this one {} (protocol {PROTOCOL}); \
         quit the running one (process {}) and try again",
        PROTOCOL + 1,
        env!("CARGO_PKG_VERSION"),
        std::process::id()
    );
    assert_eq!(message, expected);
    assert_eq!(owner.await.unwrap(), 0);
}

#[tokio::test]
async fn a_client_with_an_incompatible_version_gets_a_hello_and_is_disconnected() {
    let data = data_folder();
    let (owner, client) = owner_and_client(data.path(), 3).await;
    let mut stream = open_stream(data.path()).await;
    let old = Hello {
        protocol: OLDEST_PROTOCOL - 1,
        oldest_protocol: None,
        ..Hello::own()
    };
    frame::write_async(&mut stream, &old).await.unwrap();
    assert_eq!(hello_of(&mut stream).await.protocol, PROTOCOL);
    assert_eq!(rest(&mut stream).await, 0);
    finish(&mut client.submit(generate_request("chat"))).await;
    owner.close().await;
}

/// The client has another version and a later protocol, most of which this program understands.
#[tokio::test]
async fn a_compatible_later_client_is_served() {
    let data = data_folder();
    let owner = open_with(data.path(), &workers(3)).await;
    let mut stream = open_stream(data.path()).await;
    let later = serde_json::json!({
        "protocol": PROTOCOL + 1,
        "version": "9.9.9",
        "process_id": 1,
        "oldest_protocol": PROTOCOL,
        "mood": "a field of later versions",
    });
    frame::write_async(&mut stream, &later).await.unwrap();
    let unknown = serde_json::json!({ "message": "sing", "song": [1, 2] });
    frame::write_async(&mut stream, &unknown).await.unwrap();
    let pause = ClientMessage::SetPaused { is_paused: true };
    frame::write_async(&mut stream, &pause).await.unwrap();
    status_where(&owner.handle(), |status| status.is_paused).await;
    owner.close().await;
}

#[tokio::test]
async fn a_hello_that_is_too_long_is_refused() {
    let data = data_folder();
    let owner = open_with(data.path(), &workers(3)).await;
    for (version_bytes, is_answered) in [(3 << 10, true), (4 << 10, false)] {
        let mut stream = open_stream(data.path()).await;
        let hello = Hello {
            version: "x".repeat(version_bytes),
            ..Hello::own()
        };
        // The owner may close before everything is written.
        let _ = frame::write_async(&mut stream, &hello).await;
        stream.shutdown().await.unwrap();
        assert_eq!(rest(&mut stream).await > 0, is_answered);
    }
    owner.close().await;
}

#[tokio::test]
async fn silent_connections_do_not_count_as_clients() {
    let data = data_folder();
    let owner = open_with(data.path(), &workers(3)).await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(open_stream(data.path()).await);
    }
    let client = in_time(connect(data.path())).await.unwrap().unwrap();
    assert_eq!(
        finish(&mut client.submit(generate_request("chat"))).await.0,
        "0 1 2 "
    );
    owner.close().await;
}

/// On a paused clock, because it takes longer than an unresponsive owner is waited for.
#[tokio::test(start_paused = true)]
async fn open_waits_until_a_closing_owner_has_served_its_clients() {
    let data = data_folder();
    let script = WorkerScript {
        tokens: vec!["word ".to_owned(); 1000],
        token_interval: Duration::from_secs(1),
        ..WorkerScript::default()
    };
    let owner = open_with(data.path(), &ScriptedWorkers::all(script)).await;
    let client = connect(data.path()).await.unwrap().unwrap();
    let mut response = client.submit(generate_request("chat"));
    first_text(&mut response).await;
    let closing = tokio::spawn(owner.close());
    while connect(data.path()).await.unwrap().is_some() {}
    let next_workers = workers(3);
    let mut opening = std::pin::pin!(open(data.path(), || start(&next_workers)));
    let early = tokio::time::timeout(3 * OPEN_TIMEOUT, &mut opening).await;
    assert!(early.is_err(), "it is still waiting");
    drop(response);
    closing.await.unwrap();
    let next = opening.await.unwrap();
    assert!(next.is_own());
    next.close().await;
}

#[tokio::test]
async fn an_invalid_message_ends_only_its_own_connection() {
    let data = data_folder();
    let (owner, client) = owner_and_client(data.path(), ENDLESS).await;
    let mut response = client.submit(generate_request("chat"));
    first_text(&mut response).await;
    let nonsense: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &u32::MAX.to_le_bytes(),
        b"\x02\0\0\0{}",
        b"\x08\0\0\0[1,",
    ];
    for greets in [false, true] {
        for bytes in nonsense {
            let mut stream = open_stream(data.path()).await;
            if greets {
                frame::write_async(&mut stream, &Hello::own())
                    .await
                    .unwrap();
            }
            stream.write_all(bytes).await.unwrap();
            stream.shutdown().await.unwrap();
            rest(&mut stream).await;
        }
    }
    first_text(&mut response).await;
    drop(response);
    owner.close().await;
}

#[tokio::test]
async fn a_client_cannot_use_the_request_ids_of_others() {
    let data = data_folder();
    let (owner, client) = owner_and_client(data.path(), ENDLESS).await;
    let mut response = client.submit(generate_request("chat"));
    first_text(&mut response).await;
    let mut stream = open_stream(data.path()).await;
    frame::write_async(&mut stream, &Hello::own())
        .await
        .unwrap();
    let id = response.id();
    let cancel = ClientMessage::Cancel { id };
    frame::write_async(&mut stream, &cancel).await.unwrap();
    let request = Box::new(generate_request("chat"));
    let stolen = ClientMessage::Request { id, request };
    frame::write_async(&mut stream, &stolen).await.unwrap();
    assert!(
        rest(&mut stream).await > 0,
        "the client gets a hello and is disconnected"
    );
    first_text(&mut response).await;
    assert_eq!(owner.n_remote_requests(), 1);
    drop(response);
    owner.close().await;
}

#[tokio::test]
async fn a_client_beyond_the_limit_is_refused() {
    let data = data_folder();
    let owner = open_with(data.path(), &workers(3)).await;
    let mut clients = Vec::new();
    for _ in 0..32 {
        clients.push(connect(data.path()).await.unwrap().unwrap());
    }
    let refusal = connect(data.path()).await.unwrap_err().to_string();
    assert!(
        refusal.contains("32 programs are already connected"),
        "{refusal}"
    );
    clients.pop();
    let mut found = connect(data.path()).await;
    // The slot becomes free when the owner notices the disconnect.
    while found.is_err() {
        tokio::task::yield_now().await;
        found = connect(data.path()).await;
    }
    let client = found.unwrap().unwrap();
    let (reply, _) = finish(&mut client.submit(generate_request("chat"))).await;
    assert_eq!(reply, "0 1 2 ");
    owner.close().await;
}

/// Unread events of a slow reader are joined; it delays no other client.
#[tokio::test]
async fn a_client_that_does_not_read_delays_no_other() {
    let data = data_folder();
    let script = WorkerScript {
        tokens: vec!["x".repeat(10_000); 200],
        token_interval: Duration::ZERO,
        load_time: Duration::ZERO,
        ..WorkerScript::default()
    };
    let owner = open_with(data.path(), &ScriptedWorkers::all(script)).await;
    let mut stream = open_stream(data.path()).await;
    frame::write_async(&mut stream, &Hello::own())
        .await
        .unwrap();
    let Some(Welcome::Accepted(first_id)) = hello_of(&mut stream).await.welcome else {
        panic!("it is accepted");
    };
    for number in 0..3 {
        let id = RequestId(first_id.0 + number);
        let request = Box::new(generate_request("chat"));
        frame::write_async(&mut stream, &ClientMessage::Request { id, request })
            .await
            .unwrap();
    }
    let mut own = owner.handle().submit(generate_request("chat"));
    let (reply, outcome) = finish(&mut own).await;
    assert_eq!(
        (reply.len(), reason(&outcome)),
        (2_000_000, FinishReason::Stop)
    );
    status_where(&owner.handle(), |status| {
        is_idle(status) && status.models[0].n_answered == 4
    })
    .await;
    owner.close().await;
}

#[tokio::test]
async fn only_the_user_can_access_the_socket() {
    let data = data_folder();
    let owner = open_with(data.path(), &workers(3)).await;
    for file in ["transom.sock", "transom.lock"] {
        let metadata = std::fs::metadata(data.path().join(file)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{file}");
    }
    owner.close().await;
}

/// An owner that has the lock but never listens; on a paused clock, because the timeout is long.
#[tokio::test(start_paused = true)]
async fn open_fails_with_the_process_id_if_the_owner_does_not_listen() {
    let data = data_folder();
    let lock = InstanceLock::take(data.path()).unwrap().unwrap();
    let began = Instant::now();
    let refusal = open(data.path(), || panic!("there is an owner")).await;
    let refusal = refusal.unwrap_err().to_string();
    assert!(began.elapsed() >= OPEN_TIMEOUT);
    let process = format!(
        "another Transom (process {}) is running",
        std::process::id()
    );
    assert!(refusal.starts_with(&process), "{refusal}");
    drop(lock);
}
