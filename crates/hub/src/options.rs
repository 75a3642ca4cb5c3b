//! Which hub, with which token, and whether the network may be used at all.
//!
//! Rule: the names of the environment are those of the hub's official client, so that who has set
//! it up once has set up Transom as well.

use std::env;
use std::time::Duration;

use crate::{HubError, Token};

/// The hub that is asked when nothing else is set.
pub const PUBLIC_HUB: &str = "https://huggingface.co";

/// How to reach a hub.
#[derive(Debug, Clone)]
pub struct HubOptions {
    /// Its address, such as [`PUBLIC_HUB`] or a mirror's.
    pub endpoint: String,
    /// Where the token comes from.
    pub token: TokenSource,
    /// Nothing is asked of the network.
    pub is_offline: bool,
    /// How long a connection or an answer may take to begin, and how long it may be silent.
    pub silence: Duration,
    /// Proxies of the environment and the system are used; off for hubs on this machine.
    pub uses_proxies: bool,
}

/// Where the token comes from.
#[derive(Debug, Clone, Default)]
pub enum TokenSource {
    /// No token is sent.
    Nothing,
    /// This one.
    Given(Token),
    /// The system's keychain, asked once, at the first request.
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
    /// `HF_ENDPOINT`, `HF_TOKEN` (otherwise the keychain) and `HF_HUB_OFFLINE`. Proxies
    /// (`HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`) are read when the hub is opened.
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
    fn the_environment_says_where_with_what_and_whether() {
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
