//! Requests to the download queue, and the state of each download.
//!
//! Rule: these types are plain values. Windows and terminals show them as they are, and the queue
//! file stores requests across restarts.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::HubError;

/// A request to download a model into a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadRequest {
    /// The caller's key for the download, for example the id that the model will have. A second
    /// request with the same key is the same download.
    pub key: String,
    /// The name that users see.
    pub name: String,
    /// `owner/name` on the hub.
    pub repository: String,
    /// A branch, tag or commit. The download pins it to a commit when it starts.
    pub revision: String,
    /// The files to download. If empty, [`crate::Listing::default_variant`] chooses them.
    pub files: Vec<RequestedFile>,
    /// The final folder of the model. Other files in it are not touched.
    pub folder: PathBuf,
}

/// A file of a model. Its path is relative to the repository, with `/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedFile {
    /// The path within the repository and within the folder.
    pub name: String,
    /// The size, if known. The download fails if the hub has another size.
    pub size_bytes: Option<u64>,
    /// The checksum in hexadecimal, if known. The download fails if the hub has another one.
    pub sha256: Option<String>,
}

impl RequestedFile {
    /// A file of which only the name is known.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            size_bytes: None,
            sha256: None,
        }
    }
}

/// The id of a download. It stays the same across restarts and is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DownloadId(pub u64);

impl fmt::Display for DownloadId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// A snapshot of one download in the queue.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Download {
    /// The id.
    pub id: DownloadId,
    /// The caller's key.
    pub key: String,
    /// The name that users see.
    pub name: String,
    /// `owner/name` on the hub.
    pub repository: String,
    /// The final folder of the model.
    pub folder: PathBuf,
    /// What the download is doing.
    pub state: State,
    /// Bytes on the disk, verified or not.
    pub done_bytes: u64,
    /// Bytes of all files; `None` until the hub's listing is known.
    pub total_bytes: Option<u64>,
    /// The smoothed rate; 0 unless downloading.
    pub bytes_per_second: u64,
    /// The remaining time at this rate; `None` if it cannot be estimated.
    pub seconds_left: Option<u64>,
    /// The last error that the download recovered from, for example a damaged file that was
    /// downloaded again.
    pub last_error: Option<HubError>,
}

/// The state of a download. Serialized with its name as `is`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum State {
    /// Waits for a free slot.
    Queued,
    /// Receives bytes.
    Downloading,
    /// All bytes of a file are on the disk, and the checksum is being computed.
    Verifying {
        /// Bytes of this file that are checked.
        done_bytes: u64,
        /// The size of this file.
        total_bytes: u64,
    },
    /// Waits before it retries after a temporary failure.
    Retrying {
        /// The delay, from the start of this state.
        seconds: u64,
        /// The error that caused the retry.
        error: HubError,
    },
    /// The user paused it.
    Paused,
    /// The complete model is in its folder.
    Done,
    /// It failed. `resume` tries again from the bytes on the disk.
    Failed(HubError),
}

impl State {
    /// Returns true if the download does nothing more unless it is resumed.
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Done | Self::Failed(_))
    }

    /// Returns true if the download receives or verifies bytes now.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Downloading | Self::Verifying { .. })
    }
}

/// A position in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuePosition {
    /// Before all others. The download starts at once; if no slot is free, the last running
    /// download is queued again.
    First,
    /// Before this download.
    Before(DownloadId),
    /// After all others.
    Last,
}
