//! The list of models as the files say now: watched, and read again in place when one changes.
//!
//! Rule: what is in force is always a whole list. While a file has a mistake, the list from before it
//! stays and the mistake is told. Nobody waits for a file: who asks for the list gets the one in
//! force.

mod folders;
mod follow;

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use folders::Folders;
use follow::Follow;
use notify::EventHandler;

use crate::entries::{Catalogue, Mistake};

/// An editor's last write is this long past before the file is read.
const QUIET: Duration = Duration::from_millis(100);
/// Files that keep changing are read after this time nevertheless.
const LONGEST: Duration = Duration::from_secs(1);

/// A list of models that follows its files until it is dropped.
#[derive(Debug)]
pub struct Watch {
    state: Arc<Mutex<State>>,
    wakes: Sender<Wake>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    current: Arc<Catalogue>,
    mistakes: Vec<Mistake>,
    problem: Option<String>,
}

/// What wakes the thread.
enum Wake {
    /// Something happened in a folder that is watched.
    Event(notify::Result<notify::Event>),
    /// Someone asked to look.
    Look,
    /// The list is no longer wanted.
    Stop,
}

impl Watch {
    /// Reads the lists, and watches them from now on. `built_in` is a file to take in place of the
    /// list that the program was built with; `user` the user's own, which need not be there, nor its
    /// folder. `on_change` is called on a thread of its own when another list is in force, or what
    /// [`Self::mistake`] says is another.
    pub fn start(
        built_in: Option<PathBuf>,
        user: Option<PathBuf>,
        on_change: impl FnMut() + Send + 'static,
    ) -> Self {
        let files = built_in.iter().chain(&user).cloned().collect();
        let mut follow = Follow::new(built_in, user);
        let (current, mistakes) = follow.read();
        let state = Arc::new(Mutex::new(State {
            current,
            mistakes,
            problem: None,
        }));
        let (wakes, woken) = mpsc::channel();
        let thread = Following {
            follow,
            folders: Folders::new(files, Waker(wakes.clone())),
            state: state.clone(),
            on_change,
        };
        let thread = thread::Builder::new()
            .name("models.toml".to_owned())
            .spawn(move || thread.run(&woken));
        let thread = match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                lock(&state).problem = Some(error.to_string());
                None
            }
        };
        Self {
            state,
            wakes,
            thread,
        }
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
        lock(&self.state).problem.clone()
    }

    /// Has the files read again soon, as if they had changed.
    pub fn look_again(&self) {
        // Without a thread there is nobody to look, as `problem` says.
        let _ = self.wakes.send(Wake::Look);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.wakes.send(Wake::Stop);
        let own = thread::current().id();
        // A callback may be the one that drops it.
        if let Some(thread) = self
            .thread
            .take()
            .filter(|other| other.thread().id() != own)
        {
            let _ = thread.join();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes on what the system tells.
struct Waker(Sender<Wake>);

impl EventHandler for Waker {
    fn handle_event(&mut self, event: notify::Result<notify::Event>) {
        // After the end there is nobody to tell.
        let _ = self.0.send(Wake::Event(event));
    }
}

/// What the thread owns.
struct Following<F> {
    follow: Follow,
    folders: Folders,
    state: Arc<Mutex<State>>,
    on_change: F,
}

impl<F: FnMut()> Following<F> {
    fn run(mut self, woken: &Receiver<Wake>) {
        loop {
            // Watched first and read then, so that no change falls between the two.
            let problem = self.folders.watch().err();
            lock(&self.state).problem = problem;
            self.read();
            if self.wait(woken).is_none() {
                return;
            }
        }
    }

    fn read(&mut self) {
        let (current, mistakes) = self.follow.read();
        {
            let mut state = lock(&self.state);
            if state.current == current && state.mistakes == mistakes {
                return;
            }
            state.current = current;
            state.mistakes = mistakes;
        }
        (self.on_change)();
    }

    /// Returns when the files are to be read again; `None` at the end.
    fn wait(&self, woken: &Receiver<Wake>) -> Option<()> {
        loop {
            match woken.recv() {
                Ok(Wake::Stop) | Err(_) => return None,
                Ok(Wake::Look) => return Some(()),
                Ok(Wake::Event(event)) if self.folders.concerns(&event) => break,
                Ok(Wake::Event(_)) => {}
            }
        }
        let longest = Instant::now() + LONGEST;
        let mut quiet = Instant::now() + QUIET;
        loop {
            let left = quiet.min(longest).saturating_duration_since(Instant::now());
            match woken.recv_timeout(left) {
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
                Ok(Wake::Look) | Err(RecvTimeoutError::Timeout) => return Some(()),
                Ok(Wake::Event(event)) => {
                    if self.folders.concerns(&event) {
                        quiet = Instant::now() + QUIET;
                    }
                }
            }
        }
    }
}
