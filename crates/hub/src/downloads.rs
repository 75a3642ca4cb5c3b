//! The queue of downloads as its users hold it.
//!
//! Rule: a handle only sends and reads; one task owns the queue (`driver`).

mod driver;
mod kept;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use self::driver::{Command, Driver};
use crate::disk::{Disk, RealDisk};
use crate::hub::{check_file, check_repository};
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
    /// A connection asks for this many bytes at once.
    pub piece_bytes: u64,
    /// What a download leaves free on the disk.
    pub spare_bytes: u64,
    /// What parts are written to; another one than the machine's is for tests.
    pub disk: Arc<dyn Disk>,
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
            piece_bytes: 32 << 20,
            spare_bytes: 500_000_000,
            disk: Arc::new(RealDisk),
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
    commands: mpsc::UnboundedSender<Command>,
    list: watch::Receiver<Arc<Vec<Download>>>,
}

impl Downloads {
    /// Starts the queue on the current tokio runtime, with what was kept of it.
    pub async fn start(hub: Hub, options: DownloadsOptions) -> Result<Self, HubError> {
        let driver = Driver::open(hub, options).await?;
        let (commands, inbox) = mpsc::unbounded_channel();
        let list = driver.watch();
        tokio::spawn(driver.run(inbox));
        Ok(Self { commands, list })
    }

    /// Puts a model at the end of the queue. One with the same key that is there already is
    /// resumed instead, and its number returned.
    pub async fn add(&self, wanted: Wanted) -> Result<DownloadId, HubError> {
        check_repository(&wanted.repository)?;
        for file in &wanted.files {
            check_file(&file.name)?;
        }
        self.ask(|reply| Command::Add(Box::new(wanted), reply))
            .await
    }

    /// Stops it until it is resumed; what came stays.
    pub async fn pause(&self, id: DownloadId) -> Result<(), HubError> {
        self.ask(|reply| Command::Pause(id, reply)).await
    }

    /// Lets a paused or failed one wait for its turn again, at its place in the queue. One that
    /// waits to try again tries now.
    pub async fn resume(&self, id: DownloadId) -> Result<(), HubError> {
        self.ask(|reply| Command::Resume(id, reply)).await
    }

    /// Stops it, deletes its parts and takes it from the list. Of one that is done only the line
    /// in the list goes, and nothing is freed.
    pub async fn cancel(&self, id: DownloadId) -> Result<Freed, HubError> {
        self.ask(|reply| Command::Cancel(id, reply)).await
    }

    /// Moves it in the queue.
    pub async fn move_to(&self, id: DownloadId, place: Place) -> Result<(), HubError> {
        self.ask(|reply| Command::Move(id, place, reply)).await
    }

    /// Stops all downloads and returns when what came is safe on the disk. They go on at the next
    /// start, where the queue is kept.
    pub async fn stop(&self) {
        let (reply, stopped) = oneshot::channel();
        if self.commands.send(Command::Stop(reply)).is_ok() {
            let _ = stopped.await;
        }
    }

    /// The list in the queue's order, now and after each change (at most four times a second
    /// while bytes come).
    pub fn watch(&self) -> watch::Receiver<Arc<Vec<Download>>> {
        self.list.clone()
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, HubError>>) -> Command,
    ) -> Result<T, HubError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.commands.send(command(reply));
        sent.map_err(|_| HubError::Stopped)?;
        answer.await.unwrap_or(Err(HubError::Stopped))
    }
}
