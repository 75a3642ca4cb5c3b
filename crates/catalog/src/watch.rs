//! Watches the catalog files and reads them again when they change.
//!
//! Rule: the current catalog is always complete. While a file has an error, the catalog from before
//! the error stays and the error is reported. Callers get the current catalog without waiting.

mod file_watcher;
mod folders;
mod reader;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use file_watcher::FileWatcher;
use reader::CatalogReader;

use crate::entries::{Catalog, CatalogError};

/// Reads the built-in catalog with the user's own, once. After an error in the user's file, which need
/// not exist, returns the built-in catalog and the error.
pub fn read_catalog(user: PathBuf) -> (Arc<Catalog>, Option<CatalogError>) {
    let (catalog, errors) = CatalogReader::new(None, Some(user)).read();
    (catalog, errors.into_iter().next())
}

/// A catalog that follows its files until it is dropped.
#[derive(Debug)]
pub struct CatalogWatcher {
    state: Arc<Mutex<State>>,
    _watcher: FileWatcher,
}

#[derive(Debug)]
struct State {
    current: Arc<Catalog>,
    errors: Vec<CatalogError>,
}

impl CatalogWatcher {
    /// Reads the catalogs and watches their files. `built_in` is a file that replaces the built-in
    /// catalog, `user` is the user's own catalog; neither the file nor its folder need exist. Calls
    /// `on_change` on a separate thread when the current catalog or [`Self::error`] changes.
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
        Self {
            state,
            _watcher: watcher,
        }
    }

    /// Returns the current catalog.
    pub fn current(&self) -> Arc<Catalog> {
        lock(&self.state).current.clone()
    }

    /// Returns why a file is not in use as it is now: the first error of the user's own catalog, else
    /// of the built-in one.
    pub fn error(&self) -> Option<CatalogError> {
        lock(&self.state).errors.first().cloned()
    }
}

/// Locks the state, also after a panic: each change is one assignment, so it is complete.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
