//! Stops responses: one, all of a conversation whose messages are deleted, or all when the program quits.
//!
//! Rule: a response is stopped after its running step, and its end may start a summary. So whoever deletes
//! messages waits for it with [`Turns::end`].

use std::time::Duration;

use transom_store::{ConversationId, MessageId};

use super::Turns;
use super::answer_task::RunningAnswer;
use super::shared::ActiveTurns;

/// How long messages that are deleted wait for the end of responses, which end after their running step.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(2);

impl Turns {
    /// Stops a response after its running step, whether it is queued, loading or being written. The
    /// text so far stays. Has no effect on a finished response.
    pub fn stop(&self, answer: MessageId) {
        if let Some(entry) = self.shared.active.lock().entries.get(&answer) {
            entry.stop.notify_one();
        }
    }

    /// Stops every response and starts no more, for a program that quits. Returns when all text is
    /// on disk or the disk refused it. Call this before the supervisor quits.
    pub async fn close(&self) {
        self.shared.active.lock().is_closing = true;
        self.stop_summaries(None);
        self.stop_until(|_| true, |active| active.locked.is_empty())
            .await;
    }

    /// Stops all that is being written in a conversation, or in all of them, and returns when its responses
    /// have ended and no summary or title is wanted, at the latest after [`END_TIMEOUT`]. Call this before
    /// messages are deleted: a response that ends may start a summary of them.
    pub async fn end(&self, conversation: Option<ConversationId>) {
        let is_in = |entry: &RunningAnswer| conversation.is_none_or(|id| id == entry.conversation);
        let is_over = |active: &ActiveTurns| !active.entries.values().any(|entry| is_in(entry));
        let ended = tokio::time::timeout(END_TIMEOUT, self.stop_until(is_in, is_over));
        if ended.await.is_err() {
            tracing::warn!("messages are deleted before their response has ended");
        }
        self.stop_summaries(conversation);
    }

    /// Stops responses until `is_over` returns true.
    async fn stop_until(
        &self,
        is_stopped: impl Fn(&RunningAnswer) -> bool,
        is_over: impl Fn(&ActiveTurns) -> bool,
    ) {
        let mut changes = self.shared.active_changed.subscribe();
        loop {
            changes.mark_unchanged();
            {
                let active = self.shared.active.lock();
                if is_over(&active) {
                    return;
                }
                let entries = active.entries.values();
                for entry in entries.filter(|entry| is_stopped(entry)) {
                    entry.stop.notify_one();
                }
            }
            // The sender is owned by `self`, so waiting cannot fail.
            let _ = changes.changed().await;
        }
    }
}
