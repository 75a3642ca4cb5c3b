//! Interprets responses of the hub: converts error statuses to errors and parses headers.
//!
//! Rule: each status has its own case. The hub's own `X-Error-Code` has precedence over the status,
//! because the hub sends 401 also for repositories that do not exist.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{CONTENT_RANGE, ETAG, HeaderMap, RETRY_AFTER};

use crate::HubError;
use crate::digest::Digest;

/// The longest accepted `Retry-After`. Longer values are not realistic.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// The subject of a request, for error messages.
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    pub(crate) repository: String,
    pub(crate) revision: String,
    pub(crate) file: Option<String>,
}

impl RequestContext {
    pub(crate) fn of(repository: &str, revision: &str) -> Self {
        Self {
            repository: repository.to_owned(),
            revision: revision.to_owned(),
            file: None,
        }
    }

    /// Returns the file, or the repository if the request is not about a file.
    pub(crate) fn subject(&self) -> String {
        self.file.clone().unwrap_or_else(|| self.repository.clone())
    }
}

pub(super) fn status_error(
    status: StatusCode,
    headers: &HeaderMap,
    context: &RequestContext,
    endpoint: &str,
    host: &str,
    has_token: bool,
) -> HubError {
    let repository = context.repository.clone();
    let host = host.to_owned();
    let file = || context.subject();
    let seconds =
        || retry_after(headers, SystemTime::now()).map(|retry_after| retry_after.as_secs());
    match text(headers, "x-error-code") {
        Some("GatedRepo") => {
            return HubError::Gated {
                page: format!("{endpoint}/{repository}"),
                repository,
            };
        }
        Some("RevisionNotFound") => {
            return HubError::RevisionNotFound {
                repository,
                revision: context.revision.clone(),
            };
        }
        Some("EntryNotFound") => {
            return HubError::FileNotFound {
                repository,
                file: file(),
            };
        }
        Some("RepoNotFound") if has_token || status == StatusCode::NOT_FOUND => {
            return HubError::RepositoryNotFound { repository };
        }
        _ => {}
    }
    match status.as_u16() {
        401 if has_token => HubError::TokenRefused { host },
        401 => HubError::TokenNeeded { repository },
        403 => HubError::Forbidden { host, what: file() },
        404 | 410 if context.file.is_some() => HubError::FileNotFound {
            repository,
            file: file(),
        },
        404 | 410 => HubError::RepositoryNotFound { repository },
        407 => HubError::ProxyRefused,
        416 => HubError::RangeRefused { host, file: file() },
        429 => HubError::TooManyRequests {
            host,
            seconds: seconds(),
        },
        408 | 500..=599 => HubError::ServerTrouble {
            host,
            status: status.as_u16(),
            seconds: seconds(),
        },
        _ => HubError::NotAHub {
            host,
            what: format!("status {}", status.as_u16()),
        },
    }
}

/// Returns how long to wait before the next request: `Retry-After` in seconds or as a date, or the
/// time until the rate limit resets (`RateLimit: "api";r=0;t=120`).
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let after = text(headers, RETRY_AFTER.as_str()).and_then(|value| {
        let seconds = value.trim().parse().map(Duration::from_secs).ok();
        seconds.or_else(|| {
            let date = httpdate::parse_http_date(value).ok()?;
            Some(date.duration_since(now).unwrap_or_default())
        })
    });
    let limit = || {
        let value = text(headers, "ratelimit")?;
        let t = value
            .split(';')
            .find_map(|part| part.trim().strip_prefix("t="))?;
        t.parse().map(Duration::from_secs).ok()
    };
    Some(after.or_else(limit)?.min(MAX_RETRY_AFTER))
}

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the checksum in the headers. The hub's own header has precedence over the blob store's
/// ETag.
pub(super) fn digest_of(headers: &HeaderMap) -> Option<Digest> {
    let linked = text(headers, "x-linked-etag").and_then(Digest::from_etag);
    linked.or_else(|| text(headers, ETAG.as_str()).and_then(Digest::from_etag))
}

/// Returns the ETag if it is strong. Only a strong ETag is valid in `If-Range`.
pub(super) fn strong_etag(headers: &HeaderMap) -> Option<String> {
    let etag = text(headers, ETAG.as_str())?;
    (!etag.starts_with("W/") && etag.starts_with('"')).then(|| etag.to_owned())
}

/// Parses `Content-Range`: `bytes 0-99/1000` is 0..100 and 1000.
pub(crate) fn content_range(headers: &HeaderMap) -> Option<(Range<u64>, u64)> {
    let value = text(headers, CONTENT_RANGE.as_str())?.strip_prefix("bytes ")?;
    let (span, total) = value.split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let first: u64 = first.trim().parse().ok()?;
    let last: u64 = last.trim().parse().ok()?;
    let end = last.checked_add(1)?;
    (first <= last).then_some((first..end, total.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    fn refused(status: u16, lines: &[(&'static str, &str)], file: bool, token: bool) -> HubError {
        let context = RequestContext {
            file: file.then(|| "model.gguf".to_owned()),
            ..RequestContext::of("owner/name", "main")
        };
        let status = StatusCode::from_u16(status).unwrap();
        let endpoint = "https://hub.example";
        status_error(
            status,
            &headers(lines),
            &context,
            endpoint,
            "hub.example",
            token,
        )
    }

    #[test]
    fn each_error_status_has_its_own_code() {
        for (status, code, file, token, expected) in [
            (401, "", false, false, "token_needed"),
            (401, "", false, true, "token_refused"),
            (401, "RepoNotFound", false, false, "token_needed"),
            (401, "RepoNotFound", false, true, "repository_not_found"),
            (401, "GatedRepo", true, false, "gated"),
            (403, "GatedRepo", true, true, "gated"),
            (403, "", true, true, "forbidden"),
            (404, "RepoNotFound", false, false, "repository_not_found"),
            (404, "RevisionNotFound", false, false, "revision_not_found"),
            (404, "EntryNotFound", true, false, "file_not_found"),
            (404, "", true, false, "file_not_found"),
            (407, "", false, false, "proxy_refused"),
            (416, "", true, false, "range_refused"),
            (429, "", false, false, "too_many_requests"),
            (500, "", false, false, "server_trouble"),
            (504, "", false, false, "server_trouble"),
            (418, "", false, false, "not_a_hub"),
        ] {
            let error = refused(status, &[("x-error-code", code)], file, token);
            assert_eq!(error.code(), expected, "{status} {code}");
            let json = serde_json::to_value(&error).unwrap();
            assert_eq!(json["code"], expected);
            assert_eq!(serde_json::from_value::<HubError>(json).unwrap(), error);
        }
    }

    #[test]
    fn the_error_for_a_gated_model_contains_its_page() {
        let error = refused(403, &[("x-error-code", "GatedRepo")], true, true);
        assert!(
            error.to_string().contains("https://hub.example/owner/name"),
            "{error}"
        );
    }

    #[test]
    fn retry_after_is_read_from_seconds_a_date_or_the_rate_limit() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (name, value, seconds) in [
            ("retry-after", "40", Some(40)),
            ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT", Some(30)),
            ("retry-after", "Sun, 06 Nov 1994 08:49:07 GMT", Some(0)),
            ("retry-after", "99999999", Some(3600)),
            ("retry-after", "soon", None),
            ("ratelimit", "\"api\";r=0;t=120", Some(120)),
            ("other", "1", None),
        ] {
            let retry_after = retry_after(&headers(&[(name, value)]), now);
            assert_eq!(
                retry_after.map(|retry_after| retry_after.as_secs()),
                seconds,
                "{value}"
            );
        }
    }

    #[test]
    fn content_ranges_are_parsed_or_rejected() {
        let span = |value| content_range(&headers(&[("content-range", value)]));
        assert_eq!(span("bytes 5-9/20"), Some((5..10, 20)));
        for value in ["bytes 9-5/20", "bytes */20", "5-9/20", "bytes 5-9/*"] {
            assert_eq!(span(value), None, "{value}");
        }
    }
}
