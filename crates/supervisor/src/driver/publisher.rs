//! Publishes the status: important changes at once, progress at a limited rate.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::core::Timestamp;
use crate::status::{RequestState, Status};

/// Minimum time between two snapshots that differ only in progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// Minimum time between two snapshots that differ only in the tokens of running responses.
const TOKEN_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Publisher {
    sender: watch::Sender<Arc<Status>>,
    /// The last snapshot in the form in which snapshots are compared.
    last: Status,
    last_at: Timestamp,
    due: Option<Timestamp>,
}

impl Publisher {
    pub(super) fn new(first: Status) -> (Self, watch::Receiver<Arc<Status>>) {
        let last = comparable(first.clone(), Timestamp::ZERO);
        let (sender, receiver) = watch::channel(Arc::new(with_revision(first, 0)));
        let publisher = Self {
            sender,
            last,
            last_at: Timestamp::ZERO,
            due: None,
        };
        (publisher, receiver)
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// Returns true if progress must be published now, and not later with other progress.
    pub(super) fn is_progress_due(&mut self, now: Timestamp) -> bool {
        *self.due.get_or_insert(self.last_at + PROGRESS_INTERVAL) <= now
    }

    /// Returns true if the tokens of running responses must be published now.
    pub(super) fn are_tokens_due(&self, now: Timestamp) -> bool {
        self.last_at + TOKEN_INTERVAL <= now
    }

    /// Publishes `status`, taken at `now`, if it contains a change; returns it with its revision.
    pub(super) fn publish(&mut self, status: Status, now: Timestamp) -> Arc<Status> {
        self.due = None;
        let comparable = comparable(status.clone(), now);
        let has_new_tokens = !status.running.is_empty() && self.are_tokens_due(now);
        if comparable == self.last && !has_new_tokens {
            return Arc::new(with_revision(status, self.revision()));
        }
        self.last = comparable;
        self.last_at = now;
        let status = Arc::new(with_revision(status, self.revision() + 1));
        self.sender.send_replace(status.clone());
        status
    }

    fn revision(&self) -> u64 {
        self.sender.borrow().revision
    }
}

fn with_revision(status: Status, revision: u64) -> Status {
    Status {
        revision,
        process_id: std::process::id(),
        ..status
    }
}

/// Returns `status` for comparison: with points in time instead of countdowns, and without the
/// tokens of running responses.
fn comparable(mut status: Status, now: Timestamp) -> Status {
    for model in &mut status.models {
        model.unloads_in = model.unloads_in.map(|wait| now + wait);
    }
    for request in &mut status.running {
        if request.state != RequestState::Stopping {
            request.state = RequestState::Queued;
        }
    }
    status
}
