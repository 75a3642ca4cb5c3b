//! Saved KV caches: those of conversations with unloaded models, kept on disk until they continue.
//!
//! A saved KV cache contains the text of a conversation. Rule: only this user and this supervisor
//! can access the folder, and its files are encrypted with a key per conversation, which is deleted
//! with the conversation. Where there is a keychain, it has the key of these keys, so conversations
//! continue after a restart. Elsewhere all are removed at the end.
//!
//! A KV cache that is not saved only costs a prefill, so nothing here returns an error. The driver
//! never waits for a disk: one task uses the folder, and commands to a worker that depend on it are
//! completed on the way to the worker.

mod folder;
mod index;
mod plan;

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs::{self, Metadata, Permissions};
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until, timeout};
use transom_engine::{ConversationId, Limits, ModelSource};
use transom_engine_host::{SavedConversation, SavedFolder};

use crate::core::WorkerId;
use crate::saving::{Forgotten, Saving};
use folder::Folder;
use index::Place;

/// How long the end of the supervisor, and a command to a worker, wait for a disk that hangs.
const DISK_TIMEOUT: Duration = Duration::from_secs(3);

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) struct SavedStates {
    /// KV caches can be saved.
    is_enabled: bool,
    /// The supervisor is quitting.
    is_at_end: bool,
    workers: HashMap<WorkerId, SavingWorker>,
    changes: Changes,
}

/// Work on the folder, which is missing if nothing can be saved.
type Change = Box<dyn FnOnce(&mut Option<Folder>) + Send>;

/// The queue of changes to the folder.
#[derive(Clone)]
struct Changes(mpsc::UnboundedSender<Change>);

struct SavingWorker {
    states: StatesOfWorker,
    /// How often the worker was told to save and has not ended: an unload may follow a save.
    n_saves: u32,
    /// When it was told last, and how many conversations it has reported since.
    since: Duration,
    n_saved: u32,
    /// What was deleted since.
    forgotten: Vec<Forgotten>,
}

/// The saved conversations of the model of a worker.
#[derive(Clone)]
pub(super) struct StatesOfWorker {
    changes: Changes,
    /// The id of the model, as a hash.
    model: String,
    /// What the names of its new files begin with.
    prefix: String,
    /// Known once the model's files were read.
    place: Arc<OnceLock<Place>>,
}

impl SavedStates {
    /// Creates a manager without a folder, which saves nothing. Must be called within a Tokio
    /// runtime.
    pub(super) fn new() -> Self {
        let (changes, receiver) = mpsc::unbounded_channel();
        tokio::spawn(run_changes(receiver));
        Self {
            is_enabled: false,
            is_at_end: false,
            workers: HashMap::new(),
            changes: Changes(changes),
        }
    }

    /// Saves KV caches in the folder `path`, which [`prepare`] has created, from now on.
    pub(super) fn save_in(&mut self, path: PathBuf, saving: Saving) {
        self.is_enabled = true;
        let open = move |folder: &mut Option<Folder>| {
            *folder = Some(Folder::open(path, saving, now()));
        };
        self.changes.add(open);
    }

    /// The supervisor is quitting: from now on, only KV caches that outlive it are saved.
    pub(super) fn quit(&mut self) {
        self.is_at_end = true;
    }

    /// Runs `work` after all earlier work on the folder.
    pub(super) fn run_in_order(&self, work: impl FnOnce() + Send + 'static) {
        self.changes.add(|_| work());
    }

    /// Registers `worker`, which loads the model with this id; `None` if nothing is saved.
    pub(super) fn add_worker(&mut self, worker: WorkerId, id: &str) -> Option<StatesOfWorker> {
        if !self.is_enabled {
            return None;
        }
        let states = StatesOfWorker {
            changes: self.changes.clone(),
            model: hash_hex(id),
            prefix: format!("{:016x}", ConversationId::random().0),
            place: Arc::default(),
        };
        let saving = SavingWorker {
            states: states.clone(),
            n_saves: 0,
            since: Duration::ZERO,
            n_saved: 0,
            forgotten: Vec::new(),
        };
        self.workers.insert(worker, saving);
        Some(states)
    }

    /// Returns how many bytes `worker` may write to save about `bytes` bytes of KV caches, for the
    /// command on the way to it, which may block; `None` if nothing may be saved.
    pub(super) fn begin_saving(
        &mut self,
        worker: WorkerId,
        bytes: u64,
    ) -> Option<impl FnOnce() -> Option<u64> + Send + use<>> {
        let saving = self.workers.get_mut(&worker)?;
        if saving.n_saves == 0 {
            saving.forgotten.clear();
        }
        saving.n_saves += 1;
        saving.since = now();
        saving.n_saved = 0;
        let (states, is_at_end) = (saving.states.clone(), self.is_at_end);
        let prefix = states.prefix.clone();
        let make_room = move |folder: &mut Folder| folder.make_room(&prefix, bytes, is_at_end);
        Some(move || states.changes.ask(make_room).filter(|bytes| *bytes > 0))
    }

    /// Adds a conversation that `worker` has saved.
    pub(super) fn saved(&mut self, worker: WorkerId, conversation: SavedConversation) {
        let Some(saving) = self.workers.get_mut(&worker) else {
            return;
        };
        let states = saving.states.clone();
        let is_forgotten =
            |which: &Forgotten| index::includes(which, &states.model, conversation.id);
        if saving.forgotten.iter().any(is_forgotten) {
            return;
        }
        // The one that was used last comes first.
        let used_at = saving
            .since
            .saturating_sub(Duration::from_millis(saving.n_saved.into()));
        saving.n_saved += 1;
        self.changes.add(move |folder| {
            if let Some((folder, place)) = folder.as_mut().zip(states.place.get()) {
                folder.add(place, &states.prefix, conversation, used_at);
            }
        });
    }

    /// Handles that `worker` has saved everything that it was told to once.
    pub(super) fn saving_ended(&mut self, worker: WorkerId) {
        let Some(saving) = self.workers.get_mut(&worker) else {
            return;
        };
        saving.n_saves = saving.n_saves.saturating_sub(1);
        if saving.n_saves == 0 {
            let prefix = saving.states.prefix.clone();
            self.changes.add(move |folder| {
                if let Some(folder) = folder {
                    folder.saving_ended(&prefix);
                }
            });
        }
    }

    /// Deletes saved KV caches and their keys, also those that workers are saving now.
    pub(super) fn forget(&mut self, which: Forgotten) {
        for saving in self
            .workers
            .values_mut()
            .filter(|saving| saving.n_saves > 0)
        {
            saving.forgotten.push(which.clone());
        }
        self.changes.add(move |folder| {
            if let Some(folder) = folder {
                folder.forget(&which);
            }
        });
    }

    /// Handles that `worker` has ended.
    pub(super) fn worker_gone(&mut self, worker: WorkerId) {
        let Some(SavingWorker { states, .. }) = self.workers.remove(&worker) else {
            return;
        };
        self.changes.add(move |folder| {
            if let Some((folder, place)) = folder.as_mut().zip(states.place.get()) {
                folder.process_ended(place, &states.prefix);
            }
        });
    }

    /// Removes what does not outlive this supervisor; returns when all work is done, or after
    /// [`DISK_TIMEOUT`]. The next start removes what is left.
    pub(super) async fn close(self) {
        let (reply, closed) = oneshot::channel();
        self.changes.add(move |folder| {
            if let Some(folder) = folder.take() {
                folder.close();
            }
            // Nobody waits if the disk was too slow.
            let _ = reply.send(());
        });
        if timeout(DISK_TIMEOUT, closed).await.is_err() {
            tracing::warn!("the disk hangs, so saved KV caches were not removed");
        }
    }
}

impl Changes {
    fn add(&self, change: impl FnOnce(&mut Option<Folder>) + Send + 'static) {
        // The task ends only with the runtime.
        let _ = self.0.send(Box::new(change));
    }

    /// Returns the result of `read`, after all earlier work; `None` if there is no folder, or the
    /// disk hangs. Blocks.
    fn ask<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Folder) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = channel();
        self.add(move |folder| {
            if let Some(folder) = folder {
                // Nobody waits if the disk was too slow.
                let _ = reply.send(read(folder));
            }
        });
        answer.recv_timeout(DISK_TIMEOUT).ok()
    }
}

impl StatesOfWorker {
    /// Returns what is saved of the model at `source` with `limits`. Reads the metadata of the
    /// model's files, so it may block.
    pub(super) fn for_load(&self, source: &ModelSource, limits: &Limits) -> Option<SavedFolder> {
        let place = self.place.get_or_init(|| Place {
            model: self.model.clone(),
            files: hash_hex(&identity(VERSION, source, limits)),
        });
        let (place, prefix) = (place.clone(), self.prefix.clone());
        let saved = self
            .changes
            .ask(move |folder| folder.for_load(&place, &prefix))?;
        // A path that is not Unicode cannot be sent to a worker.
        saved.path.to_str()?;
        Some(saved)
    }
}

/// Creates `folder` for this user only.
pub(crate) fn prepare(folder: &Path) -> io::Result<()> {
    transom_files::create_private_folder(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

/// Runs changes in order, and removes what is too old.
async fn run_changes(mut changes: mpsc::UnboundedReceiver<Change>) {
    let mut folder: Option<Folder> = None;
    let mut check_at: Option<Instant> = None;
    loop {
        let change = tokio::select! {
            change = changes.recv() => match change {
                Some(change) => Some(change),
                None => return,
            },
            () = sleep_until(check_at.unwrap_or_else(Instant::now)), if check_at.is_some() => None,
        };
        let changed = spawn_blocking(move || {
            if let Some(folder) = &mut folder {
                folder.begin_day(now());
            }
            if let Some(change) = change {
                change(&mut folder);
            }
            let wait = folder
                .as_mut()
                .and_then(|folder| folder.remove_expired(now()));
            (folder, wait)
        });
        let wait = match changed.await {
            Ok((changed, wait)) => {
                folder = changed;
                wait
            }
            // The runtime is shutting down, or the work panicked.
            Err(error) => {
                tracing::error!(%error, "KV caches are no longer saved");
                folder = None;
                None
            }
        };
        check_at = wait.map(|wait| Instant::now() + wait);
    }
}

/// Returns the time since 1970.
fn now() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}

/// Returns a hash as sixteen hexadecimal digits.
fn hash_hex<T: Hash + ?Sized>(of: &T) -> String {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Returns everything that must be equal for a KV cache to be valid: the version of this program,
/// because engines of another version may compute other numbers or store them in another form, and
/// the names, sizes and modification times of the model's files. The context length may differ, so a
/// conversation can continue in a longer context. The engine checks more precisely.
fn identity(version: &str, source: &ModelSource, limits: &Limits) -> impl Hash {
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
    (version, path, limits.kv_cache, files)
}

#[cfg(test)]
mod tests;
