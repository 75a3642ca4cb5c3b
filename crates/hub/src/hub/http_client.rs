//! Sends HTTP requests: the client, the token and redirects.
//!
//! Rule: all requests go through this module. The token is added only if the address has the
//! endpoint's own origin, and a redirect from HTTPS to HTTP is refused.

use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, IF_RANGE, LOCATION, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::responses::{RequestContext, digest_of, status_error, strong_etag, text};
use super::{Resolved, names};
use crate::error::root_cause;
use crate::{HubError, HubOptions, Token, TokenSource, token};

/// The maximum number of redirects, so that a redirect loop ends.
const MAX_REDIRECTS: usize = 5;
/// The maximum size of a JSON response. Listings of the largest repositories are a few megabytes.
const MAX_JSON_BYTES: usize = 16 << 20;
/// How long a request waits for the user to unlock the keychain.
const KEYCHAIN_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct HttpClient {
    options: HubOptions,
    endpoint: Url,
    client: Client,
    token: Mutex<TokenState>,
}

#[derive(Debug)]
enum TokenState {
    /// The keychain is read at the first request, because it may ask the user for permission.
    NotRead,
    /// The keychain could not be read. Requests carry no token and do not try again; only
    /// [`HttpClient::has_token`] does.
    Unavailable,
    Known(Option<Token>),
}

#[derive(Debug, Clone)]
pub(crate) struct RangeRequest {
    pub(crate) range: std::ops::Range<u64>,
    /// Sent as `If-Range`: the server sends the range only if the file still has this strong ETag,
    /// otherwise the entire file.
    pub(crate) if_range: Option<String>,
}

#[derive(Debug)]
pub(crate) struct HubResponse {
    pub(crate) inner: Response,
    pub(crate) host: String,
    /// True if the request carried the token.
    has_token: bool,
}

impl HubResponse {
    pub(crate) fn strong_etag(&self) -> Option<String> {
        strong_etag(self.inner.headers())
    }

    /// Returns the next bytes of the body, or `None` at the end.
    pub(crate) async fn chunk(
        &mut self,
        silence: Duration,
        file: &str,
    ) -> Result<Option<impl AsRef<[u8]> + use<>>, HubError> {
        let Ok(chunk) = timeout(silence, self.inner.chunk()).await else {
            return Err(timed_out(&self.host, silence));
        };
        chunk.map_err(|_| HubError::Dropped {
            file: file.to_owned(),
        })
    }
}

impl HttpClient {
    pub(super) fn new(mut options: HubOptions) -> Result<Self, HubError> {
        let trimmed = options.endpoint.trim().trim_end_matches('/').to_owned();
        let bad = |reason: String| HubError::BadEndpoint {
            endpoint: without_credentials(&trimmed),
            reason,
        };
        let endpoint = Url::parse(&trimmed).map_err(|error| bad(error.to_string()))?;
        if !["http", "https"].contains(&endpoint.scheme()) || !endpoint.has_host() {
            return Err(bad("it must begin with https://".to_owned()));
        }
        if !endpoint.username().is_empty() || endpoint.password().is_some() {
            return Err(bad("it must not hold a user or password".to_owned()));
        }
        if endpoint.query().is_some() || endpoint.fragment().is_some() {
            return Err(bad("it must end before any ? or #".to_owned()));
        }
        // Set once per process. Another library may have set the same provider before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .user_agent(concat!("transom/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .referer(false)
            .connect_timeout(options.silence)
            .pool_idle_timeout(Duration::from_secs(30));
        if !options.uses_proxies {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| HubError::NoEncryption {
            reason: root_cause(&error.without_url()),
        })?;
        let token = match std::mem::take(&mut options.token) {
            TokenSource::Nothing => TokenState::Known(None),
            TokenSource::Given(token) => TokenState::Known(Some(token)),
            TokenSource::Keychain => TokenState::NotRead,
        };
        options.endpoint = trimmed;
        Ok(Self {
            options,
            endpoint,
            client,
            token: Mutex::new(token),
        })
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.options.endpoint
    }

    pub(super) fn not_a_hub(&self, what: &str) -> HubError {
        not_a_hub(&host_of(&self.endpoint), what)
    }

    pub(crate) fn silence(&self) -> Duration {
        self.options.silence
    }

    pub(super) fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.endpoint.clone();
        names::push(&mut url, segments.iter().copied());
        url
    }

    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        url: Url,
        context: &RequestContext,
    ) -> Result<T, HubError> {
        let mut response = self.send_following_redirects(url, None).await?;
        self.check(&response, context)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk(self.silence(), &context.subject()).await? {
            body.extend_from_slice(chunk.as_ref());
            if body.len() > MAX_JSON_BYTES {
                return Err(not_a_hub(&response.host, "its response does not end"));
            }
        }
        serde_json::from_slice(&body).map_err(|error| not_a_hub(&response.host, &error.to_string()))
    }

    /// Resolves a file with a HEAD request. A redirect within the endpoint means that the
    /// repository was renamed, and is followed. A redirect to another origin is the link that is
    /// returned.
    pub(super) async fn head(
        &self,
        mut url: Url,
        context: &RequestContext,
    ) -> Result<Resolved, HubError> {
        for _ in 0..MAX_REDIRECTS {
            let response = self.send(Method::HEAD, url.clone(), None).await?;
            let headers = response.inner.headers();
            let linked = text(headers, "x-linked-size");
            let is_linked = text(headers, "x-linked-etag").is_some() || linked.is_some();
            let next = self.redirect(&response, &url)?;
            if let Some(next) = &next
                && self.is_own(next)
                && !is_linked
            {
                url = next.clone();
                continue;
            }
            if next.is_none() {
                self.check(&response, context)?;
            }
            let length = || text(headers, CONTENT_LENGTH.as_str()).filter(|_| next.is_none());
            return Ok(Resolved {
                commit: text(headers, "x-repo-commit").map(str::to_owned),
                size_bytes: linked
                    .or_else(length)
                    .and_then(|text| text.trim().parse().ok()),
                digest: digest_of(headers),
                link: next.unwrap_or(url),
            });
        }
        Err(not_a_hub(&host_of(&url), "it redirects in a circle"))
    }

    /// Requests a range of a link, or all of it. Fails unless the status is 200 or 206.
    pub(crate) async fn get_bytes(
        &self,
        link: &Url,
        range: Option<&RangeRequest>,
        context: &RequestContext,
    ) -> Result<HubResponse, HubError> {
        let response = self.send_following_redirects(link.clone(), range).await?;
        self.check(&response, context)?;
        Ok(response)
    }

    async fn send_following_redirects(
        &self,
        mut url: Url,
        range: Option<&RangeRequest>,
    ) -> Result<HubResponse, HubError> {
        for _ in 0..MAX_REDIRECTS {
            let response = self.send(Method::GET, url.clone(), range).await?;
            match self.redirect(&response, &url)? {
                Some(next) => url = next,
                None => return Ok(response),
            }
        }
        Err(not_a_hub(&host_of(&url), "it redirects in a circle"))
    }

    async fn send(
        &self,
        method: Method,
        url: Url,
        range: Option<&RangeRequest>,
    ) -> Result<HubResponse, HubError> {
        if self.options.is_offline {
            return Err(HubError::Offline);
        }
        let host = host_of(&url);
        let is_own = self.is_own(&url);
        let mut request = self.client.request(method, url);
        // A compressed response would have another length and no ranges.
        request = request.header(ACCEPT_ENCODING, "identity");
        if let Some(range) = range {
            request = with_range(request, range);
        }
        let mut has_token = false;
        if is_own && let Some(token) = self.token().await {
            let line = zeroize::Zeroizing::new(format!("Bearer {}", token.reveal()));
            let mut value =
                reqwest::header::HeaderValue::from_str(&line).map_err(|_| HubError::NotAToken)?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
            has_token = true;
        }
        let Ok(sent) = timeout(self.silence(), request.send()).await else {
            return Err(timed_out(&host, self.silence()));
        };
        let response = sent.map_err(|error| connection_error(error, &host))?;
        Ok(HubResponse {
            inner: response,
            host,
            has_token,
        })
    }

    fn redirect(&self, response: &HubResponse, from: &Url) -> Result<Option<Url>, HubError> {
        let status = response.inner.status();
        if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let next = text(response.inner.headers(), LOCATION.as_str())
            .and_then(|location| from.join(location).ok())
            .filter(|next| ["http", "https"].contains(&next.scheme()))
            .ok_or_else(|| not_a_hub(&response.host, "it redirects to nowhere"))?;
        if from.scheme() == "https" && next.scheme() != "https" {
            return Err(HubError::NotSafe {
                host: host_of(&next),
                reason: "a safe address redirects to it without encryption".to_owned(),
            });
        }
        Ok(Some(next))
    }

    fn check(&self, response: &HubResponse, context: &RequestContext) -> Result<(), HubError> {
        let status = response.inner.status();
        if status.is_success() {
            return Ok(());
        }
        let headers = response.inner.headers();
        let endpoint = self.endpoint();
        let host = &response.host;
        let has_token = response.has_token;
        Err(status_error(
            status, headers, context, endpoint, host, has_token,
        ))
    }

    pub(crate) fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.endpoint.origin()
    }

    async fn token(&self) -> Option<Token> {
        let mut known = self.token.lock().await;
        match &*known {
            TokenState::Known(token) => return token.clone(),
            TokenState::Unavailable => return None,
            TokenState::NotRead => {}
        }
        match self.read_keychain().await {
            Ok(token) => {
                *known = TokenState::Known(token.clone());
                token
            }
            Err(error) => {
                tracing::debug!(%error, "no token from the keychain");
                *known = TokenState::Unavailable;
                None
            }
        }
    }

    async fn read_keychain(&self) -> Result<Option<Token>, HubError> {
        let endpoint = self.options.endpoint.clone();
        let task = tokio::task::spawn_blocking(move || token::get(&endpoint));
        match timeout(KEYCHAIN_TIMEOUT, task).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => Err(HubError::Stopped),
            Err(_) => Err(HubError::KeychainRefused {
                reason: "it is locked".to_owned(),
            }),
        }
    }

    pub(super) async fn set_token(&self, token: Option<Token>) -> Result<(), HubError> {
        let endpoint = self.options.endpoint.clone();
        let new_token = token.clone();
        let task = tokio::task::spawn_blocking(move || match &new_token {
            Some(token) => token::set(&endpoint, token),
            None => token::clear(&endpoint),
        });
        task.await.map_err(|_| HubError::Stopped)??;
        *self.token.lock().await = TokenState::Known(token);
        Ok(())
    }

    pub(super) async fn has_token(&self) -> Result<bool, HubError> {
        let mut known = self.token.lock().await;
        if let TokenState::Known(token) = &*known {
            return Ok(token.is_some());
        }
        let token = self.read_keychain().await?;
        let has_token = token.is_some();
        *known = TokenState::Known(token);
        Ok(has_token)
    }
}

fn with_range(request: RequestBuilder, bytes: &RangeRequest) -> RequestBuilder {
    let last = bytes.range.end.saturating_sub(1);
    let request = request.header(RANGE, format!("bytes={}-{last}", bytes.range.start));
    match &bytes.if_range {
        Some(etag) => request.header(IF_RANGE, etag),
        None => request,
    }
}

/// Returns the address without the parts that may contain a password.
fn without_credentials(endpoint: &str) -> String {
    let shown = endpoint.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = match shown.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), shown),
    };
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!("{scheme}{host}")
}

fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn not_a_hub(host: &str, what: &str) -> HubError {
    HubError::NotAHub {
        host: host.to_owned(),
        what: what.to_owned(),
    }
}

fn timed_out(host: &str, silence: Duration) -> HubError {
    HubError::Silent {
        host: host.to_owned(),
        seconds: silence.as_secs(),
    }
}

fn connection_error(error: reqwest::Error, host: &str) -> HubError {
    let error = error.without_url();
    let reason = root_cause(&error);
    let host = host.to_owned();
    if is_untrusted(&error) {
        return HubError::NotSafe { host, reason };
    }
    if error.is_connect() && reason.to_ascii_lowercase().contains("proxy auth") {
        return HubError::ProxyRefused;
    }
    if error.is_connect() || error.is_timeout() {
        return HubError::Unreachable { host, reason };
    }
    HubError::Dropped { file: host }
}

fn is_untrusted(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let tls = error.downcast_ref::<rustls::Error>().or_else(|| {
            // The stream's I/O error contains the error of rustls.
            let stream = error.downcast_ref::<std::io::Error>()?;
            stream.get_ref()?.downcast_ref::<rustls::Error>()
        });
        if let Some(rustls::Error::InvalidCertificate(_)) = tls {
            return true;
        }
        cause = error.source();
    }
    false
}
