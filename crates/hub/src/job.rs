//! One download from its wish to the model in its folder.
//!
//! Rule: it acts, `Course` decides. It may end at any moment, by a pause, a crash or a power cut:
//! everything that it needs to go on is in the parts folder by then.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::spawn_blocking;

use crate::course::{Course, Fault, Step};
use crate::digest::hex;
use crate::disk::trouble;
use crate::fetch::{Attempt, Told};
use crate::lock::Lock;
use crate::part::{Identity, Part, WriteError, remove_others};
use crate::plan::Plan;
use crate::publish::publish;
use crate::{DownloadId, DownloadsOptions, Hub, HubError, State, Wanted};

/// A check that takes less than this is not worth a word.
const QUICK_CHECK: u64 = 64 << 20;

/// What all downloads of a queue share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) hub: Hub,
    pub(crate) options: DownloadsOptions,
    pub(crate) connections: Semaphore,
    /// What running downloads have still to write.
    pub(crate) claims: Mutex<HashMap<DownloadId, u64>>,
}

impl Shared {
    pub(crate) fn new(hub: Hub, options: DownloadsOptions) -> Self {
        Self {
            hub,
            connections: Semaphore::new(options.connections.max(1)),
            claims: Mutex::default(),
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

/// How the work on a plan ended.
enum Outcome {
    Whole,
    /// The hub has other files now.
    AskAnew,
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
        let plan = loop {
            let plan = self.plan(&folder).await?;
            let mut work = Work {
                job: self,
                folder: &folder,
                lock,
                plan: &plan,
                done_bytes: 0,
            };
            match work.files(&mut courses, &mut unmarked).await? {
                Outcome::Whole => break plan,
                Outcome::AskAnew => Plan::forget(&folder),
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

    /// The plan that was kept, or a new one from the hub.
    async fn plan(&mut self, folder: &Path) -> Result<Plan, HubError> {
        if let Some(plan) = Plan::kept(folder, &self.wanted) {
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

/// Work on the files of a plan.
struct Work<'a> {
    job: &'a mut Job,
    folder: &'a Path,
    lock: &'a Arc<Lock>,
    plan: &'a Plan,
    /// Of files that are whole.
    done_bytes: u64,
}

impl Work<'_> {
    async fn files(
        &mut self,
        courses: &mut HashMap<String, Course>,
        unmarked: &mut Vec<Identity>,
    ) -> Result<Outcome, HubError> {
        let missing = self.missing().await?;
        self.check_room(&missing).await?;
        for file in missing {
            let course = courses
                .entry(file.name.clone())
                .or_insert_with(|| self.job.course());
            match self.file(&file, course, unmarked).await? {
                Outcome::Whole => self.done_bytes += file.size_bytes,
                Outcome::AskAnew => return Ok(Outcome::AskAnew),
            }
        }
        Ok(Outcome::Whole)
    }

    /// The files that are not whole yet, neither among the parts nor in the model's folder.
    async fn missing(&mut self) -> Result<Vec<Identity>, HubError> {
        let mut missing = Vec::new();
        for file in &self.plan.files {
            let has_size = |path: &Path| {
                let metadata = std::fs::metadata(path);
                metadata.is_ok_and(|data| data.is_file() && data.len() == file.size_bytes)
            };
            let place = self.plan.final_path(file);
            let is_there = has_size(&Plan::whole_path(self.folder, file))
                || (has_size(&place) && self.is_same(&place, file).await?);
            if is_there {
                self.done_bytes += file.size_bytes;
            } else {
                missing.push(file.clone());
            }
        }
        Ok(missing)
    }

    /// Whether the file that is in the model's folder already is the one that is wanted.
    async fn is_same(&self, path: &Path, file: &Identity) -> Result<bool, HubError> {
        let (path, file) = (path.to_owned(), file.clone());
        let teller = self.job.teller.clone();
        let order = self.job.order.clone();
        blocking(move || {
            use std::io::Read;
            let at = |error: std::io::Error| trouble(&path, &error);
            let mut data = std::fs::File::open(&path).map_err(at)?;
            let mut sum = file.digest.begin(file.size_bytes);
            let mut step = vec![0; 1 << 20];
            let mut done_bytes = 0;
            loop {
                let n_bytes = data.read(&mut step).map_err(at)?;
                if n_bytes == 0 {
                    return Ok(sum.end() == file.digest);
                }
                if order.borrow().stop {
                    return Err(HubError::Stopped);
                }
                sum.add(&step[..n_bytes]);
                done_bytes += n_bytes as u64;
                if file.size_bytes >= QUICK_CHECK {
                    teller.tell(News::State(State::Verifying {
                        done_bytes,
                        total_bytes: file.size_bytes,
                    }));
                }
            }
        })
        .await
    }

    /// Counts what is still to be written, and whether the disk has room for it.
    async fn check_room(&self, missing: &[Identity]) -> Result<(), HubError> {
        let there: u64 = missing
            .iter()
            .map(|file| Part::len_on_disk(self.folder, file))
            .sum();
        let due: u64 = missing.iter().map(|file| file.size_bytes).sum();
        self.tell_bytes(there);
        let needed_bytes = due.saturating_sub(there);
        if needed_bytes == 0 {
            return Ok(());
        }
        let claimed: u64 = {
            let claims = self.job.shared.claims.lock();
            let claims = claims.unwrap_or_else(PoisonError::into_inner);
            let others = claims.iter().filter(|(id, _)| **id != self.job.teller.id);
            others.map(|(_, bytes)| bytes).sum()
        };
        let needed_bytes = needed_bytes + self.job.shared.options.spare_bytes;
        let disk = Arc::clone(&self.job.shared.options.disk);
        let folder = self.folder.to_owned();
        let guard = self.lock.held();
        blocking(move || {
            let _guard = guard;
            let free = disk.free_bytes(&folder);
            let free = free.map_err(|error| trouble(&folder, &error))?;
            let free_bytes = free.saturating_sub(claimed);
            if free_bytes < needed_bytes {
                return Err(HubError::DiskFull {
                    folder,
                    needed_bytes,
                    free_bytes,
                });
            }
            Ok(())
        })
        .await
    }

    fn tell_bytes(&self, part_bytes: u64) {
        let (done, total) = (self.done_bytes + part_bytes, self.plan.total_bytes());
        let id = self.job.teller.id;
        let claims = self.job.shared.claims.lock();
        let mut claims = claims.unwrap_or_else(PoisonError::into_inner);
        claims.insert(id, total.saturating_sub(done));
        drop(claims);
        self.job.teller.tell(News::Bytes { done, total });
    }

    /// Fetches one file, with as many attempts as its course allows.
    async fn file(
        &mut self,
        file: &Identity,
        course: &mut Course,
        unmarked: &mut Vec<Identity>,
    ) -> Result<Outcome, HubError> {
        let mut part = self.open(file).await?;
        loop {
            if unmarked.contains(file) {
                part.ignore_etag();
            }
            self.job.teller.tell(News::State(State::Downloading));
            let before = part.len();
            let result = self.attempt(&part, course.is_whole_only()).await;
            self.tell_bytes(part.len());
            let Err(fault) = result else {
                let to = Plan::whole_path(self.folder, file);
                let guard = self.lock.held();
                blocking(move || {
                    let _guard = guard;
                    part.finish(&to)
                })
                .await?;
                return Ok(Outcome::Whole);
            };
            let has_progressed = part.len() > before;
            if has_progressed {
                // What cannot be noted is only fetched again.
                let _ = part.save().await;
            }
            let error = fault.error().clone();
            match course.after(&fault, has_progressed) {
                Step::Again(time) => self.job.wait(time, error).await?,
                Step::AskAnew(time) => {
                    unmarked.push(file.clone());
                    self.job.wait(time, error).await?;
                    return Ok(Outcome::AskAnew);
                }
                Step::StartOver(time) => {
                    part.discard();
                    self.tell_bytes(0);
                    self.job.wait(time, error).await?;
                    part = self.open(file).await?;
                }
                Step::Discard => {
                    part.discard();
                    self.tell_bytes(0);
                    return Err(error);
                }
                Step::GiveUp if is_gone(&error) && !unmarked.contains(file) => {
                    // The commit may have been replaced since it was pinned.
                    unmarked.push(file.clone());
                    self.job.teller.tell(News::Trouble(error));
                    return Ok(Outcome::AskAnew);
                }
                Step::GiveUp => return Err(error),
            }
        }
    }

    async fn open(&self, file: &Identity) -> Result<Part, HubError> {
        let (folder, file) = (self.folder.to_owned(), file.clone());
        let lock = Arc::clone(self.lock);
        let disk = Arc::clone(&self.job.shared.options.disk);
        let opened = blocking(move || Ok(Part::open(&folder, &file, &lock, &disk))).await?;
        opened.map_err(|error| match error {
            WriteError::Full => self.full(0),
            WriteError::Other(error) => error,
        })
    }

    fn full(&self, part_bytes: u64) -> HubError {
        let options = &self.job.shared.options;
        let done = self.done_bytes + part_bytes;
        HubError::DiskFull {
            folder: self.folder.to_owned(),
            needed_bytes: self.plan.total_bytes().saturating_sub(done),
            free_bytes: options.disk.free_bytes(self.folder).unwrap_or(0),
        }
    }

    async fn attempt(&self, part: &Part, is_whole_only: bool) -> Result<(), Fault> {
        let shared = &self.job.shared;
        let size_bytes = part.file().size_bytes;
        let told = |told| match told {
            Told::Written => self.tell_bytes(part.len()),
            Told::Checked(done_bytes) if size_bytes >= QUICK_CHECK => {
                self.job.teller.tell(News::State(State::Verifying {
                    done_bytes,
                    total_bytes: size_bytes,
                }));
            }
            Told::Checked(_) => {}
        };
        let attempt = Attempt {
            hub: &shared.hub,
            options: &shared.options,
            connections: &shared.connections,
            repository: &self.plan.wanted.repository,
            commit: &self.plan.commit,
            part,
            is_whole_only,
            told: &told,
            full: &|| self.full(part.len()),
        };
        tokio::select! {
            result = attempt.run() => result,
            () = stopped(self.job.order.clone()) => Err(Fault::Hub(HubError::Stopped)),
        }
    }
}

/// Whether the hub no longer has what the plan names.
fn is_gone(error: &HubError) -> bool {
    matches!(
        error,
        HubError::RevisionNotFound { .. } | HubError::FileNotFound { .. }
    )
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
