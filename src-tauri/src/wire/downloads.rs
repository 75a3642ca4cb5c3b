//! Downloads and the hub, as pages see them.
//!
//! Rule: an error is sent as a code with its values; pages have a sentence for each code.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// A download.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct DownloadView {
    /// The id for changing it.
    pub id: u64,
    /// The key of its variant.
    pub key: String,
    /// Display name.
    pub name: String,
    /// The current state.
    pub state: DownloadState,
    /// Bytes on disk.
    pub done_bytes: u64,
    /// Total bytes; `None` until the hub was asked.
    pub total_bytes: Option<u64>,
    /// The current rate.
    pub bytes_per_second: Option<u64>,
    /// The remaining time at this rate.
    pub seconds_left: Option<u64>,
}

/// The state of a download.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DownloadState {
    /// Queued behind other downloads.
    Waiting,
    /// Receiving data.
    Downloading,
    /// A complete file is being verified.
    Verifying {
        /// Progress from 0 to 1.
        fraction: f64,
    },
    /// It failed temporarily and will be retried.
    Retrying {
        /// Seconds until the retry.
        seconds: u64,
        /// The reason.
        error: HubErrorView,
    },
    /// The user paused it.
    Paused,
    /// The model is complete.
    Done {
        /// The id of the installed model, once its files were read.
        model: Option<String>,
    },
    /// It failed. The data so far is kept for the next attempt.
    Failed {
        /// The reason.
        error: HubErrorView,
    },
}

/// An error of the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct HubErrorView {
    /// The code of the hub crate, such as `disk_full`.
    pub code: String,
    /// The English sentence, for codes that a page does not know.
    pub reason: String,
    /// Values for the sentence: `file`, `host`, `needed_bytes`, ….
    #[ts(type = "Record<string, unknown>")]
    pub values: serde_json::Map<String, serde_json::Value>,
}

/// A change of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, TS)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum DownloadChange {
    /// Pause it and keep its data.
    Pause,
    /// Resume it, also after a failure.
    Resume,
    /// Cancel it and delete its data. A finished one is only removed from the list.
    Cancel,
    /// Move it to this position in the queue, counted from 0.
    Move {
        /// The position.
        position: usize,
    },
}

/// Settings for accessing the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct HubAccessView {
    /// There is a token in the keychain or in the environment. Pages never receive it.
    pub has_token: bool,
    /// The token comes from the environment (`HF_TOKEN`), so it can't be removed here.
    pub is_token_from_environment: bool,
    /// Why the keychain cannot store a token.
    pub keychain_problem: Option<HubErrorView>,
    /// The hub's address.
    pub endpoint: String,
    /// The address is the default.
    pub is_default_endpoint: bool,
    /// The address comes from the environment (`HF_ENDPOINT`), so it can't be changed here.
    pub is_endpoint_from_environment: bool,
    /// The environment disables the network (`HF_HUB_OFFLINE`).
    pub is_offline: bool,
}
