//! The list of models as the files say now: watched, and read again in place when one changes.
//!
//! Rule: what is in force is always a whole list. While a file has a error, the list from before it
//! stays and the error is told. Nobody waits for a file: who asks for the list gets the one in
//! force.

mod file_watcher;
mod folders;
mod reader;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub(crate) use file_watcher::{FileWatcher, lock};
use reader::CatalogReader;
pub use reader::read_catalog_file;

use crate::entries::{Catalog, CatalogError};

/// A list of models that follows its files until it is dropped.
#[derive(Debug)]
pub struct CatalogWatcher {
    state: Arc<Mutex<State>>,
    watcher: FileWatcher,
}

#[derive(Debug)]
struct State {
    current: Arc<Catalog>,
    errors: Vec<CatalogError>,
}

impl CatalogWatcher {
    /// Reads the lists, and watches them from now on. `built_in` is a file to take in place of the
    /// list that the program was built with; `user` the user's own, which need not be there, nor its
    /// folder. `on_change` is called on a thread of its own when another list is in force, or what
    /// [`Self::error`] says is another.
    pub fn start(
        built_in: Option<PathBuf>,
        user: Option<PathBuf>,
        mut on_change: impl FnMut() + Send + 'static,
    ) -> Self {
        let files = built_in.iter().chain(&user).cloned().collect();
        let mut reader = CatalogReader::new(built_in, user);
        let (current, errors) = reader.read();
        let state = Arc::new(Mutex::new(State { current, errors }));
        let shown = state.clone();
        let watcher = FileWatcher::start("models.toml", files, move || {
            let (current, errors) = reader.read();
            {
                let mut state = lock(&shown);
                if state.current == current && state.errors == errors {
                    return;
                }
                *state = State { current, errors };
            }
            on_change();
        });
        Self { state, watcher }
    }

    /// The list in force.
    pub fn current(&self) -> Arc<Catalog> {
        lock(&self.state).current.clone()
    }

    /// Why a file is not in force as it is now: the first error of the user's own list, else of the
    /// built-in one.
    pub fn error(&self) -> Option<CatalogError> {
        lock(&self.state).errors.first().cloned()
    }

    /// Why changes are not noticed, if they are not: [`Self::reload`] reads the files then.
    pub fn problem(&self) -> Option<String> {
        self.watcher.problem()
    }

    /// Has the files read again soon, as if they had changed.
    pub fn reload(&self) {
        self.watcher.reload();
    }
}
