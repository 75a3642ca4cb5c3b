//! SavedFile states: the KV caches that unloaded models leave on disk until they are loaded again.
//!
//! A saved state holds the tokens of a private conversation. Rule: the folder is for this user and
//! this supervisor only. It is emptied when the supervisor starts and when it ends, and meanwhile
//! holds one state per model, four states and 4 GiB at most, none for longer than a day.
//!
//! A state that is not saved costs a prefill, so nothing here fails. The driver never waits for a
//! disk: changes to the folder run in order on a task of their own, and what reads a model's files
//! runs on the way to its worker.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, Metadata, Permissions};
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};
use transom_engine::{KvCacheChoice, Limits, ModelSource};
use transom_engine_host::remove_leftovers;

use crate::core::{MAX_SAVED_STATE_BYTES, WorkerId};
use crate::request::ModelSelector;

/// States that are kept at once: those of the models that somebody switches between.
const MAX_FILES: usize = 4;

/// How long a state is kept.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);

/// How often the ages are checked at least. Timers stand still while the machine sleeps; files age.
const AGE_CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// Free space that saving must leave alone, and how many times its own size it may take at most.
const MIN_FREE_BYTES: u64 = 5_000_000_000;
const MIN_FREE_RATIO: u64 = 4;

/// See the head of this file.
pub(super) struct SavedStates {
    /// `None` saves nothing.
    folder: Option<PathBuf>,
    /// Places that a worker reads or writes, or may yet.
    active_files: HashMap<WorkerId, ActiveFile>,
    changes: mpsc::UnboundedSender<Change>,
    task: JoinHandle<()>,
}

/// Work on the folder, and the folder to be tidied after it.
type Change = (Option<PathBuf>, Box<dyn FnOnce() + Send>);

struct ActiveFile {
    file: StateFile,
    /// The worker was told to save.
    is_being_saved: bool,
    /// Whatever the worker has written by its end is removed.
    is_deleted: bool,
}

/// The file of one worker's state. Its name depends on the model's files, which
/// [`StateFile::locate`] reads.
#[derive(Debug, Clone)]
pub(super) struct StateFile {
    folder: PathBuf,
    /// The first half of the file's name.
    model: String,
    path: Arc<OnceLock<PathBuf>>,
}

/// A file of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SavedFile {
    path: PathBuf,
    modified: SystemTime,
    bytes: u64,
}

impl SavedStates {
    /// Saves nothing until it has a folder. To be called within a Tokio runtime.
    pub(super) fn new() -> Self {
        let (changes, to_do) = mpsc::unbounded_channel();
        Self {
            folder: None,
            active_files: HashMap::new(),
            changes,
            task: tokio::spawn(run_changes(to_do)),
        }
    }

    /// From now on states are saved in `folder`, which [`prepare`] has made. States of an earlier
    /// run are removed.
    pub(super) fn save_in(&mut self, folder: PathBuf) {
        self.folder = Some(folder.clone());
        self.run_in_order(move || remove_all(&folder));
    }

    /// Runs `work`, which may block, after all that was done to the folder so far.
    pub(super) fn run_in_order(&self, work: impl FnOnce() + Send + 'static) {
        // The task ends only with this sender, unless the runtime is being shut down.
        let _ = self.changes.send((self.folder.clone(), Box::new(work)));
    }

    /// The state file of `worker`, which loads the model of that name; `None` where none is kept.
    pub(super) fn add_state_file(&mut self, worker: WorkerId, id: &str) -> Option<StateFile> {
        let file = StateFile {
            folder: self.folder.clone()?,
            model: hash_hex(id),
            path: Arc::default(),
        };
        let active = ActiveFile {
            file: file.clone(),
            is_being_saved: false,
            is_deleted: false,
        };
        self.active_files.insert(worker, active);
        Some(file)
    }

    /// The state file of `worker`, which is told to save its state.
    pub(super) fn begin_saving(&mut self, worker: WorkerId) -> Option<StateFile> {
        let active = self.active_files.get_mut(&worker)?;
        active.is_being_saved = true;
        Some(active.file.clone())
    }

    /// Removes the saved states of these models, and those that workers are just saving.
    pub(super) fn delete(&mut self, which: &ModelSelector) {
        let model = match which {
            ModelSelector::All => None,
            ModelSelector::Model(id) => Some(hash_hex(id)),
        };
        let is_selected = move |other: &str| model.as_deref().is_none_or(|model| model == other);
        for active in self.active_files.values_mut() {
            active.is_deleted |= active.is_being_saved && is_selected(&active.file.model);
        }
        if let Some(folder) = self.folder.clone() {
            self.run_in_order(move || {
                let files = saved_files(&folder).into_iter();
                files
                    .filter(|saved| is_selected(&model_of(&saved.path)))
                    .for_each(|saved| remove(&saved.path));
            });
        }
    }

    /// `worker` is gone: what it has saved is there, and whole.
    pub(super) fn worker_gone(&mut self, worker: WorkerId) {
        let Some(active) = self.active_files.remove(&worker) else {
            return;
        };
        self.run_in_order(move || {
            if let Some(path) = active.file.path.get() {
                remove_leftovers(path);
                if active.is_deleted {
                    remove(path);
                }
            }
        });
    }

    /// Empties the folder, and returns when all is done.
    pub(super) async fn close(self) {
        let Self { changes, task, .. } = self;
        drop(changes);
        if let Err(error) = task.await {
            tracing::error!(%error, "saved states could not be removed");
        }
    }
}

impl StateFile {
    /// The path for the model at `source` within `limits`. Reads what the model's files are.
    pub(super) fn locate(&self, source: &ModelSource, limits: &Limits) -> Option<PathBuf> {
        let name = format!("{}-{}", self.model, hash_hex(&identity(source, limits)));
        let path = self.folder.join(name);
        // A path that is not Unicode cannot be sent to a worker.
        path.to_str()?;
        Some(self.path.get_or_init(|| path).clone())
    }

    /// The path, if the disk has room for so many bytes more.
    pub(super) fn with_room_for(&self, bytes: u64) -> Option<PathBuf> {
        let free_bytes = free_bytes(&self.folder)?;
        if !has_room(free_bytes, bytes) {
            tracing::info!(bytes, free_bytes, "the disk is too full to save a state");
            return None;
        }
        self.path.get().cloned()
    }
}

/// Makes `folder` for this user only.
pub(crate) fn prepare(folder: &Path) -> io::Result<()> {
    transom_files::create_private_folder(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

/// Carries out changes in order, and removes what is too old, until the other end is dropped.
async fn run_changes(mut changes: mpsc::UnboundedReceiver<Change>) {
    let mut folder: Option<PathBuf> = None;
    let mut check_at: Option<Instant> = None;
    loop {
        let work = tokio::select! {
            change = changes.recv() => match change {
                Some((change_folder, work)) => {
                    folder = change_folder;
                    Some(work)
                }
                None => break,
            },
            () = sleep_until(check_at.unwrap_or_else(Instant::now)), if check_at.is_some() => None,
        };
        let work_folder = folder.clone();
        let next_check = spawn_blocking(move || {
            if let Some(work) = work {
                work();
            }
            remove_surplus(&work_folder?, SystemTime::now())
        });
        check_at = next_check
            .await
            .ok()
            .flatten()
            .map(|wait| Instant::now() + wait);
    }
    if let Some(folder) = folder {
        // It fails only where the runtime is being shut down.
        let _ = spawn_blocking(move || remove_all(&folder)).await;
    }
}

/// Removes what is too much or too old. Returns how soon that must be looked at again; `None` while
/// nothing is saved.
fn remove_surplus(folder: &Path, now: SystemTime) -> Option<Duration> {
    let (kept, surplus) = split_surplus(saved_files(folder), now);
    for saved in surplus {
        remove(&saved.path);
    }
    let left = kept
        .iter()
        .map(|saved| MAX_AGE.saturating_sub(saved.age(now)));
    Some(left.min()?.min(AGE_CHECK_INTERVAL))
}

/// The files that are kept and those that are not: what is too old, all but the newest of a model,
/// and the oldest of what is too much. Files that are being written or read, which have an
/// extension, are in neither.
fn split_surplus(mut files: Vec<SavedFile>, now: SystemTime) -> (Vec<SavedFile>, Vec<SavedFile>) {
    files.retain(|saved| saved.path.extension().is_none());
    files.sort_by(|a, b| (b.modified, &b.path).cmp(&(a.modified, &a.path)));
    let mut models = HashSet::new();
    let mut bytes = 0_u64;
    files.into_iter().partition(|saved| {
        let is_kept = saved.age(now) < MAX_AGE
            && models.len() < MAX_FILES
            && bytes.saturating_add(saved.bytes) <= MAX_SAVED_STATE_BYTES
            && models.insert(model_of(&saved.path));
        bytes += if is_kept { saved.bytes } else { 0 };
        is_kept
    })
}

/// Whether a disk with so many free bytes has room for a state of so many bytes.
fn has_room(free_bytes: u64, bytes: u64) -> bool {
    free_bytes > MIN_FREE_BYTES.max(bytes.saturating_mul(MIN_FREE_RATIO))
}

/// Bytes that this user may still write; `None` where the system does not say.
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

impl SavedFile {
    fn of(path: PathBuf, metadata: &Metadata) -> Option<Self> {
        Some(Self {
            path,
            modified: metadata.modified().ok()?,
            bytes: metadata.len(),
        })
    }

    /// A file of the future, as after the clock was set back, is new.
    fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.modified).unwrap_or_default()
    }
}

fn saved_files(folder: &Path) -> Vec<SavedFile> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let saved = entries.filter_map(|entry| SavedFile::of(entry.path(), &entry.metadata().ok()?));
    saved.collect()
}

fn remove_all(folder: &Path) {
    for saved in saved_files(folder) {
        remove(&saved.path);
    }
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a saved state could not be removed");
        }
    }
}

/// The model's half of a file's name.
fn model_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split_once('-')
        .map_or_else(String::new, |(model, _)| model.to_owned())
}

/// Sixteen hexadecimal digits.
fn hash_hex<T: Hash + ?Sized>(of: &T) -> String {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// What must be the same for keys and values to mean the same; the context length need not, so a
/// conversation goes on in a longer one. The engine looks closer.
#[derive(Hash)]
struct Identity<'a> {
    path: &'a Path,
    kv_cache: KvCacheChoice,
    /// Names, sizes and times of the model's files.
    files: Vec<(OsString, u64, Option<SystemTime>)>,
}

fn identity<'a>(source: &'a ModelSource, limits: &Limits) -> Identity<'a> {
    let path = &*source.path;
    let described =
        |name: OsString, metadata: &Metadata| (name, metadata.len(), metadata.modified().ok());
    let mut files: Vec<_> = match fs::read_dir(path) {
        Ok(entries) => entries
            .flatten()
            .filter_map(|entry| Some(described(entry.file_name(), &entry.metadata().ok()?)))
            .collect(),
        Err(_) => fs::metadata(path)
            .iter()
            .map(|metadata| described(OsString::new(), metadata))
            .collect(),
    };
    files.sort();
    Identity {
        path,
        kv_cache: limits.kv_cache,
        files,
    }
}

#[cfg(test)]
mod tests;
