//! When the status is published: at once where people wait for it, and no more often than the eye
//! follows where only a figure grows.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Urgency;
use crate::core::Timestamp;
use crate::status::Status;

/// Least time between two snapshots that differ only in progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// See the head of this file.
pub(super) struct Publisher {
    sender: watch::Sender<Arc<Status>>,
    /// The last snapshot, free of what changes by itself.
    last: Status,
    last_at: Timestamp,
    due: Option<Timestamp>,
}

impl Publisher {
    /// Publishes `first`, of the time zero, as the state before anything happened.
    pub(super) fn new(first: Status) -> (Self, watch::Receiver<Arc<Status>>) {
        let last = without_countdowns(first.clone(), Timestamp::ZERO);
        let (sender, receiver) = watch::channel(Arc::new(with_revision(first, 0)));
        let publisher = Self {
            sender,
            last,
            last_at: Timestamp::ZERO,
            due: None,
        };
        (publisher, receiver)
    }

    /// When progress that was held back must be published.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// Whether a snapshot must be published now, after an event that is `news`.
    pub(super) fn is_due(&mut self, urgency: Urgency, now: Timestamp) -> bool {
        match urgency {
            Urgency::Immediate => true,
            Urgency::Progress => {
                let due = *self.due.get_or_insert(self.last_at + PROGRESS_INTERVAL);
                due <= now
            }
        }
    }

    /// Publishes `status`, of this moment, if it says anything new; returns it as it is now.
    pub(super) fn publish(&mut self, status: Status, now: Timestamp) -> Arc<Status> {
        self.due = None;
        let comparable = without_countdowns(status.clone(), now);
        if comparable == self.last {
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

/// `status` with points in time for the waits that run down by themselves.
fn without_countdowns(mut status: Status, now: Timestamp) -> Status {
    for model in &mut status.models {
        model.unloads_in = model.unloads_in.map(|wait| now + wait);
    }
    status
}
