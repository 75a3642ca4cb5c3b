//! Which folders are watched, so that files in them are noticed that come, change and go.
//!
//! Rule: folders are watched and not files, for most editors put a new file in the place of the old
//! one. Where a folder is not there yet, the nearest one above it is watched until it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::file_watcher::EventSender;

/// What tells a folder from another one that has come into its place.
type Identity = Option<(u64, u64)>;

/// The folders that are watched for some files.
pub(super) struct WatchedFolders {
    files: Vec<PathBuf>,
    watcher: Result<RecommendedWatcher, String>,
    watched: BTreeMap<PathBuf, Identity>,
    /// The files, and what links to them lead to, below folders without links.
    targets: Vec<PathBuf>,
}

impl WatchedFolders {
    pub(super) fn new(files: Vec<PathBuf>, events: EventSender) -> Self {
        let files = files.iter().map(|file| {
            let whole = std::path::absolute(file);
            whole.unwrap_or_else(|_| file.clone())
        });
        Self {
            files: files.collect(),
            watcher: notify::recommended_watcher(events).map_err(|error| error.to_string()),
            watched: BTreeMap::new(),
            targets: Vec::new(),
        }
    }

    /// Watches the folders that are to be watched now. When one cannot be, the others are.
    pub(super) fn watch(&mut self) -> Result<(), String> {
        let watcher = self.watcher.as_mut().map_err(|reason| reason.clone())?;
        let mut problem = Ok(());
        let mut before = None;
        // A folder may come before the one above it is watched; then there is another to watch.
        const MAX_ROUNDS: usize = 16;
        for _ in 0..MAX_ROUNDS {
            let (wanted, targets) = folders_to_watch(&self.files);
            self.targets = targets;
            if before.as_ref() == Some(&wanted) {
                break;
            }
            let is_wanted =
                |folder: &PathBuf, identity: &Identity| wanted.get(folder) == Some(identity);
            for (folder, identity) in &self.watched {
                if !is_wanted(folder, identity) {
                    // What was removed is no longer watched anyway.
                    let _ = watcher.unwatch(folder);
                }
            }
            self.watched
                .retain(|folder, identity| is_wanted(folder, identity));
            problem = Ok(());
            for (folder, identity) in &wanted {
                if self.watched.contains_key(folder) {
                    continue;
                }
                match watcher.watch(folder, RecursiveMode::NonRecursive) {
                    Ok(()) => _ = self.watched.insert(folder.clone(), *identity),
                    Err(error) => problem = Err(format!("{}: {error}", folder.display())),
                }
            }
            before = Some(wanted);
        }
        problem
    }

    /// Whether an event may be about one of the files.
    pub(super) fn is_relevant(&self, event: &notify::Result<Event>) -> bool {
        // What the system could not tell may have been about anything.
        let Ok(event) = event else { return true };
        if event.need_rescan() || event.paths.is_empty() {
            return true;
        }
        // Reading a file is an event as well, and we read them.
        let is_read = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
            EventKind::Access(_) => true,
            _ => false,
        };
        let mut paths = event.paths.iter();
        !is_read && paths.any(|path| self.targets.iter().any(|target| target.starts_with(path)))
    }
}

/// The folders to watch for `files`, and where the files are when links are followed.
fn folders_to_watch(files: &[PathBuf]) -> (BTreeMap<PathBuf, Identity>, Vec<PathBuf>) {
    let mut folders = BTreeMap::new();
    let mut targets = Vec::new();
    // A file may be a link to one that lies elsewhere and changes there.
    let linked = files.iter().filter_map(|file| file.canonicalize().ok());
    let linked: Vec<PathBuf> = linked.collect();
    for file in files.iter().chain(&linked) {
        let Some((folder, target)) = nearest_existing_folder(file) else {
            continue;
        };
        folders.insert(folder.clone(), identity(&folder));
        targets.push(target);
    }
    (folders, targets)
}

/// The nearest folder above `file` that is there, and the file below it, both without links.
fn nearest_existing_folder(file: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut folders = file.ancestors().skip(1);
    folders.find_map(|folder| {
        let whole = folder.canonicalize().ok().filter(|whole| whole.is_dir())?;
        let rest = file.strip_prefix(folder).ok()?;
        let target = whole.join(rest);
        Some((whole, target))
    })
}

#[cfg(unix)]
fn identity(folder: &Path) -> Identity {
    use std::os::unix::fs::MetadataExt;
    let metadata = folder.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Path) -> Identity {
    None
}
