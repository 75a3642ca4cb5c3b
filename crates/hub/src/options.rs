//! How to reach a hub (its address, the token, whether the network may be used), and how to
//! download from it.
//!
//! Rule: the environment variables have the names of Hugging Face's own client, so users configure
//! both at once.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use transom_signals::KeepAwake;

use crate::{Disk, HubError, RealDisk, Token};

/// The default hub.
pub const PUBLIC_HUB: &str = "https://huggingface.co";

/// How to reach a hub.
#[derive(Debug, Clone)]
pub struct HubOptions {
    /// The address, such as [`PUBLIC_HUB`] or that of a mirror.
    pub endpoint: String,
    /// The source of the token.
    pub token: TokenSource,
    /// True if no network requests may be sent.
    pub is_offline: bool,
    /// The timeout for a connection, for the start of a response, and for silence during a
    /// response.
    pub silence: Duration,
    /// Whether to use the proxies of the environment and the system. Off for hubs on this machine.
    pub uses_proxies: bool,
}

/// The source of the token.
#[derive(Debug, Clone, Default)]
pub enum TokenSource {
    /// Send no token.
    Nothing,
    /// Use this token.
    Given(Token),
    /// Read the system's keychain once, at the first request.
    #[default]
    Keychain,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self {
            endpoint: PUBLIC_HUB.to_owned(),
            token: TokenSource::default(),
            is_offline: false,
            silence: Duration::from_secs(30),
            uses_proxies: true,
        }
    }
}

impl HubOptions {
    /// Reads `HF_ENDPOINT`, `HF_TOKEN` (otherwise the keychain) and `HF_HUB_OFFLINE`. Proxies
    /// (`HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`) are read when the hub's client is created.
    pub fn from_environment() -> Result<Self, HubError> {
        Self::from_variables(|name| env::var(name).ok())
    }

    fn from_variables(read: impl Fn(&str) -> Option<String>) -> Result<Self, HubError> {
        let set = |name: &str| {
            let value = read(name)?.trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        let mut options = Self::default();
        if let Some(endpoint) = set("HF_ENDPOINT") {
            options.endpoint = endpoint;
        }
        if let Some(token) = set("HF_TOKEN").or_else(|| set("HUGGING_FACE_HUB_TOKEN")) {
            options.token = TokenSource::Given(Token::new(token)?);
        }
        options.is_offline = ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]
            .iter()
            .any(|name| set(name).is_some_and(|value| is_yes(&value)));
        Ok(options)
    }
}

/// Options of the download queue.
#[derive(Debug, Clone)]
pub struct DownloadsOptions {
    /// The folder of the part files, their journals and the queue file. It should be on the same
    /// disk as the models.
    pub parts_folder: PathBuf,
    /// The maximum number of downloads that run at the same time.
    pub max_concurrent: usize,
    /// The maximum number of connections per file.
    pub connections_per_file: usize,
    /// The maximum number of connections of all downloads.
    pub connections: usize,
    /// The number of bytes in one range request.
    pub piece_bytes: u64,
    /// The number of bytes that a download leaves free on the disk.
    pub spare_bytes: u64,
    /// The disk that part files are written to. Tests use another one than the real disk.
    pub disk: Arc<dyn Disk>,
    /// Prevents the machine from sleeping until the result is dropped. Called while bytes are
    /// received or verified. Tests use another function.
    pub keep_awake: fn() -> Box<dyn Send + Sync>,
    /// Whether the queue is saved and continues after a restart. The app saves it; a command in a
    /// terminal downloads only what it was asked for.
    pub is_persistent: bool,
    /// The limits and delays of retries.
    pub retry: RetryOptions,
}

impl DownloadsOptions {
    /// The default options, with part files in this folder.
    pub fn in_folder(parts_folder: impl Into<PathBuf>) -> Self {
        Self {
            parts_folder: parts_folder.into(),
            max_concurrent: 2,
            connections_per_file: 4,
            connections: 8,
            piece_bytes: 32 << 20,
            spare_bytes: 500_000_000,
            disk: Arc::new(RealDisk),
            keep_awake: || Box::new(KeepAwake::begin("a model is downloading")),
            is_persistent: false,
            retry: RetryOptions::default(),
        }
    }
}

/// The limits and delays of retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOptions {
    /// The first delay. Each further delay is twice as long, plus or minus 20 %.
    pub initial_delay: Duration,
    /// The maximum delay, unless the hub asks for a longer one.
    pub max_delay: Duration,
    /// The maximum number of attempts in a row without progress.
    pub max_attempts: u32,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(60),
            max_attempts: 10,
        }
    }
}

fn is_yes(value: &str) -> bool {
    ["1", "on", "yes", "true"].contains(&&*value.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> HubOptions {
        let variables: Vec<(String, String)> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        HubOptions::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        })
        .unwrap()
    }

    #[test]
    fn the_environment_sets_endpoint_token_and_offline() {
        let options = read(&[
            ("HF_ENDPOINT", "https://mirror.example"),
            ("HF_TOKEN", "hf_secret"),
            ("HF_HUB_OFFLINE", "1"),
        ]);
        assert_eq!(options.endpoint, "https://mirror.example");
        assert!(matches!(options.token, TokenSource::Given(_)));
        assert!(options.is_offline);
        assert!(!format!("{options:?}").contains("secret"));
    }

    #[test]
    fn an_empty_environment_means_the_public_hub_and_the_keychain() {
        let options = read(&[("HF_ENDPOINT", " "), ("HF_HUB_OFFLINE", "0")]);
        assert_eq!(options.endpoint, PUBLIC_HUB);
        assert!(matches!(options.token, TokenSource::Keychain));
        assert!(!options.is_offline);
    }
}
