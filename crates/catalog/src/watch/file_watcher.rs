//! Watches files on a separate thread and calls a function when they change.
//!
//! Rule: folders are watched before files are read, so that no change is missed in between. A file
//! that an editor is still writing is read only when the writes have ended.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use notify::EventHandler;

use super::folders::WatchedFolders;

/// Time without changes after which a file is read, so that an editor has finished writing.
const QUIET_TIME: Duration = Duration::from_millis(100);
/// Files that keep changing are read after this time anyway.
const MAX_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct FileWatcher {
    problem: Arc<Mutex<Option<String>>>,
    messages: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

enum Message {
    /// The system reported a change in a watched folder.
    Event(notify::Result<notify::Event>),
    /// [`FileWatcher::reload`] was called.
    Reload,
    /// The watcher was dropped.
    Stop,
}

impl FileWatcher {
    /// Watches `files`; neither they nor their folders need exist. Calls `on_change` on a thread with
    /// this `name`, once as soon as it watches, and after each change.
    pub(crate) fn start(
        name: &str,
        files: Vec<PathBuf>,
        on_change: impl FnMut() + Send + 'static,
    ) -> Self {
        let problem = Arc::new(Mutex::new(None));
        let (messages, received) = mpsc::channel();
        let watch_thread = WatchThread {
            folders: WatchedFolders::new(files, EventSender(messages.clone())),
            problem: problem.clone(),
            on_change,
        };
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || watch_thread.run(&received));
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

    pub(crate) fn problem(&self) -> Option<String> {
        lock(&self.problem).clone()
    }

    pub(crate) fn reload(&self) {
        // If the thread could not be started, `problem` says so.
        let _ = self.messages.send(Message::Reload);
    }
}

impl Drop for FileWatcher {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
        let own = thread::current().id();
        // The last reference may be dropped in `on_change`, on the thread itself.
        if let Some(thread) = self
            .thread
            .take()
            .filter(|other| other.thread().id() != own)
        {
            let _ = thread.join();
        }
    }
}

/// Locks a mutex, also after a panic: each change of the data is one assignment, so it is complete.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct EventSender(Sender<Message>);

impl EventHandler for EventSender {
    fn handle_event(&mut self, event: notify::Result<notify::Event>) {
        // Fails only after the end of the thread.
        let _ = self.0.send(Message::Event(event));
    }
}

struct WatchThread<F> {
    folders: WatchedFolders,
    problem: Arc<Mutex<Option<String>>>,
    on_change: F,
}

impl<F: FnMut()> WatchThread<F> {
    fn run(mut self, received: &Receiver<Message>) {
        loop {
            let problem = self.folders.watch().err();
            *lock(&self.problem) = problem;
            (self.on_change)();
            if self.wait(received).is_none() {
                return;
            }
        }
    }

    /// Waits until the files must be read again. Returns `None` at the end.
    fn wait(&self, received: &Receiver<Message>) -> Option<()> {
        loop {
            match received.recv() {
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
            match received.recv_timeout(left) {
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
