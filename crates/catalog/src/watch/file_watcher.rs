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

use super::folders::WatchedFolders;

/// An editor's last write is this long past before the file is read.
const QUIET_TIME: Duration = Duration::from_millis(100);
/// Files that keep changing are read after this time nevertheless.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Files that are watched until this is dropped.
#[derive(Debug)]
pub(crate) struct FileWatcher {
    problem: Arc<Mutex<Option<String>>>,
    messages: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

/// What wakes the thread.
enum Message {
    /// Something happened in a folder that is watched.
    Event(notify::Result<notify::Event>),
    /// Someone asked to look.
    Reload,
    /// Nobody is interested any more.
    Stop,
}

impl FileWatcher {
    /// Watches `files`, which need not be there, nor their folders. `look` is called on a thread of
    /// this `name`, as soon as it watches and after each change.
    pub(crate) fn start(
        name: &str,
        files: Vec<PathBuf>,
        on_change: impl FnMut() + Send + 'static,
    ) -> Self {
        let problem = Arc::new(Mutex::new(None));
        let (messages, messages) = mpsc::channel();
        let watch_thread = WatchThread {
            folders: WatchedFolders::new(files, EventSender(messages.clone())),
            problem: problem.clone(),
            on_change,
        };
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || watch_thread.run(&messages));
        let thread = match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                *lock(&problem) = Some(error.to_string());
                None
            }
        };
        Self {
            problem,
            messages,
            thread,
        }
    }

    /// Why changes are not noticed, if they are not.
    pub(crate) fn problem(&self) -> Option<String> {
        lock(&self.problem).clone()
    }

    /// Has the files looked at soon, as if they had changed.
    pub(crate) fn reload(&self) {
        // Without a thread there is nobody to look, as `problem` says.
        let _ = self.messages.send(Message::Reload);
    }
}

impl Drop for FileWatcher {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
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
pub(super) struct EventSender(Sender<Message>);

impl EventHandler for EventSender {
    fn handle_event(&mut self, event: notify::Result<notify::Event>) {
        // After the end there is nobody to tell.
        let _ = self.0.send(Message::Event(event));
    }
}

/// What the thread owns.
struct WatchThread<F> {
    folders: WatchedFolders,
    problem: Arc<Mutex<Option<String>>>,
    on_change: F,
}

impl<F: FnMut()> WatchThread<F> {
    fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let problem = self.folders.watch().err();
            *lock(&self.problem) = problem;
            (self.on_change)();
            if self.wait(messages).is_none() {
                return;
            }
        }
    }

    /// Returns when the files are to be looked at again; `None` at the end.
    fn wait(&self, messages: &Receiver<Message>) -> Option<()> {
        loop {
            match messages.recv() {
                Ok(Message::Stop) | Err(_) => return None,
                Ok(Message::Reload) => return Some(()),
                Ok(Message::Event(event)) if self.folders.is_relevant(&event) => break,
                Ok(Message::Event(_)) => {}
            }
        }
        let deadline = Instant::now() + MAX_DELAY;
        let mut quiet = Instant::now() + QUIET_TIME;
        loop {
            let left = quiet
                .min(deadline)
                .saturating_duration_since(Instant::now());
            match messages.recv_timeout(left) {
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
                Ok(Message::Reload) | Err(RecvTimeoutError::Timeout) => return Some(()),
                Ok(Message::Event(event)) => {
                    if self.folders.is_relevant(&event) {
                        quiet = Instant::now() + QUIET_TIME;
                    }
                }
            }
        }
    }
}
