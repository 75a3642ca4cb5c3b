//! The folder of kept conversations: which file is whose, and how many stay.
//!
//! A conversation is private text. Rule: the folder is the user's alone; it holds one conversation
//! of a model at most, few and small in all, none for long, and none after a quit. What cannot be
//! kept costs a prefill, so nothing here fails.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use transom_engine::{KvCacheChoice, Limits, ModelSource};
use transom_engine_host::remove_leftovers;

use crate::core::{MOST_KEPT_BYTES, WorkerId};
use crate::request::Unload;

/// In the data folder.
const FOLDER: &str = "conversations";

/// Conversations that are kept at once: those of the models that somebody switches between.
const MOST_FILES: usize = 4;

/// How long one may lie there when the program did not come to remove it.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// See the head of this file.
#[derive(Default)]
pub(super) struct Conversations {
    /// `None` keeps nothing.
    folder: Option<PathBuf>,
    /// Places that a worker reads or writes, or may yet.
    places: HashMap<WorkerId, Place>,
}

struct Place {
    path: PathBuf,
    /// The first half of the file's name.
    model: String,
    /// Whatever the worker has written by its end goes.
    is_forgotten: bool,
}

/// A file of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    path: PathBuf,
    modified: SystemTime,
    bytes: u64,
}

impl Conversations {
    /// Those of `data_folder`, which is the user's alone, as another run left them; what it left
    /// half done or too long ago goes.
    pub(super) fn open(data_folder: &Path, now: SystemTime) -> Self {
        let folder = data_folder.join(FOLDER);
        if let Err(error) = make_private(&folder) {
            tracing::warn!(folder = %folder.display(), %error, "conversations are not kept");
            return Self::default();
        }
        let conversations = Self {
            folder: Some(folder),
            places: HashMap::new(),
        };
        for kept in conversations.files() {
            let is_half_done = kept.path.extension().is_some();
            let age = now.duration_since(kept.modified).unwrap_or_default();
            if is_half_done || age > LONGEST {
                remove(&kept.path);
            }
        }
        conversations.thin_out();
        conversations
    }

    /// Where the conversation of the model of that name lies, or will, that `worker` loads from
    /// `source` within `limits`; `None` where none is kept.
    pub(super) fn place(
        &mut self,
        worker: WorkerId,
        name: &str,
        source: &ModelSource,
        limits: &Limits,
    ) -> Option<PathBuf> {
        let model = half_name(name);
        let path = self.folder.as_ref()?;
        let path = path.join(format!("{model}-{}", half_name(&identity(source, limits))));
        // What is not Unicode cannot be told to a worker.
        path.to_str()?;
        let place = Place {
            path: path.clone(),
            model,
            is_forgotten: false,
        };
        self.places.insert(worker, place);
        Some(path)
    }

    /// As [`Conversations::place`], of a worker that was told it.
    pub(super) fn place_of(&self, worker: WorkerId) -> Option<PathBuf> {
        Some(self.places.get(&worker)?.path.clone())
    }

    /// Removes what is kept of these models, and what workers are just keeping once they are gone.
    pub(super) fn forget(&mut self, which: &Unload) {
        let model = match which {
            Unload::All => None,
            Unload::Named(name) => Some(half_name(name)),
        };
        let is_meant = |other: &str| model.as_deref().is_none_or(|model| model == other);
        for place in self.places.values_mut() {
            place.is_forgotten |= is_meant(&place.model);
        }
        let files = self.files().into_iter();
        files
            .filter(|kept| is_meant(&model_of(&kept.path)))
            .for_each(|kept| remove(&kept.path));
    }

    /// `worker` is gone: what it has kept is there, and whole.
    pub(super) fn settle(&mut self, worker: WorkerId) {
        if let Some(place) = self.places.remove(&worker) {
            remove_leftovers(&place.path);
            if place.is_forgotten {
                remove(&place.path);
            }
            self.thin_out();
        }
    }

    fn thin_out(&self) {
        for surplus in surplus(self.files()) {
            remove(&surplus.path);
        }
    }

    fn files(&self) -> Vec<Kept> {
        let Some(folder) = &self.folder else {
            return Vec::new();
        };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let kept = entries.filter_map(|entry| Kept::of(entry.path(), &entry.metadata().ok()?));
        kept.collect()
    }
}

impl Kept {
    fn of(path: PathBuf, metadata: &Metadata) -> Option<Self> {
        Some(Self {
            path,
            modified: metadata.modified().ok()?,
            bytes: metadata.len(),
        })
    }
}

/// The files beyond what is kept: the older ones of a model, and then the oldest. Files that are in
/// work, which have an extension, are not counted.
fn surplus(mut files: Vec<Kept>) -> Vec<Kept> {
    files.retain(|kept| kept.path.extension().is_none());
    files.sort_by(|a, b| (b.modified, &b.path).cmp(&(a.modified, &a.path)));
    let mut models = HashSet::new();
    let mut bytes = 0_u64;
    files.retain(|kept| {
        if models.len() < MOST_FILES
            && bytes.saturating_add(kept.bytes) <= MOST_KEPT_BYTES
            && models.insert(model_of(&kept.path))
        {
            bytes += kept.bytes;
            return false;
        }
        true
    });
    files
}

fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a kept conversation could not be removed");
        }
    }
}

/// The model's half of a file's name.
fn model_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split_once('-')
        .map_or_else(String::new, |(model, _)| model.to_owned())
}

/// Sixteen hexadecimal digits. The same in every run of one build; another build may find nothing.
fn half_name<T: Hash + ?Sized>(of: &T) -> String {
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
