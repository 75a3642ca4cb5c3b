//! The error of a request, and its form in each protocol.
//!
//! A route returns an [`ApiError`] and does not know its form: [`crate::door`] renders it for the
//! protocol of the path. Inside a stream the encoder of the protocol does.
//!
//! Rule: a message never contains a path of this machine, a key, or text of a prompt.

mod engine;

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

pub(crate) use engine::{CONSTRAINT_FAILED, INVALID_CONSTRAINT};

/// Shortest and longest time that a client is told to wait, in seconds.
const RETRY_AFTER_SECONDS: (u64, u64) = (1, 60);

/// The protocol of a route: the form of its errors and of its heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// `/v1/…`, and every path that belongs to no other protocol.
    OpenAi,
    /// `/v1/messages…`, and the list of models for clients that send `anthropic-version`.
    Anthropic,
    /// `/api/…`.
    Ollama,
}

impl Protocol {
    /// Returns the protocol of a request.
    pub(crate) fn of(path: &str, headers: &HeaderMap) -> Self {
        let is_below = |root: &str| {
            let rest = path.strip_prefix(root);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let lists_models = is_below("/v1/models") && headers.contains_key("anthropic-version");
        if is_below("/v1/messages") || lists_models {
            Self::Anthropic
        } else if is_below("/api") {
            Self::Ollama
        } else {
            Self::OpenAi
        }
    }
}

/// What kind of error it is, as clients distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// The request is wrong.
    InvalidRequest,
    /// The key is missing or wrong.
    Authentication,
    /// The request may not come from there.
    Permission,
    /// The model or the route does not exist.
    NotFound,
    /// The body is too large.
    TooLarge,
    /// The client has too many requests open.
    RateLimit,
    /// The server can't answer now.
    Overloaded,
    /// The server or the engine failed.
    Internal,
}

/// The numbers of a prompt that does not fit the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextNumbers {
    /// Tokens of the prompt.
    pub(crate) prompt_tokens: usize,
    /// Tokens that the context holds.
    pub(crate) context_length: usize,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) kind: ErrorKind,
    /// A code that clients act on, such as `context_length_exceeded`.
    pub(crate) code: Option<&'static str>,
    /// The field of the body that is wrong, such as `messages[0].content`.
    pub(crate) param: Option<String>,
    /// One sentence for people.
    pub(crate) message: String,
    /// When a retry may succeed.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) context: Option<ContextNumbers>,
}

impl ApiError {
    /// Returns an error with this status and message.
    pub(crate) fn new(status: StatusCode, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            code: None,
            param: None,
            message: message.into(),
            retry_after: None,
            context: None,
        }
    }

    /// Returns the error for a request that is wrong as a whole.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        let kind = ErrorKind::InvalidRequest;
        Self::new(StatusCode::BAD_REQUEST, kind, message)
    }

    /// Returns the error for one field of the body.
    pub(crate) fn field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            param: Some(param.into()),
            ..Self::bad_request(message)
        }
    }

    /// Returns the error for a field that this server does not support.
    pub(crate) fn unsupported(param: impl Into<String>) -> Self {
        let param = param.into();
        let message = format!("`{param}` is not supported here; leave it out");
        Self {
            code: Some("unsupported_parameter"),
            ..Self::field(param, message)
        }
    }

    /// Returns the error for a model that is not installed.
    pub(crate) fn model_not_found(message: impl Into<String>) -> Self {
        Self {
            code: Some("model_not_found"),
            param: Some("model".to_owned()),
            ..Self::new(StatusCode::NOT_FOUND, ErrorKind::NotFound, message)
        }
    }

    /// Returns the error of a server that can't answer now.
    pub(crate) fn overloaded(message: impl Into<String>, retry_after: Option<Duration>) -> Self {
        let (status, kind) = (StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Overloaded);
        Self {
            code: Some("overloaded"),
            retry_after,
            ..Self::new(status, kind, message)
        }
    }

    /// Returns the error of a client that has too many requests open.
    pub(crate) fn too_many_requests(message: impl Into<String>, retry_after: Duration) -> Self {
        let (status, kind) = (StatusCode::TOO_MANY_REQUESTS, ErrorKind::RateLimit);
        Self {
            code: Some("rate_limit_exceeded"),
            retry_after: Some(retry_after),
            ..Self::new(status, kind, message)
        }
    }

    /// Returns the error of a server or an engine that failed.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let (status, kind) = (StatusCode::INTERNAL_SERVER_ERROR, ErrorKind::Internal);
        Self::new(status, kind, message)
    }

    /// Returns the same error with another code.
    pub(crate) fn with_code(self, code: &'static str) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    /// Returns the body in the form of `protocol`.
    pub(crate) fn body(&self, protocol: Protocol, request_id: &str) -> Value {
        match protocol {
            Protocol::OpenAi => self.openai_body(),
            Protocol::Anthropic => json!({
                "type": "error",
                "error": { "type": self.anthropic_type(), "message": self.message },
                "request_id": request_id,
            }),
            Protocol::Ollama => json!({ "error": self.message }),
        }
    }

    /// Returns the body in the form of OpenAI's protocol, with the numbers of the context beside its
    /// four fields.
    pub(crate) fn openai_body(&self) -> Value {
        let mut error = json!({
            "message": self.message,
            "type": self.openai_type(),
            "param": self.param,
            "code": self.code,
        });
        if let Some(context) = self.context {
            error["n_prompt_tokens"] = context.prompt_tokens.into();
            error["n_ctx"] = context.context_length.into();
        }
        json!({ "error": error })
    }

    fn openai_type(&self) -> &'static str {
        match self.kind {
            ErrorKind::InvalidRequest
            | ErrorKind::Authentication
            | ErrorKind::NotFound
            | ErrorKind::TooLarge => "invalid_request_error",
            ErrorKind::Permission => "permission_error",
            ErrorKind::RateLimit => "rate_limit_error",
            ErrorKind::Overloaded => "overloaded_error",
            ErrorKind::Internal => "server_error",
        }
    }

    /// Returns the type that Anthropic's protocol gives this error.
    pub(crate) fn anthropic_type(&self) -> &'static str {
        match self.kind {
            ErrorKind::InvalidRequest => "invalid_request_error",
            ErrorKind::Authentication => "authentication_error",
            ErrorKind::Permission => "permission_error",
            ErrorKind::NotFound => "not_found_error",
            ErrorKind::TooLarge => "request_too_large",
            ErrorKind::RateLimit => "rate_limit_error",
            ErrorKind::Overloaded => "overloaded_error",
            ErrorKind::Internal => "api_error",
        }
    }

    /// Returns the response in the form of `protocol`.
    pub(crate) fn render(&self, protocol: Protocol, request_id: &str) -> Response {
        let body = self.body(protocol, request_id).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = match (protocol, self.kind) {
            // Anthropic's own status for an overloaded server, which its clients retry.
            (Protocol::Anthropic, ErrorKind::Overloaded) => {
                StatusCode::from_u16(529).unwrap_or(self.status)
            }
            _ => self.status,
        };
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        if let Some(seconds) = self.retry_after_seconds() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    /// Returns when a retry may succeed, in whole seconds.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        let (least, most) = RETRY_AFTER_SECONDS;
        let seconds = self.retry_after?.as_secs_f64().ceil() as u64;
        Some(seconds.clamp(least, most))
    }
}

/// Passes the error on to [`crate::door`], which renders it.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests;
