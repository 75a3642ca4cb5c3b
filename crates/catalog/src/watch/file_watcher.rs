//! Watches files on a separate thread and calls a function when they change.
//!
//! Rule: folders are watched before files are read, so that no change is missed in between. A file
//! that an editor is still writing is read only when the writes have ended.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
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
    messages: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

enum Message {
    /// The system reported a change in a watched folder.
    Event(notify::Result<notify::Event>),
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
        let (messages, received) = mpsc::channel();
        let watch_thread = WatchThread {
            folders: WatchedFolders::new(files, EventSender(messages.clone())),
            on_change,
        };
        let thread = thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || watch_thread.run(&received));
        // Without the thread, changes are noticed at the next start.
        let thread = thread.ok();
        Self { messages, thread }
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

struct EventSender(Sender<Message>);

impl EventHandler for EventSender {
    fn handle_event(&mut self, event: notify::Result<notify::Event>) {
        // Fails only after the end of the thread.
        let _ = self.0.send(Message::Event(event));
    }
}

struct WatchThread<F> {
    folders: WatchedFolders,
    on_change: F,
}

impl<F: FnMut()> WatchThread<F> {
    fn run(mut self, received: &Receiver<Message>) {
        loop {
            self.folders.watch();
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
                Err(RecvTimeoutError::Timeout) => return Some(()),
                Ok(Message::Event(event)) => {
                    if self.folders.is_relevant(&event) {
                        quiet = Instant::now() + QUIET_TIME;
                    }
                }
            }
        }
    }
}
