//! Which hub the user chose, for the app and the command line: one address in `hub.json` of the data
//! folder.
//!
//! Rule: the environment wins, as for the hub's own programs. The token is never here: it is in the
//! keychain.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk::{replace, trouble};
use crate::{HubError, HubOptions, PUBLIC_HUB};

/// Names the hub in the environment.
const ENDPOINT: &str = "HF_ENDPOINT";
/// Hold a token in the environment.
const TOKENS: [&str; 2] = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Chosen {
    endpoint: Option<String>,
}

/// How to reach the hub: as the environment says, else as the user chose, else as usual.
pub fn options(data_folder: &Path) -> Result<HubOptions, HubError> {
    let mut options = HubOptions::from_environment()?;
    if !is_endpoint_from_environment()
        && let Some(endpoint) = read(data_folder).endpoint
    {
        options.endpoint = endpoint;
    }
    Ok(options)
}

/// Keeps another address; `None` for the usual one.
pub fn keep(data_folder: &Path, endpoint: Option<String>) -> Result<(), HubError> {
    let path = path(data_folder);
    let text = serde_json::to_vec_pretty(&Chosen { endpoint }).unwrap_or_default();
    replace(&path, &text).map_err(|error| trouble(&path, &error))
}

/// Whether this is the hub that is asked when nobody chose.
pub fn is_default(endpoint: &str) -> bool {
    endpoint.trim_end_matches('/') == PUBLIC_HUB
}

/// Whether the environment says where the hub is.
pub fn is_endpoint_from_environment() -> bool {
    is_set(ENDPOINT)
}

/// Whether the environment holds a token.
pub fn is_token_from_environment() -> bool {
    TOKENS.iter().any(|name| is_set(name))
}

fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| !value.trim().is_empty())
}

/// What was chosen; nothing if the file is not there or damaged.
fn read(data_folder: &Path) -> Chosen {
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
    fn a_chosen_hub_is_kept_and_can_be_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).endpoint, None);
        keep(folder.path(), Some("https://mirror.example".to_owned())).unwrap();
        let kept = read(folder.path()).endpoint;
        assert_eq!(kept.as_deref(), Some("https://mirror.example"));
        keep(folder.path(), None).unwrap();
        assert_eq!(read(folder.path()).endpoint, None);
    }

    #[test]
    fn a_damaged_choice_is_none() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(path(folder.path()), "{ \"endpoint\": ").unwrap();
        assert_eq!(read(folder.path()).endpoint, None);
    }
}
