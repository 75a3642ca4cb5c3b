//! Watches `added.json` for changes by other programs.
//!
//! Rule: only a change of the content counts. Writing the same paths again is no change.

use std::path::PathBuf;

use super::{FILE_NAME, read};
use crate::watch::FileWatcher;

/// Watches the list of added models until it is dropped.
#[derive(Debug)]
pub struct AddedModelsWatcher {
    watcher: FileWatcher,
}

impl AddedModelsWatcher {
    /// Calls `on_change` on a separate thread when the result of [`read`] changes, also from one error
    /// to another. The folder need not exist.
    pub fn start(data_folder: PathBuf, mut on_change: impl FnMut() + Send + 'static) -> Self {
        let mut last = read(&data_folder);
        let files = vec![data_folder.join(FILE_NAME)];
        let watcher = FileWatcher::start(FILE_NAME, files, move || {
            let now = read(&data_folder);
            if last != now {
                last = now;
                on_change();
            }
        });
        Self { watcher }
    }

    /// Returns why changes aren't noticed, if so.
    pub fn problem(&self) -> Option<String> {
        self.watcher.problem()
    }
}
