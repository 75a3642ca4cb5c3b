//! The list of models as the files say now: watched, and read again in place when one changes.
//!
//! Rule: what is in force is always a whole list. While a file has a mistake, the list from before it
//! stays and the mistake is told. Nobody waits for a file: who asks for the list gets the one in
//! force.

mod files;
mod folders;
mod follow;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub(crate) use files::{Files, lock};
use follow::Follow;
pub use follow::read_list;

use crate::entries::{Catalogue, Mistake};

/// A list of models that follows its files until it is dropped.
#[derive(Debug)]
pub struct Watch {
    state: Arc<Mutex<State>>,
    files: Files,
}

#[derive(Debug)]
struct State {
    current: Arc<Catalogue>,
    mistakes: Vec<Mistake>,
}

impl Watch {
    /// Reads the lists, and watches them from now on. `built_in` is a file to take in place of the
    /// list that the program was built with; `user` the user's own, which need not be there, nor its
    /// folder. `on_change` is called on a thread of its own when another list is in force, or what
    /// [`Self::mistake`] says is another.
    pub fn start(
        built_in: Option<PathBuf>,
        user: Option<PathBuf>,
        mut on_change: impl FnMut() + Send + 'static,
    ) -> Self {
        let files = built_in.iter().chain(&user).cloned().collect();
        let mut follow = Follow::new(built_in, user);
        let (current, mistakes) = follow.read();
        let state = Arc::new(Mutex::new(State { current, mistakes }));
        let shown = state.clone();
        let files = Files::watch("models.toml", files, move || {
            let (current, mistakes) = follow.read();
            {
                let mut state = lock(&shown);
                if state.current == current && state.mistakes == mistakes {
                    return;
                }
                *state = State { current, mistakes };
            }
            on_change();
        });
        Self { state, files }
    }

    /// The list in force.
    pub fn current(&self) -> Arc<Catalogue> {
        lock(&self.state).current.clone()
    }

    /// Why a file is not in force as it is now: the first mistake of the user's own list, else of the
    /// built-in one.
    pub fn mistake(&self) -> Option<Mistake> {
        lock(&self.state).mistakes.first().cloned()
    }

    /// Why changes are not noticed, if they are not: [`Self::look_again`] reads the files then.
    pub fn problem(&self) -> Option<String> {
        self.files.problem()
    }

    /// Has the files read again soon, as if they had changed.
    pub fn look_again(&self) {
        self.files.look_again();
    }
}
