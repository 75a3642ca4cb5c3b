//! One download from its wish to the model in its folder.
//!
//! Rule: it acts, `Course` decides. It may end at any moment, by a pause, a crash or a power cut:
//! everything that it needs to go on is in the parts folder by then.

mod work;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::spawn_blocking;

use self::work::{Outcome, Work};
use crate::course::{Course, Fault, Step};
use crate::digest::hex;
use crate::disk::trouble;
use crate::lock::Lock;
use crate::part::remove_others;
use crate::plan::Plan;
use crate::publish::publish;
use crate::{DownloadId, DownloadsOptions, Hub, HubError, State, Wanted};

/// What all downloads of a queue share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) hub: Hub,
    pub(crate) options: DownloadsOptions,
    pub(crate) connections: Semaphore,
    /// What running downloads have still to write; only of those for which there was room.
    pub(crate) claims: Mutex<HashMap<DownloadId, u64>>,
    /// One at a time asks for room.
    pub(crate) asks_for_room: tokio::sync::Mutex<()>,
}

impl Shared {
    pub(crate) fn new(hub: Hub, options: DownloadsOptions) -> Self {
        Self {
            hub,
            connections: Semaphore::new(options.connections.max(1)),
            claims: Mutex::default(),
            asks_for_room: tokio::sync::Mutex::default(),
            options,
        }
    }

    /// Where the parts of this download lie.
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

/// What the queue tells a running download.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) stop: bool,
    /// Changes when a wait shall end now.
    pub(crate) n_nudges: u32,
}

/// What a running download tells the queue.
#[derive(Debug, Clone)]
pub(crate) enum News {
    Bytes {
        done: u64,
        total: u64,
    },
    State(State),
    Trouble(HubError),
    /// `Stopped` if it was asked to stop.
    Ended(Result<(), HubError>),
}

/// Tells the queue about one run of one download.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    pub(crate) id: DownloadId,
    pub(crate) run: u64,
    pub(crate) news: mpsc::UnboundedSender<(DownloadId, u64, News)>,
}

impl Teller {
    pub(crate) fn tell(&self, news: News) {
        // Nobody listens any more while the program ends.
        let _ = self.news.send((self.id, self.run, news));
    }
}

/// One run of one download.
pub(crate) struct Job {
    pub(crate) shared: Arc<Shared>,
    pub(crate) wanted: Wanted,
    pub(crate) teller: Teller,
    pub(crate) order: watch::Receiver<Order>,
}

impl Job {
    pub(crate) async fn run(mut self) -> Result<(), HubError> {
        let folder = self.shared.folder(&self.wanted.key);
        let lock = Arc::new(self.lock(&folder).await?);
        let result = self.work(folder, &lock).await;
        // Who hears of the end may take the parts over, or delete them.
        lock.settled().await;
        result
    }

    async fn work(&mut self, folder: PathBuf, lock: &Arc<Lock>) -> Result<(), HubError> {
        let mut courses = HashMap::new();
        // The files whose bytes stay although the store's marks of them differ.
        let mut unmarked = Vec::new();
        let mut is_stale = false;
        let plan = loop {
            let plan = self.plan(&folder, is_stale).await?;
            let mut work = Work {
                job: self,
                folder: &folder,
                lock,
                plan: &plan,
                done_bytes: 0,
                placed_bytes: 0,
            };
            match work.files(&mut courses, &mut unmarked).await? {
                Outcome::Whole => break plan,
                Outcome::AskAnew => is_stale = true,
            }
        };
        let guard = lock.held();
        let finish = move || {
            let _guard = guard;
            publish(&folder, &plan)?;
            std::fs::remove_dir_all(&folder).map_err(|error| trouble(&folder, &error))
        };
        blocking(finish).await
    }

    async fn lock(&mut self, folder: &Path) -> Result<Lock, HubError> {
        let mut course = self.course();
        loop {
            let (at, name) = (folder.to_owned(), self.wanted.name.clone());
            match blocking(move || Lock::take(&at, &name)).await {
                Err(error @ HubError::InUse { .. }) => {
                    self.after(&mut course, error).await?;
                }
                result => return result,
            }
        }
    }

    /// The plan that was kept and is not stale, or a new one from the hub.
    async fn plan(&mut self, folder: &Path, is_stale: bool) -> Result<Plan, HubError> {
        if !is_stale && let Some(plan) = Plan::kept(folder, &self.wanted) {
            return Ok(plan);
        }
        let mut course = self.course();
        let plan = loop {
            self.teller.tell(News::State(State::Downloading));
            let (hub, wanted) = (&self.shared.hub, &self.wanted);
            let stopped = stopped(self.order.clone());
            let asked = tokio::select! {
                plan = Plan::ask(hub, wanted) => plan,
                () = stopped => Err(HubError::Stopped),
            };
            match asked {
                Ok(plan) => break plan,
                Err(error) => self.after(&mut course, error).await?,
            }
        };
        let (at, old) = (folder.to_owned(), Plan::any_kept(folder));
        let new = plan.clone();
        blocking(move || {
            forget_changed(&at, old.as_ref(), &new);
            new.keep(&at)
        })
        .await?;
        Ok(plan)
    }

    fn course(&self) -> Course {
        Course::new(self.shared.options.patience.clone(), fastrand::u64(..))
    }

    /// What follows from an error outside of any file: a wait, or the end.
    async fn after(&mut self, course: &mut Course, error: HubError) -> Result<(), HubError> {
        match course.after(&Fault::Hub(error.clone()), false) {
            Step::Again(time) => self.wait(time, error).await,
            _ => Err(error),
        }
    }

    /// Waits, but not longer than people want.
    async fn wait(&mut self, time: Duration, because: HubError) -> Result<(), HubError> {
        self.teller.tell(News::Trouble(because.clone()));
        let seconds = time.as_secs_f64().round() as u64;
        self.teller
            .tell(News::State(State::Retrying { seconds, because }));
        let now = *self.order.borrow_and_update();
        if now.stop {
            return Err(HubError::Stopped);
        }
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            changed = self.order.changed() => match changed {
                Ok(()) if !self.order.borrow().stop => Ok(()),
                _ => Err(HubError::Stopped),
            },
        }
    }
}

/// Returns when the queue wants the download to stop, or is gone.
async fn stopped(mut order: watch::Receiver<Order>) {
    let _ = order.wait_for(|order| order.stop).await;
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HubError> + Send + 'static,
) -> Result<T, HubError> {
    let done = spawn_blocking(work).await;
    done.unwrap_or(Err(HubError::Stopped))
}

/// Removes what came of files that are other files in the new plan.
fn forget_changed(folder: &Path, old: Option<&Plan>, new: &Plan) {
    remove_others(folder, &new.files);
    let Some(old) = old else {
        let _ = std::fs::remove_dir_all(folder.join("whole"));
        return;
    };
    for file in old.files.iter().filter(|file| !new.files.contains(file)) {
        let _ = std::fs::remove_file(Plan::whole_path(folder, file));
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let claims = self.shared.claims.lock();
        let mut claims = claims.unwrap_or_else(PoisonError::into_inner);
        claims.remove(&self.teller.id);
    }
}

#[cfg(test)]
mod schedules;
