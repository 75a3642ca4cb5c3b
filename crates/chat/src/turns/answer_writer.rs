//! Writes a growing response to disk.
//!
//! Writes run in parallel with the response, one at a time, so a slow disk delays nothing. Text
//! that arrives during a write is part of the next one. Rule: text is written at most
//! [`SAVE_INTERVAL`] after it arrived, whether or not a window follows. A failed write keeps its
//! text and is retried.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use transom_engine::Section;
use transom_store::{Ending, MessageId, Store, StoreError, StoreErrorKind};

/// Together with the time of a write, less than the one second that may be lost.
pub(super) const SAVE_INTERVAL: Duration = Duration::from_millis(750);

/// Delay after the first failure. It doubles with each further failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The longest delay between retries, so that free space is noticed soon.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

type Written = Result<(), StoreError>;

/// The store functions that a growing response needs. They block.
pub(crate) trait AnswerStorage: Send + Sync + 'static {
    /// As [`Store::append`].
    fn append(&self, id: MessageId, reasoning: &str, text: &str) -> Written;
    /// As [`Store::finish`].
    fn finish(&self, id: MessageId, ending: Ending, stats: Option<String>) -> Written;
}

impl AnswerStorage for Store {
    fn append(&self, id: MessageId, reasoning: &str, text: &str) -> Written {
        Self::append(self, id, reasoning, text)
    }

    fn finish(&self, id: MessageId, ending: Ending, stats: Option<String>) -> Written {
        Self::finish(self, id, ending, stats)
    }
}

pub(super) struct AnswerWriter {
    storage: Arc<dyn AnswerStorage>,
    id: MessageId,
    unsaved: Unsaved,
    /// When `unsaved` must be written; `None` if it is empty or a write is running.
    due: Option<Instant>,
    running: Option<JoinHandle<(Unsaved, Written)>>,
    n_failures: u32,
}

/// Text that is not on disk yet.
#[derive(Default)]
struct Unsaved {
    reasoning: String,
    text: String,
}

#[derive(Debug)]
pub(super) enum SaveResult {
    /// The text is on disk.
    Saved {
        /// Earlier writes had failed, and the user was told.
        after_failure: bool,
    },
    /// The write failed and will be retried.
    Failed {
        kind: Option<StoreErrorKind>,
        /// The reason, which names the file.
        reason: String,
        /// The previous write succeeded, so the user has not been told yet.
        is_first: bool,
    },
    /// The message was deleted. Nothing more can be saved.
    Deleted,
}

impl AnswerWriter {
    pub(super) fn new(storage: Arc<dyn AnswerStorage>, id: MessageId) -> Self {
        Self {
            storage,
            id,
            unsaved: Unsaved::default(),
            due: None,
            running: None,
            n_failures: 0,
        }
    }

    /// Adds text that the model wrote at `now`.
    pub(super) fn push(&mut self, section: Section, text: &str, now: Instant) {
        match section {
            Section::Reasoning => self.unsaved.reasoning.push_str(text),
            Section::Answer => self.unsaved.text.push_str(text),
        }
        if self.running.is_none() {
            self.due.get_or_insert(now + SAVE_INTERVAL);
        }
    }

    /// Returns when [`AnswerWriter::start_write`] must be called.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn start_write(&mut self, now: Instant) {
        if self.running.is_some() || self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        let unsaved = std::mem::take(&mut self.unsaved);
        let (storage, id) = (self.storage.clone(), self.id);
        self.running = Some(tokio::task::spawn_blocking(move || {
            let result = storage.append(id, &unsaved.reasoning, &unsaved.text);
            (unsaved, result)
        }));
    }

    /// Waits for the running write; forever if there is none. Cancel-safe.
    pub(super) async fn write_finished(&mut self) -> SaveResult {
        let Some(running) = &mut self.running else {
            return std::future::pending().await;
        };
        let joined = running.await;
        self.running = None;
        let now = Instant::now();
        let Ok((mut saved, result)) = joined else {
            // The store panicked with the text. The only other writer is in the live state.
            return self.failed(None, "the write failed unexpectedly".to_owned(), now);
        };
        if !matches!(result, Ok(())) {
            saved.reasoning.push_str(&self.unsaved.reasoning);
            saved.text.push_str(&self.unsaved.text);
            self.unsaved = saved;
        }
        let result = self.record(result, now);
        if self.due.is_none() && !self.unsaved.is_empty() {
            self.due = Some(now + SAVE_INTERVAL);
        }
        result
    }

    /// Writes the remaining text and the ending. After [`SaveResult::Failed`], call it again at
    /// [`AnswerWriter::retry_at`].
    pub(super) async fn finish(&mut self, ending: Ending, stats: Option<String>) -> SaveResult {
        if self.running.is_some() && matches!(self.write_finished().await, SaveResult::Deleted) {
            return SaveResult::Deleted;
        }
        let unsaved = std::mem::take(&mut self.unsaved);
        let (storage, id) = (self.storage.clone(), self.id);
        let finished = tokio::task::spawn_blocking(move || {
            if !unsaved.is_empty()
                && let Err(error) = storage.append(id, &unsaved.reasoning, &unsaved.text)
            {
                return (unsaved, Err(error));
            }
            (Unsaved::default(), storage.finish(id, ending, stats))
        });
        let now = Instant::now();
        let Ok((unsaved, result)) = finished.await else {
            return self.failed(None, "the write failed unexpectedly".to_owned(), now);
        };
        self.unsaved = unsaved;
        self.record(result, now)
    }

    /// Returns the time of the retry after a failure at `now`.
    pub(super) fn retry_at(&self, now: Instant) -> Instant {
        let doubled = FIRST_RETRY * 2u32.pow(self.n_failures.saturating_sub(1).min(10));
        now + doubled.min(LONGEST_RETRY)
    }

    fn record(&mut self, result: Written, now: Instant) -> SaveResult {
        match result {
            Ok(()) => {
                let after_failure = std::mem::take(&mut self.n_failures) > 0;
                SaveResult::Saved { after_failure }
            }
            Err(
                StoreError::NoMessage(_)
                | StoreError::NoConversation(_)
                | StoreError::NotWriting(_),
            ) => {
                self.unsaved = Unsaved::default();
                self.due = None;
                SaveResult::Deleted
            }
            Err(error) => self.failed(error.kind(), error.to_string(), now),
        }
    }

    fn failed(&mut self, kind: Option<StoreErrorKind>, reason: String, now: Instant) -> SaveResult {
        self.n_failures += 1;
        self.due = Some(self.retry_at(now));
        SaveResult::Failed {
            kind,
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
