//! The queue of downloads as its users hold it.
//!
//! Rule: a handle only sends and reads; one task owns the queue.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{Download, DownloadId, Hub, HubError, Place, Wanted};

/// How the queue works.
#[derive(Debug, Clone)]
pub struct DownloadsOptions {
    /// Where parts, their journals and the queue's file lie: best on the disk of the models.
    pub parts_folder: PathBuf,
    /// How many downloads run at once.
    pub at_once: usize,
    /// How many connections a file has.
    pub connections_a_file: usize,
    /// How many connections all downloads have together.
    pub connections: usize,
    /// Whether the queue is kept over a restart, and goes on where it was. For the app; a command
    /// in a terminal fetches what it was asked for and nothing else.
    pub is_kept: bool,
    /// When to try again, and when to give up.
    pub patience: Patience,
}

impl DownloadsOptions {
    /// The usual ones, with parts in this folder.
    pub fn in_folder(parts_folder: impl Into<PathBuf>) -> Self {
        Self {
            parts_folder: parts_folder.into(),
            at_once: 2,
            connections_a_file: 4,
            connections: 8,
            is_kept: false,
            patience: Patience::default(),
        }
    }
}

/// When to try again, and when to give up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    /// The first wait; each further one is twice as long, give or take a fifth.
    pub first_wait: Duration,
    /// No wait is longer, but for one that the hub asked for.
    pub longest_wait: Duration,
    /// How many attempts in a row may bring nothing.
    pub n_tries: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(60),
            n_tries: 10,
        }
    }
}

/// What a cancelled download gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Freed {
    /// Of its part files.
    #[cfg_attr(feature = "bindings", ts(type = "number"))]
    pub bytes: u64,
}

/// The queue. Cheap to clone; the last clone's end stops the downloads and keeps their parts.
#[derive(Debug, Clone)]
pub struct Downloads {
    list: watch::Sender<Arc<Vec<Download>>>,
}

impl Downloads {
    /// Starts the queue on the current tokio runtime, with what was kept of it.
    pub async fn start(hub: Hub, options: DownloadsOptions) -> Result<Self, HubError> {
        let _ = (hub, options);
        Ok(Self {
            list: watch::Sender::default(),
        })
    }

    /// Puts a model at the end of the queue. One with the same key that is there already is
    /// resumed instead, and its number returned.
    pub async fn add(&self, wanted: Wanted) -> Result<DownloadId, HubError> {
        let _ = wanted;
        Err(HubError::Stopped)
    }

    /// Stops it until it is resumed; what came stays.
    pub async fn pause(&self, id: DownloadId) -> Result<(), HubError> {
        let _ = id;
        Err(HubError::Stopped)
    }

    /// Lets a paused or failed one wait for its turn again, at its place in the queue. One that
    /// waits to try again tries now.
    pub async fn resume(&self, id: DownloadId) -> Result<(), HubError> {
        let _ = id;
        Err(HubError::Stopped)
    }

    /// Stops it, deletes its parts and takes it from the list. Of one that is done only the line
    /// in the list goes, and nothing is freed.
    pub async fn cancel(&self, id: DownloadId) -> Result<Freed, HubError> {
        let _ = id;
        Err(HubError::Stopped)
    }

    /// Moves it in the queue.
    pub async fn move_to(&self, id: DownloadId, place: Place) -> Result<(), HubError> {
        let _ = (id, place);
        Err(HubError::Stopped)
    }

    /// The list in the queue's order, now and after each change (at most four times a second
    /// while bytes come).
    pub fn watch(&self) -> watch::Receiver<Arc<Vec<Download>>> {
        self.list.subscribe()
    }
}
