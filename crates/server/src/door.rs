//! What every request passes before its route: host, origin, key, content type and size. And what
//! every response gets: its id, the headers for pages, and the form of its error.
//!
//! Rule: the host is checked first, because a page that resolves its own name to this computer sends
//! no origin with a GET. No response allows every origin, and none allows credentials.

use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;
use transom_supervisor::ClientId;

use crate::activity::OpenRequest;
use crate::error::{ApiError, ErrorKind, Protocol};
use crate::ids::random_id;
use crate::json::{Ignored, too_large};
use crate::limits::MAX_BODY_BYTES;
use crate::state::ServerState;

/// The names of this computer in a `Host` header and in an origin.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Routes that need no key.
const PUBLIC_PATHS: [&str; 2] = ["/", "/health"];

/// Headers that pages may read.
const EXPOSED_HEADERS: &str = "request-id, retry-after, x-request-id, x-transom-ignored";

/// Routes that programs read again and again to watch the server. Their requests have no records.
const WATCHED_ROUTES: [&str; 4] = ["/", "/health", "/metrics", "/v1/status"];

/// What the names of this server's clients begin with in the status of the supervisor.
const CLIENT_PREFIX: &str = "api:";

/// Returns the name of a key's client in the status of the supervisor.
pub fn client_of_key(name: &str) -> ClientId {
    ClientId::new(format!("{CLIENT_PREFIX}{name}"))
}

/// Returns the name of the key of a client in the status of the supervisor; `None` if it is another
/// program.
pub fn key_of_client(client: &ClientId) -> Option<String> {
    let client = client.to_string();
    client.strip_prefix(CLIENT_PREFIX).map(str::to_owned)
}

/// The caller of a request that was let in, and what belongs to the request. An extractor of routes.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) state: Arc<ServerState>,
    /// The name of the key.
    key_name: String,
    /// The record of the request, if it has one.
    pub(crate) record: Option<OpenRequest>,
    /// The id of the request, which errors inside streams repeat.
    pub(crate) request_id: String,
    /// The fields without effect, which the response names. Those of the body are added by the reader.
    pub(crate) ignored: Ignored,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| ApiError::internal("the request has no caller"))
    }
}

impl Caller {
    /// Notes the model of the request in its record.
    pub(crate) fn set_model(&self, name: &str) {
        if let Some(record) = &self.record {
            record.set_model(name);
        }
    }

    /// Returns the client that the supervisor and the status know. Clients take turns.
    pub(crate) fn client(&self) -> ClientId {
        client_of_key(&self.key_name)
    }
}

/// Lets a request in, or refuses it, and completes its response.
pub(crate) async fn pass(
    State(state): State<Arc<ServerState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let protocol = Protocol::of(request.uri().path(), request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("other", MatchedPath::as_str).to_owned();
    let origin = request.headers().get(header::ORIGIN).cloned();
    let has_record = !WATCHED_ROUTES.contains(&&*route) && method != Method::OPTIONS;
    let mut caller = Caller {
        key_name: String::new(),
        record: has_record.then(|| state.activity_log.open(&route)),
        request_id: random_id("req_"),
        ignored: Ignored::default(),
        state: state.clone(),
    };
    let mut response = match enter(&mut caller, &request) {
        Ok(None) => {
            request.extensions_mut().insert(caller.ignored.clone());
            request.extensions_mut().insert(caller.clone());
            next.run(request).await
        }
        Ok(Some(preflight)) => preflight,
        Err(error) => error.into_response(),
    };
    let request_id = &*caller.request_id;
    let ignored = match response.extensions_mut().remove::<ApiError>() {
        Some(error) => {
            response = error.render(protocol, request_id);
            None
        }
        None => caller.ignored.header(),
    };
    if let Some(names) = ignored.and_then(|names| HeaderValue::try_from(names).ok()) {
        response.headers_mut().insert("x-transom-ignored", names);
    }
    let status = response.status();
    complete(response.headers_mut(), status, request_id);
    if let Some(origin) = origin.filter(|origin| is_allowed_origin(origin, &state)) {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let exposed = HeaderValue::from_static(EXPOSED_HEADERS);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
    if let Some(record) = &caller.record {
        record.set_status(status.as_u16());
    }
    state.metrics.count_request(&route, status.as_u16());
    let milliseconds = began.elapsed().as_millis();
    tracing::info!(%method, route, status = status.as_u16(), milliseconds, request_id, "request");
    response
}

/// Checks a request, and sets the key of its caller. Returns the response to a preflight request, which
/// reaches no route.
fn enter(caller: &mut Caller, request: &Request) -> Result<Option<Response>, ApiError> {
    let state = &*caller.state;
    check_host(request, state)?;
    let headers = request.headers();
    if let Some(origin) = headers.get(header::ORIGIN)
        && !is_allowed_origin(origin, state)
    {
        let message = "pages of this origin may not use this server; allow it with \
                       `transom serve --allow-origin`";
        return Err(refused(StatusCode::FORBIDDEN, message));
    }
    if request.method() == Method::OPTIONS {
        return Ok(Some(preflight(headers)));
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_public = is_read && PUBLIC_PATHS.contains(&request.uri().path());
    if !is_public {
        caller.key_name = check_key(state, headers)?;
    }
    if let Some(record) = &caller.record {
        record.set_key(&caller.key_name);
    }
    check_body(request.method(), headers)?;
    Ok(None)
}

/// Checks that the request is meant for this server, in its one `Host` header and in its address.
fn check_host(request: &Request, state: &ServerState) -> Result<(), ApiError> {
    let is_ours = |host: &str| {
        let mut ports = [Some(state.port), state.ollama_port].into_iter().flatten();
        ports.any(|port| is_local(host, port))
    };
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    let is_only_one = hosts.next().is_none();
    let authority = request.uri().authority();
    let is_for_us = authority.is_none_or(|authority| is_ours(authority.as_str()));
    if is_only_one && is_for_us && host.is_some_and(is_ours) {
        return Ok(());
    }
    let port = state.port;
    let message = format!("this server is http://localhost:{port}; use this address");
    Err(refused(StatusCode::MISDIRECTED_REQUEST, message))
}

/// Returns true for a name of this computer with this port.
pub(crate) fn is_local(host: &str, port: u16) -> bool {
    let (name, of_host) = match host.rsplit_once(':') {
        // The last colon may be within the brackets of an address.
        Some((name, digits)) if !digits.ends_with(']') => (name, Some(digits)),
        _ => (host, None),
    };
    let is_port = match of_host {
        Some(digits) => *digits == *port.to_string(),
        // 80 is the default of HTTP.
        None => port == 80,
    };
    is_port
        && LOCAL_HOSTS
            .iter()
            .any(|local| name.eq_ignore_ascii_case(local))
}

/// Returns true for pages of this computer, at any port, and for configured origins.
fn is_allowed_origin(origin: &HeaderValue, state: &ServerState) -> bool {
    let Ok(origin) = origin.to_str() else {
        return false;
    };
    let is_local_page = origin.strip_prefix("http://").is_some_and(|host| {
        LOCAL_HOSTS.iter().any(|local| {
            let port = host.strip_prefix(local);
            port.is_some_and(|port| match port.strip_prefix(':') {
                Some(digits) => digits.parse::<u16>().is_ok() && !digits.starts_with('+'),
                None => port.is_empty(),
            })
        })
    });
    is_local_page || state.is_allowed_origin(origin)
}

/// Returns the name of the request's key. A missing key and a wrong one have the same error.
fn check_key(state: &ServerState, headers: &HeaderMap) -> Result<String, ApiError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text("authorization").and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    let keys = [bearer, text("x-api-key")];
    let mut names = keys.into_iter().map(|key| state.access.name_of(key));
    names.find_map(|name| name).ok_or_else(|| {
        let message = "a valid key is required, as `Authorization: Bearer KEY` or `x-api-key: KEY`; \
                       `transom serve keys add NAME` creates one";
        let (status, kind) = (StatusCode::UNAUTHORIZED, ErrorKind::Authentication);
        ApiError::new(status, kind, message).with_code("invalid_api_key")
    })
}

/// Checks the type and the announced size of the body. Forms of web pages can't have this type.
fn check_body(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > MAX_BODY_BYTES as u64) {
        return Err(too_large());
    }
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let essence = content_type.split(';').next().unwrap_or("").trim();
    if *method != Method::POST || essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let (status, kind) = (
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorKind::InvalidRequest,
    );
    let message = "the body must be JSON; send it with `Content-Type: application/json`";
    Err(ApiError::new(status, kind, message))
}

fn refused(status: StatusCode, message: impl Into<String>) -> ApiError {
    ApiError::new(status, ErrorKind::Permission, message)
}

/// Returns the response that lets a page send its request. Only allowed origins get here.
fn preflight(headers: &HeaderMap) -> Response {
    // Clients send many headers of their own, and the key is what protects the routes.
    let wanted = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let wanted = wanted.map(|wanted| [(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted)]);
    let methods = "GET, HEAD, POST, DELETE, OPTIONS";
    let allowed = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, methods),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, wanted, allowed).into_response()
}

/// Adds the headers of every response.
fn complete(headers: &mut HeaderMap, status: StatusCode, request_id: &str) {
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert("x-request-id", id.clone());
        headers.insert("request-id", id);
    }
    let bearer =
        (status == StatusCode::UNAUTHORIZED).then_some((header::WWW_AUTHENTICATE, "Bearer"));
    let always = [
        (header::CACHE_CONTROL, "no-cache"),
        (header::VARY, "origin"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in always.into_iter().chain(bearer) {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_of_this_computer_with_our_port() {
        for host in ["localhost:7", "LocalHost:7", "127.0.0.1:7", "[::1]:7"] {
            assert!(is_local(host, 7), "{host}");
        }
        for host in [
            "",
            ":7",
            "localhost",
            "localhost:8",
            "localhost:07",
            "localhost.:7",
            "localhost:7:7",
            "127.0.0.2:7",
            "[::1]",
            "::1:7",
            "example.org:7",
            "localhost@example.org:7",
        ] {
            assert!(!is_local(host, 7), "{host}");
        }
        assert!(is_local("localhost", 80) && is_local("[::1]", 80));
    }
}
