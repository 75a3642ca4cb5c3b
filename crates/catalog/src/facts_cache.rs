//! Caches the facts of models, so that listing models only checks file times and reads no file.
//!
//! Rule: the key of the cache is the path, size and modification time of every file that was read.
//! If one of them changes, the files are read again. Problems are cached as well.

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::facts::ModelFacts;
use crate::file_error::FileError;
use crate::inspect::inspect;
use crate::weight_files::{files_of, is_gguf, is_weights, parts};

pub(crate) type CachedFacts = Result<Arc<ModelFacts>, FileError>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp {
    path: PathBuf,
    size_bytes: u64,
    modified: Option<SystemTime>,
}

/// More models than a person has. A full cache is cleared.
const MAX_CACHED: usize = 1024;

/// Facts by path, with the files that they were read from.
type Cache = HashMap<PathBuf, (Vec<FileStamp>, CachedFacts)>;

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

/// Returns the facts of the model at `path`, from the cache if its files have not changed.
pub(crate) fn facts(path: &Path) -> CachedFacts {
    let stamps = stamps(path);
    if let Some((of, facts)) = CACHE.lock().get(path)
        && *of == stamps
    {
        return facts.clone();
    }
    // The lock is not held while the file is read. Two threads that read it get the same result.
    let facts = inspect(path).map(Arc::new);
    let mut cache = CACHE.lock();
    if cache.len() >= MAX_CACHED {
        cache.clear();
    }
    cache.insert(path.to_owned(), (stamps, facts.clone()));
    facts
}

/// Returns the bytes of all files of the models at `paths`. Each file counts once.
pub(crate) fn size_bytes(paths: &[PathBuf]) -> u64 {
    let mut seen = HashSet::new();
    let stamps = paths.iter().flat_map(|path| stamps(path));
    let sizes = stamps.filter(|stamp| seen.insert(stamp.path.clone()));
    sizes
        .map(|stamp| stamp.size_bytes)
        .fold(0, u64::saturating_add)
}

/// Returns the identity of the weight files of the model at `path`, whatever their names: a link to
/// a file has the identity of the file. Without weight files it is the path.
pub(crate) fn weights_identity(path: &Path) -> Vec<FileIdentity> {
    let stamps = stamps(path).into_iter().map(|stamp| stamp.path);
    let is_folder = path.is_dir();
    let weights = stamps.filter(|file| is_weights(file));
    // GGUF files in a folder are other variants of the model.
    let weights = weights.filter(|file| !is_folder || !is_gguf(file));
    let mut identity: Vec<FileIdentity> = weights.map(|file| FileIdentity::of(&file)).collect();
    if identity.is_empty() {
        identity.push(FileIdentity::Path(path.to_owned()));
    }
    identity.sort();
    identity
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileIdentity {
    /// Device and inode number.
    Number(u64, u64),
    /// The path, if nothing else is known.
    Path(PathBuf),
}

impl FileIdentity {
    pub(crate) fn of(path: &Path) -> Self {
        match path.metadata() {
            Ok(metadata) => Self::Number(metadata.dev(), metadata.ino()),
            Err(_) => Self::Path(path.canonicalize().unwrap_or_else(|_| path.to_owned())),
        }
    }
}

/// Returns every file of the model at `path`: all files of a folder, all parts of a split file.
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
