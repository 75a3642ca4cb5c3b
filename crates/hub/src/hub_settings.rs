//! The hub that the user chose, for the app and the command line: one address in `hub.json` in the
//! data folder.
//!
//! Rule: environment variables have precedence, as in Hugging Face's own programs. The token is
//! never in this file; it is in the keychain.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk::save_json;
use crate::{HubError, HubOptions, PUBLIC_HUB};

const ENDPOINT: &str = "HF_ENDPOINT";
const TOKENS: [&str; 2] = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct HubSettings {
    endpoint: Option<String>,
}

/// Returns how to reach the hub: from the environment, else as the user chose, else the default.
pub fn options(data_folder: &Path) -> Result<HubOptions, HubError> {
    let mut options = HubOptions::from_environment()?;
    if !is_endpoint_from_environment()
        && let Some(endpoint) = read(data_folder).endpoint
    {
        options.endpoint = endpoint;
    }
    Ok(options)
}

/// Saves the user's hub address; `None` restores the default.
pub fn save_endpoint(data_folder: &Path, endpoint: Option<String>) -> Result<(), HubError> {
    save_json(&path(data_folder), &HubSettings { endpoint })
}

/// Returns true if this is the address of the default hub.
pub fn is_default(endpoint: &str) -> bool {
    endpoint.trim_end_matches('/') == PUBLIC_HUB
}

/// Returns true if the environment contains the hub's address.
pub fn is_endpoint_from_environment() -> bool {
    is_set(ENDPOINT)
}

/// Returns true if the environment contains a token.
pub fn is_token_from_environment() -> bool {
    TOKENS.iter().any(|name| is_set(name))
}

fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| !value.trim().is_empty())
}

/// Reads the saved settings. A missing or damaged file means the defaults.
fn read(data_folder: &Path) -> HubSettings {
    let text = std::fs::read(path(data_folder)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn path(data_folder: &Path) -> PathBuf {
    data_folder.join("hub.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_endpoint_can_be_reset() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).endpoint, None);
        save_endpoint(folder.path(), Some("https://mirror.example".to_owned())).unwrap();
        let saved = read(folder.path()).endpoint;
        assert_eq!(saved.as_deref(), Some("https://mirror.example"));
        save_endpoint(folder.path(), None).unwrap();
        assert_eq!(read(folder.path()).endpoint, None);
    }

    #[test]
    fn a_damaged_file_means_the_default_endpoint() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(path(folder.path()), "{ \"endpoint\": ").unwrap();
        assert_eq!(read(folder.path()).endpoint, None);
    }
}
