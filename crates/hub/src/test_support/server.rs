//! The two listeners of the local hub. They send responses byte by byte, so a response can break
//! off anywhere.
//!
//! Rule: a connection is one task and ends with the hub. A response is computed under the lock and
//! sent without it.

use std::io;
use std::net::{Ipv4Addr, TcpListener as Listener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::faults::{self, Fault, Route};
use super::repositories::Blob;
use super::{ReceivedRequest, State};

/// The maximum number of header lines of a request.
const MAX_LINES: usize = 100;

pub(super) fn listen(port: u16) -> io::Result<Listener> {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until the sender of `stopped` is dropped. Blocks.
pub(super) fn serve(
    hub: Listener,
    blobs: Listener,
    state: Arc<Mutex<State>>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let (Ok(hub), Ok(blobs)) = (TcpListener::from_std(hub), TcpListener::from_std(blobs))
        else {
            return;
        };
        let Ok(store) = blobs.local_addr() else {
            return;
        };
        let store = Arc::new(format!("http://{store}"));
        let accept = |listener: TcpListener, is_store: bool| {
            let (state, store) = (Arc::clone(&state), Arc::clone(&store));
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let (state, store) = (Arc::clone(&state), Arc::clone(&store));
                    tokio::spawn(async move {
                        // A client that disconnects is not an error of the hub.
                        let _ = connection(stream, is_store, &state, &store).await;
                    });
                }
            }
        };
        tokio::select! {
            () = accept(hub, false) => {}
            () = accept(blobs, true) => {}
            _ = stopped => {}
        }
    });
    // Open connections end with the runtime.
    runtime.shutdown_background();
}

struct Request {
    is_head: bool,
    url: Url,
    range: Option<String>,
    if_range: Option<String>,
    token: Option<String>,
}

struct Response {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Body,
}

enum Body {
    Text(Vec<u8>),
    Bytes { blob: Blob, start: u64, end: u64 },
}

async fn connection(
    stream: TcpStream,
    is_store: bool,
    state: &Mutex<State>,
    store: &str,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await? {
        let (response, fault) = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            respond(&mut state, &request, is_store, store)
        };
        if fault == Some(Fault::Refuse) {
            return Ok(());
        }
        if !send(stream.get_mut(), &request, response, fault).await? {
            return Ok(());
        }
    }
    Ok(())
}

async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 || lines.len() > MAX_LINES {
            return Ok(None);
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut parts = lines.first().map_or("", |line| line).split(' ');
    let (method, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or("/"));
    let Ok(url) = Url::parse("http://hub").and_then(|base| base.join(path)) else {
        return Ok(None);
    };
    let header = |name: &str| {
        lines.iter().skip(1).find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    };
    Ok(Some(Request {
        is_head: method == "HEAD",
        url,
        range: header("range"),
        if_range: header("if-range"),
        token: header("authorization"),
    }))
}

fn respond(
    state: &mut State,
    request: &Request,
    is_store: bool,
    store: &str,
) -> (Response, Option<Fault>) {
    let path: Vec<String> = request
        .url
        .path_segments()
        .map(|segments| segments.map(percent_decoded).collect())
        .unwrap_or_default();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let route = match (&*path, is_store) {
        (_, true) => Route::Blob,
        (["api", "models"], _) => Route::Search,
        (["api", ..], _) => Route::Listing,
        _ => Route::Resolve,
    };
    state.requests.push(ReceivedRequest {
        route,
        path: match request.url.query() {
            Some(query) => format!("{}?{query}", request.url.path()),
            None => request.url.path().to_owned(),
        },
        range: request.range.clone(),
        has_token: request.token.is_some(),
    });
    if let (Some(redirect), false) = (rename_redirect(state, request), is_store) {
        return (redirect, None);
    }
    let fault = faults::take(&mut state.rules, route);
    if let Some(Fault::Status(status, seconds)) = fault {
        let mut response = text(status, "a fault on demand");
        let seconds = seconds.map(|seconds| ("Retry-After", seconds.to_string()));
        response.headers.extend(seconds);
        return (response, None);
    }
    if let Some(Fault::Json(json)) = fault {
        return (text(200, &json), None);
    }
    if fault == Some(Fault::ExpireLinks) {
        state.oldest_link = state.next_link;
    }
    if fault == Some(Fault::Change) {
        match (&*path, is_store) {
            ([owner, name, "resolve", _, file @ ..], false)
            | (["blobs", owner, name, file @ ..], true) => {
                let repository = format!("{owner}/{name}");
                state.repositories.change(&repository, &file.join("/"));
            }
            _ => {}
        }
    }
    let ignores_range = fault == Some(Fault::IgnoreRange);
    let response = match (&*path, is_store) {
        (["api", "models"], false) => search(state, request),
        (["api", "models", owner, name, "revision", revision], false) => {
            listing(state, request, &format!("{owner}/{name}"), revision)
        }
        ([owner, name, "resolve", revision, file @ ..], false) => {
            let repository = format!("{owner}/{name}");
            resolve(
                state,
                request,
                &repository,
                revision,
                &file.join("/"),
                store,
                ignores_range,
            )
        }
        (["blobs", owner, name, file @ ..], true) => {
            let link = request.url.query_pairs().find(|(name, _)| name == "link");
            let link: u64 = link
                .and_then(|(_, number)| number.parse().ok())
                .unwrap_or(0);
            let found =
                state
                    .repositories
                    .file(&format!("{owner}/{name}"), "main", &file.join("/"));
            match found {
                _ if link < state.oldest_link => text(403, "this link has expired"),
                Ok((_, blob)) => bytes(blob.clone(), request, ignores_range, Vec::new()),
                Err(_) => text(404, "no such blob"),
            }
        }
        _ => text(404, "no such page"),
    };
    (response, fault)
}

/// Returns a redirect within the hub if the repository was renamed.
fn rename_redirect(state: &State, request: &Request) -> Option<Response> {
    let path = request.url.path();
    let (old, new) = state
        .renamed
        .iter()
        .find(|(old, _)| path.contains(&format!("/{old}/")))?;
    let mut to = path.replacen(&format!("/{old}/"), &format!("/{new}/"), 1);
    if let Some(query) = request.url.query() {
        to = format!("{to}?{query}");
    }
    let mut response = text(307, "it has another name");
    response.headers.push(("Location", to));
    Some(response)
}

/// Decodes `%2F` and the like.
fn percent_decoded(segment: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = segment.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn search(state: &State, request: &Request) -> Response {
    let value = |name: &str| {
        let mut pairs = request.url.query_pairs();
        pairs
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.into_owned())
    };
    let query = value("search").unwrap_or_default();
    json(
        &state
            .repositories
            .search(&query, value("filter").as_deref()),
    )
}

fn listing(state: &State, request: &Request, repository: &str, revision: &str) -> Response {
    if let Some(refused) = wrong_token_response(state, request) {
        return refused;
    }
    match state.repositories.listing(repository, revision) {
        Ok(listing) => json(&listing),
        Err(code) => not_found(code, request),
    }
}

fn resolve(
    state: &mut State,
    request: &Request,
    repository: &str,
    revision: &str,
    file: &str,
    store: &str,
    ignores_range: bool,
) -> Response {
    if let Some(refused) = wrong_token_response(state, request) {
        return refused;
    }
    if state.repositories.is_gated(repository) && request.token.is_none() {
        let mut response = text(401, "gated");
        response
            .headers
            .push(("X-Error-Code", "GatedRepo".to_owned()));
        return response;
    }
    let link = state.next_link;
    state.next_link += 1;
    match state.repositories.file(repository, revision, file) {
        Ok((commit, blob)) => {
            let mut headers = vec![("X-Repo-Commit", commit.to_owned())];
            if !blob.is_large() {
                return bytes(blob.clone(), request, ignores_range, headers);
            }
            headers.push(("X-Linked-Size", blob.bytes.len().to_string()));
            headers.push(("X-Linked-ETag", format!("\"{}\"", blob.digest)));
            let mut to = Url::parse(store).unwrap_or_else(|_| request.url.clone());
            to.set_path(&format!("blobs/{repository}/{file}"));
            headers.push(("Location", format!("{to}?link={link}")));
            Response {
                status: 302,
                headers,
                body: Body::Text(b"elsewhere".to_vec()),
            }
        }
        Err(code) => not_found(code, request),
    }
}

fn wrong_token_response(state: &State, request: &Request) -> Option<Response> {
    let token = request.token.as_deref()?;
    let right = state
        .token
        .as_deref()
        .map(|token| format!("Bearer {token}"));
    (Some(token) != right.as_deref()).then(|| text(401, "Invalid credentials"))
}

fn not_found(code: &str, request: &Request) -> Response {
    // Like the official hub, which does not tell clients without a token what is private.
    let status = match (code, &request.token) {
        ("RepoNotFound", None) => 401,
        _ => 404,
    };
    let mut response = text(status, code);
    response.headers.push(("X-Error-Code", code.to_owned()));
    response
}

fn bytes(
    blob: Blob,
    request: &Request,
    ignores_range: bool,
    mut headers: Vec<(&'static str, String)>,
) -> Response {
    let size = blob.bytes.len() as u64;
    let etag = format!("\"{}\"", blob.digest);
    let is_same = request.if_range.as_ref().is_none_or(|known| *known == etag);
    headers.push(("ETag", etag));
    headers.push(("Accept-Ranges", "bytes".to_owned()));
    let range = request
        .range
        .as_deref()
        .filter(|_| is_same && !ignores_range);
    let span = range.and_then(|range| {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        let first: u64 = first.parse().ok()?;
        let last: u64 = last.parse().unwrap_or(size.saturating_sub(1));
        Some((first, last.min(size.saturating_sub(1)) + 1))
    });
    match span {
        Some((start, end)) if start >= size || start >= end => {
            headers.push(("Content-Range", format!("bytes */{size}")));
            Response {
                status: 416,
                headers,
                body: Body::Text(Vec::new()),
            }
        }
        Some((start, end)) => {
            let range = format!("bytes {start}-{}/{size}", end - 1);
            headers.push(("Content-Range", range));
            Response {
                status: 206,
                headers,
                body: Body::Bytes { blob, start, end },
            }
        }
        None => Response {
            status: 200,
            headers,
            body: Body::Bytes {
                blob,
                start: 0,
                end: size,
            },
        },
    }
}

fn json(value: &serde_json::Value) -> Response {
    Response {
        headers: vec![("Content-Type", "application/json".to_owned())],
        ..text(200, &value.to_string())
    }
}

fn text(status: u16, body: &str) -> Response {
    Response {
        status,
        headers: Vec::new(),
        body: Body::Text(body.as_bytes().to_vec()),
    }
}

/// Sends a response with its fault. Returns false if the connection must be closed.
async fn send(
    stream: &mut TcpStream,
    request: &Request,
    response: Response,
    fault: Option<Fault>,
) -> io::Result<bool> {
    let mut body = match &response.body {
        Body::Text(text) => text.clone(),
        Body::Bytes { blob, start, end } => blob.bytes[*start as usize..*end as usize].to_vec(),
    };
    let is_file = matches!(response.body, Body::Bytes { .. });
    match fault {
        Some(Fault::WrongBytes) if is_file && !body.is_empty() => {
            let at = body.len() / 2;
            body[at] ^= 1;
        }
        Some(Fault::Length(by)) if !request.is_head => {
            let length = (body.len() as i64).saturating_add(by).max(0);
            body.resize(length as usize, b'x');
        }
        _ => {}
    }
    let mut head = format!("HTTP/1.1 {} Injected\r\n", response.status);
    for (name, value) in &response.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes()).await?;
    if request.is_head {
        return Ok(true);
    }
    match fault {
        Some(Fault::Drop(after)) => {
            let after = (after as usize).min(body.len());
            stream.write_all(&body[..after]).await?;
            stream.flush().await?;
            Ok(false)
        }
        Some(Fault::Silence(after)) => {
            let after = (after as usize).min(body.len());
            stream.write_all(&body[..after]).await?;
            std::future::pending().await
        }
        Some(Fault::Slow(bytes_per_second)) => {
            let step = (bytes_per_second / 20).max(1) as usize;
            for step in body.chunks(step) {
                stream.write_all(step).await?;
                sleep(Duration::from_millis(50)).await;
            }
            Ok(true)
        }
        _ => {
            stream.write_all(&body).await?;
            Ok(true)
        }
    }
}
