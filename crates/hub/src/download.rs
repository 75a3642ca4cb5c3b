//! What is asked of the queue, and what it says about each download.
//!
//! Rule: these are plain values. Windows and terminals show them as they are; the queue's own file
//! keeps them over a restart.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::HubError;

/// A model that shall be in its folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// What the caller knows it by, for example a catalogue's id with the packing. A second
    /// download with the same key is the same download.
    pub key: String,
    /// What people read.
    pub name: String,
    /// `owner/name` on the hub.
    pub repository: String,
    /// A branch, tag or commit. It is pinned to a commit once the download began.
    pub revision: String,
    /// The files to fetch. Empty: what the hub lists, as [`crate::Listing::only_offer`] chooses.
    pub files: Vec<WantedFile>,
    /// The model's final folder. Files with names of their own in it are left alone.
    pub folder: PathBuf,
}

/// A file of a model, by its path within the repository, with `/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedFile {
    /// Its path within the repository and within the folder.
    pub name: String,
    /// Where known; a hub that says otherwise is not believed.
    pub size_bytes: Option<u64>,
    /// In hexadecimal, where known; a hub that says otherwise is not believed.
    pub sha256: Option<String>,
}

impl WantedFile {
    /// A file of which only the name is known.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            size_bytes: None,
            sha256: None,
        }
    }
}

/// A download's number; it survives a restart, and is not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct DownloadId(#[cfg_attr(feature = "bindings", ts(type = "number"))] pub u64);

impl fmt::Display for DownloadId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// One line of the queue, as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Download {
    /// Its number.
    pub id: DownloadId,
    /// What the caller knows it by.
    pub key: String,
    /// What people read.
    pub name: String,
    /// `owner/name` on the hub.
    pub repository: String,
    /// The model's final folder.
    pub folder: PathBuf,
    /// What it is doing.
    pub state: State,
    /// On this disk already, verified or not.
    #[cfg_attr(feature = "bindings", ts(type = "number"))]
    pub done_bytes: u64,
    /// Of all its files; `None` until the hub has said so.
    #[cfg_attr(feature = "bindings", ts(type = "number | null"))]
    pub total_bytes: Option<u64>,
    /// Smoothed; 0 unless downloading.
    #[cfg_attr(feature = "bindings", ts(type = "number"))]
    pub bytes_per_second: u64,
    /// At this rate; `None` while it cannot be told.
    #[cfg_attr(feature = "bindings", ts(type = "number | null"))]
    pub seconds_left: Option<u64>,
    /// The last thing that went wrong and was overcome, such as a file that started over.
    pub last_trouble: Option<HubError>,
}

/// What a download is doing. Serialised with its name as `is`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum State {
    /// For its turn.
    Waiting,
    /// Bytes come.
    Downloading,
    /// All bytes of a file are there and are being checked.
    Verifying {
        /// Of the file that is being checked.
        #[cfg_attr(feature = "bindings", ts(type = "number"))]
        done_bytes: u64,
        /// The size of that file.
        #[cfg_attr(feature = "bindings", ts(type = "number"))]
        total_bytes: u64,
    },
    /// Something went wrong that time may mend.
    Retrying {
        /// Until the next attempt, when this began.
        #[cfg_attr(feature = "bindings", ts(type = "number"))]
        seconds: u64,
        /// What went wrong.
        because: HubError,
    },
    /// Somebody paused it.
    Paused,
    /// The model is in its folder, whole.
    Done,
    /// It ended; `resume` tries again from what is there.
    Failed(HubError),
}

impl State {
    /// Whether nothing more happens by itself.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Done | Self::Failed(_))
    }

    /// Whether bytes come or are checked now.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Downloading | Self::Verifying { .. })
    }

    /// Whether it holds one of the places of downloads that run at once.
    pub fn is_running(&self) -> bool {
        matches!(
            self,
            Self::Downloading | Self::Verifying { .. } | Self::Retrying { .. }
        )
    }
}

/// Where in the queue a download shall stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Before all others. It begins at once, and the last of the running ones waits for it.
    First,
    /// Before this one.
    Before(DownloadId),
    /// After all others.
    Last,
}
