//! Saved states: KV caches of unloaded models, kept on disk until the models are loaded again.
//!
//! A saved state contains the tokens of the model's conversations. Rule: only this user and this
//! supervisor can access the folder. It is emptied when the supervisor starts and ends. In between
//! it holds one file per model, at most four files and 4 GiB, and none is older than a day.
//!
//! Files are encrypted. Each model has a key, in memory only, which is dropped when its states are
//! deleted: by the user, with a conversation, or at the end of the supervisor. So what the disk still
//! has of a removed file can't be read.
//!
//! A state that is not saved only costs a prefill, so nothing here returns an error. The driver
//! never waits for a disk: one task changes the folder in order, and the files of a model are read
//! on the way to its worker.

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
use tokio::time::{Instant, sleep_until, timeout};
use transom_engine::{Limits, ModelSource};
use transom_engine_host::{StateFile, StateKey, remove_leftovers};

use crate::core::{MAX_SAVED_STATE_BYTES, WorkerId};
use crate::request::ModelSelector;

/// Maximum number of states: enough for the models that a user switches between.
const MAX_FILES: usize = 4;

const MAX_AGE: Duration = Duration::from_secs(24 * 3600);

/// Maximum time between two checks of the ages, because timers stop while the machine sleeps but
/// files get older.
const AGE_CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// How long the end of the supervisor waits for a disk that hangs.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Saving requires more free space than this number of bytes and than this multiple of the state's
/// size.
const MIN_FREE_BYTES: u64 = 5_000_000_000;
const MIN_FREE_RATIO: u64 = 4;

/// Bytes that a file may have in addition to the KV caches: tokens, descriptions and tags.
const OVERHEAD_BYTES: u64 = 16 << 20;

pub(super) struct SavedStates {
    /// `None` disables saving.
    folder: Option<PathBuf>,
    /// Files that a worker reads or writes, or may do so later.
    active_files: HashMap<WorkerId, ActiveFile>,
    /// The key of each model's file, by the first half of the file name. Keys are never on the disk,
    /// so a file that outlives this process cannot be read.
    keys: HashMap<String, StateKey>,
    changes: mpsc::UnboundedSender<Change>,
    task: JoinHandle<()>,
}

/// Work on the folder, and the folder whose surplus is removed after it.
type Change = (Option<PathBuf>, Box<dyn FnOnce() + Send>);

struct ActiveFile {
    file: SavedFileOfWorker,
    /// The worker was told to save.
    is_being_saved: bool,
    /// The file is removed when the worker has ended.
    is_deleted: bool,
}

/// The state file of one worker. Its name depends on the model's files, which
/// [`SavedFileOfWorker::locate`]
/// reads.
#[derive(Debug, Clone)]
pub(super) struct SavedFileOfWorker {
    folder: PathBuf,
    /// The first half of the file name.
    model: String,
    path: Arc<OnceLock<PathBuf>>,
    key: StateKey,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SavedFile {
    path: PathBuf,
    modified: SystemTime,
    bytes: u64,
}

impl SavedStates {
    /// Creates a manager without a folder, which saves nothing. Must be called within a Tokio
    /// runtime.
    pub(super) fn new() -> Self {
        let (changes, receiver) = mpsc::unbounded_channel();
        Self {
            folder: None,
            active_files: HashMap::new(),
            keys: HashMap::new(),
            changes,
            task: tokio::spawn(run_changes(receiver)),
        }
    }

    /// Saves states in `folder`, which [`prepare`] has created, from now on. Removes states of an
    /// earlier run.
    pub(super) fn save_in(&mut self, folder: PathBuf) {
        self.folder = Some(folder.clone());
        self.run_in_order(move || remove_all(&folder));
    }

    /// Runs `work`, which may block, after all earlier work on the folder.
    pub(super) fn run_in_order(&self, work: impl FnOnce() + Send + 'static) {
        // The task ends only with this sender, unless the runtime is shutting down.
        let _ = self.changes.send((self.folder.clone(), Box::new(work)));
    }

    /// Registers and returns the state file of `worker`, which loads the model with this id; `None`
    /// if saving is disabled.
    pub(super) fn add_state_file(
        &mut self,
        worker: WorkerId,
        id: &str,
    ) -> Option<SavedFileOfWorker> {
        let model = hash_hex(id);
        let file = SavedFileOfWorker {
            folder: self.folder.clone()?,
            key: self.key_of(&model)?,
            model,
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

    pub(super) fn begin_saving(&mut self, worker: WorkerId) -> Option<SavedFileOfWorker> {
        let model = self.active_files.get(&worker)?.file.model.clone();
        // Another one than at the load, if what was saved has been deleted since.
        let key = self.key_of(&model)?;
        let active = self.active_files.get_mut(&worker)?;
        active.is_being_saved = true;
        active.file.key = key;
        Some(active.file.clone())
    }

    /// Returns the key of this model; `None` if the system has no random numbers.
    fn key_of(&mut self, model: &str) -> Option<StateKey> {
        if !self.keys.contains_key(model) {
            self.keys.insert(model.to_owned(), StateKey::random()?);
        }
        self.keys.get(model).cloned()
    }

    /// Removes the saved states of these models with their keys, and those that workers are saving
    /// now.
    pub(super) fn delete(&mut self, which: &ModelSelector) {
        let model = match which {
            ModelSelector::All => None,
            ModelSelector::Model(id) => Some(hash_hex(id)),
        };
        let is_selected = move |other: &str| model.as_deref().is_none_or(|model| model == other);
        self.keys.retain(|model, _| !is_selected(model));
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

    /// Handles that `worker` has ended: its state file, if any, is complete.
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

    /// Empties the folder; returns when all work is done, or after [`CLOSE_TIMEOUT`]. The next
    /// start removes the states that are left.
    pub(super) async fn close(self) {
        let Self { changes, task, .. } = self;
        drop(changes);
        match timeout(CLOSE_TIMEOUT, task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "saved states could not be removed"),
            Err(_) => tracing::warn!("the disk hangs, so saved states were not removed"),
        }
    }
}

impl SavedFileOfWorker {
    /// Returns the file for the model at `source` loaded with `limits`. Reads the metadata of the
    /// model's files.
    pub(super) fn locate(&self, source: &ModelSource, limits: &Limits) -> Option<StateFile> {
        let name = format!("{}-{}", self.model, hash_hex(&identity(source, limits)));
        let path = self.folder.join(name);
        // A path that is not Unicode cannot be sent to a worker.
        path.to_str()?;
        Some(self.described(self.path.get_or_init(|| path), 0))
    }

    /// Returns the file if the disk has room for another `bytes` bytes.
    pub(super) fn with_room_for(&self, bytes: u64) -> Option<StateFile> {
        let free_bytes = free_bytes(&self.folder)?;
        if !has_room(free_bytes, bytes) {
            tracing::info!(bytes, free_bytes, "the disk is too full to save a state");
            return None;
        }
        let path = self.path.get()?;
        Some(
            self.described(
                path,
                bytes
                    .saturating_add(OVERHEAD_BYTES)
                    .min(MAX_SAVED_STATE_BYTES),
            ),
        )
    }

    fn described(&self, path: &Path, max_bytes: u64) -> StateFile {
        StateFile {
            path: path.to_owned(),
            key: self.key.clone(),
            max_bytes,
        }
    }
}

/// Creates `folder` for this user only.
pub(crate) fn prepare(folder: &Path) -> io::Result<()> {
    transom_files::create_private_folder(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

/// Runs changes in order, and removes states that are too old, until the sender is dropped.
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
        // Fails only if the runtime is shutting down.
        let _ = spawn_blocking(move || remove_all(&folder)).await;
    }
}

/// Removes states that are too many, too large or too old. Returns the time until the next check;
/// `None` if there are none.
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

/// Splits the files into those to keep and those to remove: states that are too old, all but the
/// newest of each model, and the oldest of too many or too large ones. Files with an extension are
/// being written or read and are in neither list.
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

fn has_room(free_bytes: u64, bytes: u64) -> bool {
    free_bytes > MIN_FREE_BYTES.max(bytes.saturating_mul(MIN_FREE_RATIO))
}

/// Returns the bytes that this user can still write; `None` if the system does not report it.
///
/// Space that a Mac would have to clear does not count: a cache is not worth it.
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

impl SavedFile {
    /// Returns the age; zero if the file is from the future, as after the clock was set back.
    fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.modified).unwrap_or_default()
    }
}

fn saved_files(folder: &Path) -> Vec<SavedFile> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let saved = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        Some(SavedFile {
            path: entry.path(),
            modified: metadata.modified().ok()?,
            bytes: metadata.len(),
        })
    });
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

fn model_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split_once('-')
        .map_or_else(String::new, |(model, _)| model.to_owned())
}

/// Returns a hash as sixteen hexadecimal digits.
fn hash_hex<T: Hash + ?Sized>(of: &T) -> String {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Returns everything that must be equal for a KV cache to be valid, with the names, sizes and
/// modification times of the model's files. The context length may differ, so a conversation can
/// continue in a longer context. The engine checks more precisely.
fn identity(source: &ModelSource, limits: &Limits) -> impl Hash {
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
    (path, limits.kv_cache, files)
}

#[cfg(test)]
mod tests;
