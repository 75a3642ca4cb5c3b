//! Some files that are watched on a thread of their own, which looks at them when they change.
//!
//! Rule: folders are watched first and files read then, so that no change falls between the two; and
//! a file that an editor is still writing is read when that is over.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use notify::EventHandler;

use super::folders::Folders;

/// An editor's last write is this long past before the file is read.
const QUIET: Duration = Duration::from_millis(100);
/// Files that keep changing are read after this time nevertheless.
const LONGEST: Duration = Duration::from_secs(1);

/// Files that are watched until this is dropped.
#[derive(Debug)]
pub(crate) struct Files {
    problem: Arc<Mutex<Option<String>>>,
    wakes: Sender<Wake>,
    thread: Option<JoinHandle<()>>,
}

/// What wakes the thread.
enum Wake {
    /// Something happened in a folder that is watched.
    Event(notify::Result<notify::Event>),
    /// Someone asked to look.
    Look,
    /// Nobody is interested any more.
    Stop,
}

impl Files {
    /// Watches `files`, which need not be there, nor their folders. `look` is called on a thread of
    /// this `name`, as soon as it watches and after each change.
    pub(crate) fn watch(
        name: &str,
        files: Vec<PathBuf>,
        look: impl FnMut() + Send + 'static,
    ) -> Self {
        let problem = Arc::new(Mutex::new(None));
        let (wakes, woken) = mpsc::channel();
        let watching = Watching {
            folders: Folders::new(files, Waker(wakes.clone())),
            problem: problem.clone(),
            look,
        };
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || watching.run(&woken));
        let thread = match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                *lock(&problem) = Some(error.to_string());
                None
            }
        };
        Self {
            problem,
            wakes,
            thread,
        }
    }

    /// Why changes are not noticed, if they are not.
    pub(crate) fn problem(&self) -> Option<String> {
        lock(&self.problem).clone()
    }

    /// Has the files looked at soon, as if they had changed.
    pub(crate) fn look_again(&self) {
        // Without a thread there is nobody to look, as `problem` says.
        let _ = self.wakes.send(Wake::Look);
    }
}

impl Drop for Files {
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

/// What a panic elsewhere left is whole: every change of it is one assignment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes on what the system tells.
pub(super) struct Waker(Sender<Wake>);

impl EventHandler for Waker {
    fn handle_event(&mut self, event: notify::Result<notify::Event>) {
        // After the end there is nobody to tell.
        let _ = self.0.send(Wake::Event(event));
    }
}

/// What the thread owns.
struct Watching<F> {
    folders: Folders,
    problem: Arc<Mutex<Option<String>>>,
    look: F,
}

impl<F: FnMut()> Watching<F> {
    fn run(mut self, woken: &Receiver<Wake>) {
        loop {
            let problem = self.folders.watch().err();
            *lock(&self.problem) = problem;
            (self.look)();
            if self.wait(woken).is_none() {
                return;
            }
        }
    }

    /// Returns when the files are to be looked at again; `None` at the end.
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
