//! The copy of a growing answer on disk: what of it is not there yet, and when it must be.
//!
//! Writes run beside the answer, one at a time, so a slow disk holds nothing up; what comes
//! meanwhile goes with the next. Rule: text is on its way to the disk [`SAVE_INTERVAL`] after it
//! came at the latest, whether or not anybody follows; a write that failed keeps its text and is
//! tried again.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use transom_engine::Section;
use transom_store::{Ending, MessageId, Store, StoreError};

/// With the time of a write, less than the one second that may be lost.
pub(super) const SAVE_INTERVAL: Duration = Duration::from_millis(750);

/// Wait after the first failure, doubled with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The longest wait between two tries: a disk that has room again is soon noticed.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// What a growing answer needs of the store. Calls block.
pub(crate) trait Disk: Send + Sync + 'static {
    /// As [`Store::append`].
    fn append(&self, id: MessageId, reasoning: &str, text: &str) -> Result<(), StoreError>;
    /// As [`Store::finish`].
    fn finish(
        &self,
        id: MessageId,
        ending: Ending,
        stats: Option<String>,
    ) -> Result<(), StoreError>;
}

impl Disk for Store {
    fn append(&self, id: MessageId, reasoning: &str, text: &str) -> Result<(), StoreError> {
        Self::append(self, id, reasoning, text)
    }

    fn finish(
        &self,
        id: MessageId,
        ending: Ending,
        stats: Option<String>,
    ) -> Result<(), StoreError> {
        Self::finish(self, id, ending, stats)
    }
}

/// See the head of this file.
pub(super) struct DiskCopy {
    disk: Arc<dyn Disk>,
    id: MessageId,
    unsaved: Unsaved,
    /// When `unsaved` must be on its way; `None` while there is nothing, or a write runs.
    due: Option<Instant>,
    running: Option<JoinHandle<(Unsaved, Result<(), StoreError>)>>,
    n_failures: u32,
}

/// Text that is not on disk.
#[derive(Default)]
struct Unsaved {
    reasoning: String,
    text: String,
}

/// How a write went.
#[derive(Debug)]
pub(super) enum Saved {
    /// It is on disk. `after_trouble`: writes before it had failed.
    Whole {
        /// People were told of a failure before.
        after_trouble: bool,
    },
    /// It is not; it will be tried again. `is_first`: the one before it was well.
    Failed {
        /// Why, naming the file.
        reason: String,
        /// People were not told yet.
        is_first: bool,
    },
    /// The message is no longer there: somebody deleted it. Nothing more can be saved.
    Gone,
}

impl DiskCopy {
    /// The copy of the answer `id`, of which there is nothing yet.
    pub(super) fn new(disk: Arc<dyn Disk>, id: MessageId) -> Self {
        Self {
            disk,
            id,
            unsaved: Unsaved::default(),
            due: None,
            running: None,
            n_failures: 0,
        }
    }

    /// Takes what the model wrote at `now`.
    pub(super) fn push(&mut self, section: Section, text: &str, now: Instant) {
        match section {
            Section::Reasoning => self.unsaved.reasoning.push_str(text),
            Section::Answer => self.unsaved.text.push_str(text),
        }
        if self.running.is_none() {
            self.due.get_or_insert(now + SAVE_INTERVAL);
        }
    }

    /// When [`DiskCopy::begin`] must be called.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Begins to write what is not there, if it is due at `now`.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.running.is_some() || self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        let unsaved = std::mem::take(&mut self.unsaved);
        let (disk, id) = (self.disk.clone(), self.id);
        self.running = Some(tokio::task::spawn_blocking(move || {
            let result = disk.append(id, &unsaved.reasoning, &unsaved.text);
            (unsaved, result)
        }));
    }

    /// Waits for the write that runs; forever while none does. Nothing is lost when the returned
    /// future is dropped.
    pub(super) async fn settled(&mut self) -> Saved {
        let Some(running) = &mut self.running else {
            return std::future::pending().await;
        };
        let joined = running.await;
        self.running = None;
        let now = Instant::now();
        let Ok((mut saved, result)) = joined else {
            // The store panicked with the text; there is no other copy of it but the board's.
            return self.failed("the write did not end in order".to_owned(), now);
        };
        if !matches!(result, Ok(())) {
            saved.reasoning.push_str(&self.unsaved.reasoning);
            saved.text.push_str(&self.unsaved.text);
            self.unsaved = saved;
        }
        let result = self.read(result, now);
        if self.due.is_none() && !self.unsaved.is_empty() {
            self.due = Some(now + SAVE_INTERVAL);
        }
        result
    }

    /// Ends the copy: writes what is missing, then how the answer ended. To be called again after
    /// [`Saved::Failed`], when [`DiskCopy::retry_at`] has come.
    pub(super) async fn finish(&mut self, ending: Ending, stats: Option<String>) -> Saved {
        if self.running.is_some() && matches!(self.settled().await, Saved::Gone) {
            return Saved::Gone;
        }
        let unsaved = std::mem::take(&mut self.unsaved);
        let (disk, id) = (self.disk.clone(), self.id);
        let finished = tokio::task::spawn_blocking(move || {
            if !unsaved.is_empty()
                && let Err(error) = disk.append(id, &unsaved.reasoning, &unsaved.text)
            {
                return (unsaved, Err(error));
            }
            (Unsaved::default(), disk.finish(id, ending, stats))
        });
        let now = Instant::now();
        let Ok((unsaved, result)) = finished.await else {
            return self.failed("the write did not end in order".to_owned(), now);
        };
        self.unsaved = unsaved;
        self.read(result, now)
    }

    /// When to try again after a failure at `now`.
    pub(super) fn retry_at(&self, now: Instant) -> Instant {
        let doubled = FIRST_RETRY * 2u32.pow(self.n_failures.saturating_sub(1).min(10));
        now + doubled.min(LONGEST_RETRY)
    }

    fn read(&mut self, result: Result<(), StoreError>, now: Instant) -> Saved {
        match result {
            Ok(()) => {
                let after_trouble = std::mem::take(&mut self.n_failures) > 0;
                Saved::Whole { after_trouble }
            }
            Err(
                StoreError::NoMessage(_)
                | StoreError::NoConversation(_)
                | StoreError::NotWriting(_),
            ) => {
                self.unsaved = Unsaved::default();
                self.due = None;
                Saved::Gone
            }
            Err(error) => self.failed(error.to_string(), now),
        }
    }

    fn failed(&mut self, reason: String, now: Instant) -> Saved {
        self.n_failures += 1;
        self.due = Some(self.retry_at(now));
        Saved::Failed {
            reason,
            is_first: self.n_failures == 1,
        }
    }
}

impl Unsaved {
    fn is_empty(&self) -> bool {
        self.reasoning.is_empty() && self.text.is_empty()
    }
}
