//! A download job: downloads one model, from the plan to the final folder.
//!
//! Rule: a job acts and `RetryPolicy` decides. A job may end at any moment, by a pause, a crash or
//! a power cut. Everything that it needs to resume is then in the parts folder.

mod plan_download;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::spawn_blocking;

use self::plan_download::{Outcome, PlanDownload};
use crate::digest::hex;
use crate::disk::disk_error;
use crate::lock::Lock;
use crate::part_file::remove_others;
use crate::plan::Plan;
use crate::publish::publish;
use crate::retry_policy::{AttemptError, RetryAction, RetryPolicy};
use crate::{DownloadId, DownloadRequest, DownloadsOptions, Hub, HubError, State};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) hub: Hub,
    pub(crate) options: DownloadsOptions,
    pub(crate) connections: Semaphore,
    /// The bytes that each running download has yet to write. Contains only downloads that passed
    /// the check for disk space.
    reserved_bytes: Mutex<HashMap<DownloadId, u64>>,
    /// Held during the check for disk space, so that one download checks at a time.
    pub(crate) disk_check: tokio::sync::Mutex<()>,
}

impl Shared {
    pub(crate) fn new(hub: Hub, options: DownloadsOptions) -> Self {
        Self {
            hub,
            connections: Semaphore::new(options.connections.max(1)),
            reserved_bytes: Mutex::default(),
            disk_check: tokio::sync::Mutex::default(),
            options,
        }
    }

    pub(crate) fn folder(&self, key: &str) -> PathBuf {
        let readable: String = key
            .chars()
            .take(60)
            .map(|letter| match letter {
                letter if letter.is_ascii_alphanumeric() => letter,
                _ => '-',
            })
            .collect();
        use sha2::Digest as _;
        let sum = hex(&sha2::Sha256::digest(key));
        let name = format!("{readable}-{}", &sum[..8]);
        self.options.parts_folder.join(name)
    }
}

/// What the queue tells a running job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JobControl {
    pub(crate) should_stop: bool,
    /// Incremented to end the delay before a retry.
    pub(crate) n_retry_requests: u32,
}

/// What a running job tells the queue.
#[derive(Debug, Clone)]
pub(crate) enum DownloadEvent {
    Progress {
        done: u64,
        total: u64,
    },
    State(State),
    Problem(HubError),
    /// `Err(Stopped)` if the queue stopped the job.
    Ended(Result<(), HubError>),
}

/// Sends events of one run of a download to the queue.
#[derive(Debug, Clone)]
pub(crate) struct EventSender {
    pub(crate) id: DownloadId,
    pub(crate) run: u64,
    pub(crate) sender: mpsc::UnboundedSender<(DownloadId, u64, DownloadEvent)>,
}

impl EventSender {
    pub(crate) fn send(&self, event: DownloadEvent) {
        // The receiver is gone while the program ends.
        let _ = self.sender.send((self.id, self.run, event));
    }

    /// Reports how much of a file is verified, unless it is so small that this takes only a moment.
    fn send_verified(&self, done_bytes: u64, total_bytes: u64) {
        const MIN_REPORTED_BYTES: u64 = 64 << 20;
        if total_bytes >= MIN_REPORTED_BYTES {
            self.send(DownloadEvent::State(State::Verifying {
                done_bytes,
                total_bytes,
            }));
        }
    }
}

pub(crate) struct Job {
    pub(crate) shared: Arc<Shared>,
    pub(crate) request: DownloadRequest,
    pub(crate) events: EventSender,
    pub(crate) control: watch::Receiver<JobControl>,
}

impl Job {
    pub(crate) async fn run(mut self) -> Result<(), HubError> {
        let folder = self.shared.folder(&self.request.key);
        let lock = Arc::new(self.lock(&folder).await?);
        let result = self.download(folder, &lock).await;
        // After the `Ended` event others may use or delete the part files.
        lock.wait_for_writes().await;
        result
    }

    async fn download(&mut self, folder: PathBuf, lock: &Arc<Lock>) -> Result<(), HubError> {
        let mut retry_policies = HashMap::new();
        // Files whose bytes stay although the blob store's ETag has changed.
        let mut etag_ignored = Vec::new();
        let mut is_outdated = false;
        let plan = loop {
            let plan = self.plan(&folder, is_outdated).await?;
            let mut plan_download = PlanDownload {
                job: self,
                folder: &folder,
                lock,
                plan: &plan,
                done_bytes: 0,
                in_place_bytes: 0,
            };
            match plan_download
                .download_all(&mut retry_policies, &mut etag_ignored)
                .await?
            {
                Outcome::Complete => break plan,
                Outcome::Replan => is_outdated = true,
            }
        };
        let guard = lock.guard();
        let finish = move || {
            let _guard = guard;
            publish(&folder, &plan)?;
            std::fs::remove_dir_all(&folder).map_err(|error| disk_error(&folder, &error))
        };
        blocking(finish).await
    }

    async fn lock(&mut self, folder: &Path) -> Result<Lock, HubError> {
        let mut retry_policy = self.new_retry_policy();
        loop {
            let (at, name) = (folder.to_owned(), self.request.name.clone());
            match blocking(move || Lock::take(&at, &name)).await {
                Err(error @ HubError::InUse { .. }) => {
                    self.wait_or_fail(&mut retry_policy, error).await?;
                }
                result => return result,
            }
        }
    }

    /// Returns the saved plan if it is not outdated, or a new plan from the hub.
    async fn plan(&mut self, folder: &Path, is_outdated: bool) -> Result<Plan, HubError> {
        if !is_outdated && let Some(plan) = Plan::load_for(folder, &self.request) {
            return Ok(plan);
        }
        let mut retry_policy = self.new_retry_policy();
        let plan = loop {
            self.events.send(DownloadEvent::State(State::Downloading));
            let (hub, request) = (&self.shared.hub, &self.request);
            let stopped = stopped(self.control.clone());
            let result = tokio::select! {
                plan = Plan::fetch(hub, request) => plan,
                () = stopped => Err(HubError::Stopped),
            };
            match result {
                Ok(plan) => break plan,
                Err(error) => self.wait_or_fail(&mut retry_policy, error).await?,
            }
        };
        let (at, old) = (folder.to_owned(), Plan::load(folder));
        let new = plan.clone();
        blocking(move || {
            remove_changed(&at, old.as_ref(), &new);
            new.save(&at)
        })
        .await?;
        Ok(plan)
    }

    fn new_retry_policy(&self) -> RetryPolicy {
        RetryPolicy::new(self.shared.options.retry.clone(), fastrand::u64(..))
    }

    /// Waits before the next attempt, or returns the error if retrying does not help. For errors
    /// that do not concern a file.
    async fn wait_or_fail(
        &mut self,
        retry_policy: &mut RetryPolicy,
        error: HubError,
    ) -> Result<(), HubError> {
        match retry_policy.next_action(&AttemptError::Hub(error.clone()), false) {
            RetryAction::Retry(time) => self.wait(time, error).await,
            _ => Err(error),
        }
    }

    /// Waits for the delay, or until the user asks to retry now.
    async fn wait(&mut self, time: Duration, error: HubError) -> Result<(), HubError> {
        self.events.send(DownloadEvent::Problem(error.clone()));
        let seconds = time.as_secs_f64().round() as u64;
        self.events
            .send(DownloadEvent::State(State::Retrying { seconds, error }));
        let now = *self.control.borrow_and_update();
        if now.should_stop {
            return Err(HubError::Stopped);
        }
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            changed = self.control.changed() => match changed {
                Ok(()) if !self.control.borrow().should_stop => Ok(()),
                _ => Err(HubError::Stopped),
            },
        }
    }
}

/// Returns when the queue wants the job to stop, or is gone.
async fn stopped(mut control: watch::Receiver<JobControl>) {
    let _ = control.wait_for(|control| control.should_stop).await;
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HubError> + Send + 'static,
) -> Result<T, HubError> {
    let done = spawn_blocking(work).await;
    done.unwrap_or(Err(HubError::Stopped))
}

fn remove_changed(folder: &Path, old: Option<&Plan>, new: &Plan) {
    remove_others(folder, &new.files);
    let Some(old) = old else {
        let _ = std::fs::remove_dir_all(folder.join("whole"));
        return;
    };
    for file in old.files.iter().filter(|file| !new.files.contains(file)) {
        let _ = std::fs::remove_file(Plan::verified_path(folder, file));
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.shared.reserved_bytes.lock().remove(&self.events.id);
    }
}

#[cfg(test)]
mod tests;
