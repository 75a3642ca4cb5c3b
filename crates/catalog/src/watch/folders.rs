//! Watches the folders of files, so that new, changed and removed files are noticed.
//!
//! Rule: folders are watched and not files, because most editors replace a file with a new one. If a
//! folder does not exist, the nearest existing folder above it is watched until it does.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventHandler, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// Device and inode number, by which a folder differs from another one at the same path.
type Identity = Option<(u64, u64)>;

pub(super) struct WatchedFolders {
    files: Vec<PathBuf>,
    /// `None` if the system has none; changes are then noticed at the next start.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeMap<PathBuf, Identity>,
    /// The files, and the targets of links to them, in folders without links.
    targets: Vec<PathBuf>,
}

impl WatchedFolders {
    pub(super) fn new(files: Vec<PathBuf>, events: impl EventHandler) -> Self {
        let files = files.iter().map(|file| {
            let whole = std::path::absolute(file);
            whole.unwrap_or_else(|_| file.clone())
        });
        Self {
            files: files.collect(),
            watcher: notify::recommended_watcher(events).ok(),
            watched: BTreeMap::new(),
            targets: Vec::new(),
        }
    }

    /// Watches the folders that must be watched now. One that fails is tried again at the next change.
    pub(super) fn watch(&mut self) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let mut before = None;
        // A folder may be created before the one above it is watched; then it must be watched too.
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
                    // A removed folder is no longer watched anyway.
                    let _ = watcher.unwatch(folder);
                }
            }
            self.watched
                .retain(|folder, identity| is_wanted(folder, identity));
            for (folder, identity) in &wanted {
                if !self.watched.contains_key(folder)
                    && watcher.watch(folder, RecursiveMode::NonRecursive).is_ok()
                {
                    self.watched.insert(folder.clone(), *identity);
                }
            }
            before = Some(wanted);
        }
    }

    /// Returns true if the event may be about one of the files.
    pub(super) fn is_relevant(&self, event: &notify::Result<Event>) -> bool {
        // An error of the system may concern any file.
        let Ok(event) = event else { return true };
        if event.need_rescan() || event.paths.is_empty() {
            return true;
        }
        // Reading a file is also an event, and our own reads must not count.
        let is_read = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
            EventKind::Access(_) => true,
            _ => false,
        };
        let mut paths = event.paths.iter();
        !is_read && paths.any(|path| self.targets.iter().any(|target| target.starts_with(path)))
    }
}

/// Returns the folders to watch for `files`, and the paths of the files after links are resolved.
fn folders_to_watch(files: &[PathBuf]) -> (BTreeMap<PathBuf, Identity>, Vec<PathBuf>) {
    let mut folders = BTreeMap::new();
    let mut targets = Vec::new();
    // A file may be a link to a file that changes in another folder.
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

/// Returns the nearest existing folder above `file`, and the file in it, both without links.
fn nearest_existing_folder(file: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut folders = file.ancestors().skip(1);
    folders.find_map(|folder| {
        let whole = folder.canonicalize().ok().filter(|whole| whole.is_dir())?;
        let rest = file.strip_prefix(folder).ok()?;
        let target = whole.join(rest);
        Some((whole, target))
    })
}

fn identity(folder: &Path) -> Identity {
    let metadata = folder.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}
