//! Downloads and the hub in a window's terms.
//!
//! Rule: what went wrong crosses as a code with its numbers; pages have a sentence for each code.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// A model that is being fetched, or was.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
pub struct DownloadView {
    /// By which it is changed.
    pub id: u64,
    /// The key of the variant that it is of.
    pub key: String,
    /// Name for people.
    pub name: String,
    /// What it does.
    pub state: DownloadState,
    /// Bytes that are there.
    pub done_bytes: u64,
    /// Bytes in all; `None` until the hub was asked.
    pub total_bytes: Option<u64>,
    /// Of late.
    pub bytes_per_second: Option<u64>,
    /// At this rate.
    pub seconds_left: Option<u32>,
}

/// What a download does.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DownloadState {
    /// Others are before it.
    Waiting,
    /// Bytes come.
    Downloading,
    /// All bytes of a file are there and are checked.
    Verifying {
        /// How far, from 0 to 1.
        fraction: f64,
    },
    /// It failed for now and goes on by itself.
    Retrying {
        /// In so many seconds.
        seconds: u32,
        /// Why.
        because: TroubleView,
    },
    /// The user paused it.
    Paused,
    /// It is in its place.
    Done {
        /// The model that it is, once its files were read.
        model: Option<String>,
    },
    /// It ended; what is there is kept for the next attempt.
    Failed {
        /// Why.
        because: TroubleView,
    },
}

/// What went wrong with the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct TroubleView {
    /// The hub room's own code, such as `disk_full`.
    pub code: String,
    /// The sentence in English, for codes that a page has no sentence for.
    pub reason: String,
    /// What the sentence is filled with: `file`, `host`, `needed_bytes`, ….
    #[ts(type = "Record<string, unknown>")]
    pub values: serde_json::Map<String, serde_json::Value>,
}

/// What to do with a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, TS)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum DownloadChange {
    /// Stop for now; what is there is kept.
    Pause,
    /// Go on, also after a failure.
    Resume,
    /// Give up, and delete what is there of it; one that is done is only taken off the list.
    Cancel,
    /// Put it at this place of the order, from 0.
    Move {
        /// The place.
        place: u32,
    },
}

/// How the hub is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
pub struct HubAccessView {
    /// There is a token, in the keychain or in the environment. It is never shown.
    pub has_token: bool,
    /// The token is the environment's (`HF_TOKEN`), so it cannot be taken away here.
    pub is_token_from_environment: bool,
    /// Why the keychain cannot keep one; in English.
    pub keychain_problem: Option<String>,
    /// Where models are fetched from.
    pub endpoint: String,
    /// Nobody chose another.
    pub is_default_endpoint: bool,
    /// The environment says where (`HF_ENDPOINT`), so it cannot be chosen here.
    pub is_endpoint_from_environment: bool,
    /// The environment forbids the network (`HF_HUB_OFFLINE`).
    pub is_offline: bool,
}
