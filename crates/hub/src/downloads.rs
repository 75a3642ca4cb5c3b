//! The handle of the download queue.
//!
//! Rule: a handle only sends commands and reads the list; one task owns the queue (`driver`).

mod driver;
mod saved_queue;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use self::driver::{Command, Driver};
use crate::disk::{Disk, RealDisk};
use crate::hub::{check_file, check_repository};
use crate::{Download, DownloadId, DownloadRequest, Hub, HubError, QueuePosition};

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

/// The download queue. Cheap to clone. When the last clone is dropped, all downloads stop and their
/// part files stay.
#[derive(Debug, Clone)]
pub struct Downloads {
    commands: mpsc::UnboundedSender<Command>,
    list: watch::Receiver<Arc<Vec<Download>>>,
}

impl Downloads {
    /// Starts the queue on the current tokio runtime and restores the saved downloads.
    pub async fn start(hub: Hub, options: DownloadsOptions) -> Result<Self, HubError> {
        let driver = Driver::open(hub, options).await?;
        let (commands, receiver) = mpsc::unbounded_channel();
        let list = driver.watch();
        tokio::spawn(driver.run(receiver));
        Ok(Self { commands, list })
    }

    /// Adds a download to the end of the queue and returns its id. If the queue already has a
    /// download with the same key, that one is resumed.
    pub async fn add(&self, request: DownloadRequest) -> Result<DownloadId, HubError> {
        check_repository(&request.repository)?;
        for file in &request.files {
            check_file(&file.name)?;
        }
        self.send(|reply| Command::Add(Box::new(request), reply))
            .await
    }

    /// Pauses a download; its part files stay.
    pub async fn pause(&self, id: DownloadId) -> Result<(), HubError> {
        self.send(|reply| Command::Pause(id, reply)).await
    }

    /// Queues a paused or failed download again, at its position in the queue. A download that
    /// waits before a retry tries again now.
    pub async fn resume(&self, id: DownloadId) -> Result<(), HubError> {
        self.send(|reply| Command::Resume(id, reply)).await
    }

    /// Stops a download, deletes its part files, removes it from the list and returns the number of
    /// freed bytes. A finished download is only removed from the list, and 0 is returned.
    pub async fn cancel(&self, id: DownloadId) -> Result<u64, HubError> {
        self.send(|reply| Command::Cancel(id, reply)).await
    }

    /// Moves a download in the queue.
    pub async fn move_to(&self, id: DownloadId, place: QueuePosition) -> Result<(), HubError> {
        self.send(|reply| Command::Move(id, place, reply)).await
    }

    /// Stops all downloads and returns when their bytes are synced to the disk. If the queue is
    /// saved, they continue after the next start.
    pub async fn stop(&self) {
        let (reply, stopped) = oneshot::channel();
        if self.commands.send(Command::Stop(reply)).is_ok() {
            let _ = stopped.await;
        }
    }

    /// Watches the list in the order of the queue. It is updated after each change, at most four
    /// times per second while bytes arrive.
    pub fn watch(&self) -> watch::Receiver<Arc<Vec<Download>>> {
        self.list.clone()
    }

    async fn send<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, HubError>>) -> Command,
    ) -> Result<T, HubError> {
        let (reply, response) = oneshot::channel();
        let sent = self.commands.send(command(reply));
        sent.map_err(|_| HubError::Stopped)?;
        response.await.unwrap_or(Err(HubError::Stopped))
    }
}
