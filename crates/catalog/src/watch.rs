//! Watches the user's own catalog and reads it again when it changes.
//!
//! Rule: the current catalog is always complete. While the file has an error, the catalog from before
//! the error stays and the error is reported. Callers get the current catalog without waiting.

mod file_watcher;
mod folders;
mod reader;

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

pub(crate) use file_watcher::FileWatcher;
use reader::CatalogReader;

use crate::entries::{Catalog, CatalogError};

/// Reads the built-in catalog with the user's own, once. After an error in the user's file, which need
/// not exist, returns the built-in catalog and the error.
pub fn read_catalog(user: PathBuf) -> (Arc<Catalog>, Option<CatalogError>) {
    CatalogReader::new(user).read()
}

/// A catalog that follows the user's own file until it is dropped.
#[derive(Debug)]
pub struct CatalogWatcher {
    state: Arc<Mutex<State>>,
    _watcher: FileWatcher,
}

type State = (Arc<Catalog>, Option<CatalogError>);

impl CatalogWatcher {
    /// Reads the catalog and watches the user's own. Neither that file nor its folder need exist. Calls
    /// `on_change` on a separate thread when the current catalog or [`Self::error`] changes.
    pub fn start(user: PathBuf, mut on_change: impl FnMut() + Send + 'static) -> Self {
        let mut reader = CatalogReader::new(user.clone());
        let state = Arc::new(Mutex::new(reader.read()));
        let shown = state.clone();
        let watcher = FileWatcher::start("models.toml", vec![user], move || {
            let now = reader.read();
            {
                let mut state = shown.lock();
                if *state == now {
                    return;
                }
                *state = now;
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
        self.state.lock().0.clone()
    }

    /// Returns why the user's own catalog is not in use as it is now.
    pub fn error(&self) -> Option<CatalogError> {
        self.state.lock().1.clone()
    }
}
