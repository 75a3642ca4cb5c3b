//! The handle of the download queue.
//!
//! Rule: a handle only sends commands and reads the list; one task owns the queue (`driver`).

mod driver;
mod saved_queue;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use self::driver::{Command, Driver};
use crate::hub::{check_file, check_repository};
use crate::{
    Download, DownloadId, DownloadRequest, DownloadsOptions, Hub, HubError, QueuePosition,
};

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
