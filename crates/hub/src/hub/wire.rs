//! Requests as they go out: which client, which token, which redirects.
//!
//! Rule: every request goes through here. The token is added only where the address is of the
//! endpoint's own origin, and a safe connection is never left for an unsafe one.

use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, IF_RANGE, LOCATION, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::answers::{About, digest_of, refusal, strong_etag, text};
use super::{Resolved, names};
use crate::error::deepest;
use crate::{HubError, HubOptions, Token, TokenSource, token};

/// More than any hub needs; a circle ends here.
const MOST_REDIRECTS: usize = 5;
/// A listing of the largest repositories is a few megabytes.
const LONGEST_JSON: usize = 16 << 20;
/// How long a locked keychain may keep a request waiting for its owner.
const KEYCHAIN: Duration = Duration::from_secs(20);

/// Connections to a hub and its blob stores.
#[derive(Debug)]
pub(crate) struct Wire {
    options: HubOptions,
    endpoint: Url,
    client: Client,
    token: Mutex<Known>,
}

/// What is known of the token.
#[derive(Debug)]
enum Known {
    /// The keychain is asked at the first request, since it may ask its owner.
    NotYet,
    /// It gave no answer. Requests go without a token and do not wait for it again, until somebody
    /// wants to know whether there is one.
    Refused,
    Token(Option<Token>),
}

/// Which bytes of a link to ask for.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// `None` for the whole file.
    pub(crate) range: Option<std::ops::Range<u64>>,
    /// Only if the file still has this strong ETag; otherwise all of it comes.
    pub(crate) if_range: Option<String>,
}

/// A part's answer, before its bytes.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) response: Response,
    pub(crate) host: String,
}

impl Answer {
    pub(crate) fn strong_etag(&self) -> Option<String> {
        strong_etag(self.response.headers())
    }

    /// The next bytes, or `None` at the end.
    pub(crate) async fn chunk(
        &mut self,
        silence: Duration,
        file: &str,
    ) -> Result<Option<impl AsRef<[u8]> + use<>>, HubError> {
        let Ok(chunk) = timeout(silence, self.response.chunk()).await else {
            return Err(silent(&self.host, silence));
        };
        chunk.map_err(|_| HubError::Dropped {
            file: file.to_owned(),
        })
    }
}

impl Wire {
    pub(super) fn new(mut options: HubOptions) -> Result<Self, HubError> {
        let trimmed = options.endpoint.trim().trim_end_matches('/').to_owned();
        let bad = |reason: String| HubError::BadEndpoint {
            endpoint: without_secrets(&trimmed),
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
        // Set once a process; another library may have been first, with the same meaning.
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
        let client = client
            .build()
            .map_err(|error| bad(deepest(&error.without_url())))?;
        let token = match std::mem::take(&mut options.token) {
            TokenSource::Nothing => Known::Token(None),
            TokenSource::Given(token) => Known::Token(Some(token)),
            TokenSource::Keychain => Known::NotYet,
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

    /// The error for an answer of the endpoint that no hub gives.
    pub(super) fn not_a_hub(&self, what: &str) -> HubError {
        not_a_hub(&host_of(&self.endpoint), what)
    }

    /// How long nothing may come.
    pub(crate) fn silence(&self) -> Duration {
        self.options.silence
    }

    /// The endpoint's address with these segments behind it.
    pub(super) fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.endpoint.clone();
        names::push(&mut url, segments.iter().copied());
        url
    }

    /// Asks for JSON.
    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        url: Url,
        about: &About,
    ) -> Result<T, HubError> {
        let (mut answer, has_token) = self.ask(Method::GET, url, None).await?;
        self.check(&answer, about, has_token)?;
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk(self.silence(), &about.what()).await? {
            body.extend_from_slice(chunk.as_ref());
            if body.len() > LONGEST_JSON {
                return Err(not_a_hub(&answer.host, "its answer does not end"));
            }
        }
        serde_json::from_slice(&body).map_err(|error| not_a_hub(&answer.host, &error.to_string()))
    }

    /// Asks what a file is and where it lies. A redirect within the endpoint is a renamed
    /// repository and is followed; one to another host is the answer.
    pub(super) async fn head(&self, url: Url, about: &About) -> Result<Resolved, HubError> {
        let mut url = url;
        for _ in 0..MOST_REDIRECTS {
            let (answer, has_token) = self.request(Method::HEAD, url.clone(), None).await?;
            let headers = answer.response.headers();
            let linked = text(headers, "x-linked-size");
            let is_here = text(headers, "x-linked-etag").is_some() || linked.is_some();
            let next = self.redirect(&answer, &url)?;
            if let Some(next) = &next
                && self.is_own(next)
                && !is_here
            {
                url = next.clone();
                continue;
            }
            if next.is_none() {
                self.check(&answer, about, has_token)?;
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

    /// Asks a link for bytes. The answer is 200 or 206; all else is an error.
    pub(crate) async fn part(
        &self,
        link: &Url,
        part: &Part,
        about: &About,
    ) -> Result<Answer, HubError> {
        let (answer, has_token) = self.ask(Method::GET, link.clone(), Some(part)).await?;
        self.check(&answer, about, has_token)?;
        Ok(answer)
    }

    /// Follows redirects to the end.
    async fn ask(
        &self,
        method: Method,
        url: Url,
        part: Option<&Part>,
    ) -> Result<(Answer, bool), HubError> {
        let mut url = url;
        for _ in 0..MOST_REDIRECTS {
            let (answer, has_token) = self.request(method.clone(), url.clone(), part).await?;
            match self.redirect(&answer, &url)? {
                Some(next) => url = next,
                None => return Ok((answer, has_token)),
            }
        }
        Err(not_a_hub(&host_of(&url), "it redirects in a circle"))
    }

    /// One request. Says also whether it carried the token.
    async fn request(
        &self,
        method: Method,
        url: Url,
        part: Option<&Part>,
    ) -> Result<(Answer, bool), HubError> {
        if self.options.is_offline {
            return Err(HubError::Offline);
        }
        let host = host_of(&url);
        let is_own = self.is_own(&url);
        let mut request = self.client.request(method, url);
        // A compressed answer would have another length and no ranges.
        request = request.header(ACCEPT_ENCODING, "identity");
        if let Some(part) = part {
            request = with_part(request, part);
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
            return Err(silent(&host, self.silence()));
        };
        let response = sent.map_err(|error| failure(error, &host))?;
        Ok((Answer { response, host }, has_token))
    }

    /// Where an answer sends on to, if it does.
    fn redirect(&self, answer: &Answer, from: &Url) -> Result<Option<Url>, HubError> {
        let status = answer.response.status();
        if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let next = text(answer.response.headers(), LOCATION.as_str())
            .and_then(|location| from.join(location).ok())
            .filter(|next| ["http", "https"].contains(&next.scheme()))
            .ok_or_else(|| not_a_hub(&answer.host, "it redirects to nowhere"))?;
        if from.scheme() == "https" && next.scheme() != "https" {
            return Err(HubError::NotSafe {
                host: host_of(&next),
                reason: "a safe address redirects to it without encryption".to_owned(),
            });
        }
        Ok(Some(next))
    }

    fn check(&self, answer: &Answer, about: &About, has_token: bool) -> Result<(), HubError> {
        let status = answer.response.status();
        if status.is_success() {
            return Ok(());
        }
        let headers = answer.response.headers();
        let endpoint = self.endpoint();
        let host = &answer.host;
        Err(refusal(status, headers, about, endpoint, host, has_token))
    }

    /// Scheme, host and port are the endpoint's.
    pub(crate) fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.endpoint.origin()
    }

    async fn token(&self) -> Option<Token> {
        let mut known = self.token.lock().await;
        match &*known {
            Known::Token(token) => return token.clone(),
            Known::Refused => return None,
            Known::NotYet => {}
        }
        match self.ask_keychain().await {
            Ok(token) => {
                *known = Known::Token(token.clone());
                token
            }
            Err(error) => {
                tracing::debug!(%error, "no token from the keychain");
                *known = Known::Refused;
                None
            }
        }
    }

    async fn ask_keychain(&self) -> Result<Option<Token>, HubError> {
        let endpoint = self.options.endpoint.clone();
        let asked = tokio::task::spawn_blocking(move || token::get(&endpoint));
        match timeout(KEYCHAIN, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(HubError::Stopped),
            Err(_) => Err(HubError::KeychainRefused {
                reason: "it is locked".to_owned(),
            }),
        }
    }

    pub(super) async fn set_token(&self, token: Option<Token>) -> Result<(), HubError> {
        let endpoint = self.options.endpoint.clone();
        let kept = token.clone();
        let asked = tokio::task::spawn_blocking(move || match &kept {
            Some(token) => token::set(&endpoint, token),
            None => token::clear(&endpoint),
        });
        asked.await.map_err(|_| HubError::Stopped)??;
        *self.token.lock().await = Known::Token(token);
        Ok(())
    }

    pub(super) async fn has_token(&self) -> Result<bool, HubError> {
        let mut known = self.token.lock().await;
        if let Known::Token(token) = &*known {
            return Ok(token.is_some());
        }
        let token = self.ask_keychain().await?;
        let has_token = token.is_some();
        *known = Known::Token(token);
        Ok(has_token)
    }
}

fn with_part(request: RequestBuilder, part: &Part) -> RequestBuilder {
    let Some(range) = &part.range else {
        return request;
    };
    let last = range.end.saturating_sub(1);
    let request = request.header(RANGE, format!("bytes={}-{last}", range.start));
    match &part.if_range {
        Some(etag) => request.header(IF_RANGE, etag),
        None => request,
    }
}

/// An address as it may be shown: what may hold a password is left out.
fn without_secrets(endpoint: &str) -> String {
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

fn silent(host: &str, silence: Duration) -> HubError {
    HubError::Silent {
        host: host.to_owned(),
        seconds: silence.as_secs(),
    }
}

/// Why no answer came at all.
fn failure(error: reqwest::Error, host: &str) -> HubError {
    let error = error.without_url();
    let reason = deepest(&error);
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

/// Whether the verifier said no somewhere below.
fn is_untrusted(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let tls = error.downcast_ref::<rustls::Error>().or_else(|| {
            // rustls travels inside the error of a stream.
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
