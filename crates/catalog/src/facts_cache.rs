//! Facts that were read before, so that a list of models costs a look at each file and no reading.
//!
//! Rule: facts are cache by path, size and time of every file that they were read from; when
//! one of those changes they are read anew. What a model's problem was is cache as well.

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::facts::ModelFacts;
use crate::inspect::inspect;
use crate::model_files::{files_of, is_gguf, parts};

/// What [`inspect`] said of a path, with its problem in words.
pub(crate) type CachedFacts = Result<Arc<ModelFacts>, String>;

/// A file as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp {
    path: PathBuf,
    size_bytes: u64,
    modified: Option<SystemTime>,
}

/// More models than a person keeps; beyond that all is forgotten, and read again when asked for.
const MAX_CACHED: usize = 1024;

/// By path, with the files as they were.
type Cache = HashMap<PathBuf, (Vec<FileStamp>, CachedFacts)>;

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

fn cache() -> MutexGuard<'static, Cache> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the model at `path` is: as [`inspect`] says, or said of the same files before.
pub(crate) fn facts(path: &Path) -> CachedFacts {
    let stamps = stamps(path);
    if let Some((of, facts)) = cache().get(path)
        && *of == stamps
    {
        return facts.clone();
    }
    // The lock is not held meanwhile; two that read the same find the same.
    let facts = inspect(path).map(Arc::new);
    let facts = facts.map_err(|error| error.to_string());
    let mut cache = cache();
    if cache.len() >= MAX_CACHED {
        cache.clear();
    }
    cache.insert(path.to_owned(), (stamps, facts.clone()));
    facts
}

/// Bytes of the files that models at `paths` are made of, each file once.
pub(crate) fn size_bytes(paths: &[PathBuf]) -> u64 {
    let mut seen = HashSet::new();
    let stamps = paths.iter().flat_map(|path| stamps(path));
    let sizes = stamps.filter(|stamp| seen.insert(stamp.path.clone()));
    sizes
        .map(|stamp| stamp.size_bytes)
        .fold(0, u64::saturating_add)
}

/// What tells the weights of the model at `path` from all others on the disk, however they are called:
/// links to a file are the file. Of a model without weights its path.
pub(crate) fn weights_identity(path: &Path) -> Vec<FileIdentity> {
    let stamps = stamps(path).into_iter().map(|stamp| stamp.path);
    let is_weights = |file: &PathBuf| {
        let end = file.extension().unwrap_or_default();
        end.eq_ignore_ascii_case("gguf") || end.eq_ignore_ascii_case("safetensors")
    };
    let is_folder = path.is_dir();
    let weights = stamps.filter(is_weights);
    // GGUF files in a folder are other forms of it.
    let weights = weights.filter(|file| !is_folder || !is_gguf(file));
    let mut identity: Vec<FileIdentity> = weights.map(|file| FileIdentity::of(&file)).collect();
    if identity.is_empty() {
        identity.push(FileIdentity::Path(path.to_owned()));
    }
    identity.sort();
    identity
}

/// What tells a file from all others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileIdentity {
    /// Its device and number there.
    #[cfg(unix)]
    Number(u64, u64),
    /// Its path, where that is all that can be facts.
    Path(PathBuf),
}

impl FileIdentity {
    pub(crate) fn of(path: &Path) -> Self {
        #[cfg(unix)]
        if let Ok(metadata) = path.metadata() {
            use std::os::unix::fs::MetadataExt;
            return Self::Number(metadata.dev(), metadata.ino());
        }
        Self::Path(path.canonicalize().unwrap_or_else(|_| path.to_owned()))
    }
}

/// Every file that says something of the model at `path`: all of a folder, all parts of a file.
fn stamps(path: &Path) -> Vec<FileStamp> {
    let mut files: Vec<PathBuf> = match path.is_dir() {
        true => files_of(path).collect(),
        false => parts(path),
    };
    files.sort();
    let stamps = files.into_iter().filter_map(|path| {
        let metadata = path.metadata().ok().filter(Metadata::is_file)?;
        Some(FileStamp {
            path,
            size_bytes: metadata.len(),
            modified: metadata.modified().ok(),
        })
    });
    stamps.collect()
}
