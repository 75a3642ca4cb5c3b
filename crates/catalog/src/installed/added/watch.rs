//! Hears when another program added or forgot something.
//!
//! Rule: only what the file says counts: written anew with the same paths it is no news.

use std::path::PathBuf;

use super::{FILE_NAME, read};
use crate::watch::FileWatcher;

/// What the user added, watched until this is dropped.
#[derive(Debug)]
pub struct AddedModelsWatcher {
    watcher: FileWatcher,
}

impl AddedModelsWatcher {
    /// Calls `on_change` on a thread of its own when [`read`] says something else than before, be
    /// it another error in the file. The folder need not be there.
    pub fn start(data_folder: PathBuf, mut on_change: impl FnMut() + Send + 'static) -> Self {
        let mut known = read(&data_folder);
        let files = vec![data_folder.join(FILE_NAME)];
        let watcher = FileWatcher::start(FILE_NAME, files, move || {
            let now = read(&data_folder);
            if known != now {
                known = now;
                on_change();
            }
        });
        Self { watcher }
    }

    /// Why changes are not noticed, if they are not.
    pub fn problem(&self) -> Option<String> {
        self.watcher.problem()
    }
}
