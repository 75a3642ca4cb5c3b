//! The updates of one response, for a window.
//!
//! Rule: a follower gets a snapshot, updates and one end, in this order, whenever it starts. It may
//! read as slowly as it likes, and stops by dropping its [`Updates`].

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;
use transom_store::MessageId;

use super::Turns;
use super::live_answer::{Cursor, LiveAnswer};
use crate::update::{EndingView, MessageView, Snapshot, Stage, Update};

/// The updates of one response: [`Update::Snapshot`] first, [`Update::Ended`] last. A finished
/// response gives both at once. A missing response gives no updates.
///
/// Dropping it only stops following; the response continues.
pub struct Updates(Source);

enum Source {
    /// A response that is being written.
    Live {
        live: Arc<LiveAnswer>,
        changes: watch::Receiver<()>,
        cursor: Cursor,
    },
    /// A response that was not looked up in the store yet.
    Stored { turns: Turns, id: MessageId },
    /// A finished response.
    Finished(VecDeque<Update>),
}

impl Updates {
    pub(super) fn of_live(live: Arc<LiveAnswer>) -> Self {
        Self(Source::live(live))
    }

    pub(super) fn of_stored(turns: Turns, id: MessageId) -> Self {
        Self(Source::Stored { turns, id })
    }

    /// Waits for the next update; `None` after the last. Changes since the previous update are
    /// merged. Cancel-safe.
    pub async fn next(&mut self) -> Option<Update> {
        if let Source::Stored { turns, id } = &self.0 {
            self.0 = find_source(turns, *id).await;
        }
        match &mut self.0 {
            Source::Stored { .. } => None,
            Source::Finished(updates) => updates.pop_front(),
            Source::Live {
                live,
                changes,
                cursor,
            } => loop {
                // Marked before reading, so that a change between reading and waiting is not
                // missed.
                changes.mark_unchanged();
                if let Some(update) = live.state().next(cursor) {
                    return Some(update);
                }
                if cursor.has_end || changes.changed().await.is_err() {
                    return None;
                }
            },
        }
    }
}

impl Source {
    fn live(live: Arc<LiveAnswer>) -> Self {
        let changes = live.subscribe();
        let cursor = Cursor::default();
        Self::Live {
            live,
            changes,
            cursor,
        }
    }
}

/// Finds the source of updates for a response that was not running. Its row is on disk shortly
/// before it runs, so this may have to wait.
async fn find_source(turns: &Turns, id: MessageId) -> Source {
    let mut changes = turns.shared.active_changed.subscribe();
    loop {
        changes.mark_unchanged();
        let found = turns.messages(&[id]).await;
        let message = match found {
            Ok(messages) => messages.into_iter().next(),
            Err(failure) => {
                tracing::error!(?failure, "a response cannot be read from the store");
                None
            }
        };
        let Some(mut message) = message else {
            return Source::Finished(VecDeque::new());
        };
        let (live, is_starting) = {
            let active = turns.shared.active.lock();
            let entry = active.entries.get(&id);
            let is_locked = active.locked.contains(&message.conversation);
            (entry.map(|entry| entry.live.clone()), is_locked)
        };
        if let Some(live) = live {
            return Source::live(live);
        }
        if message.ending == EndingView::Writing {
            if is_starting {
                // The sender lives in `turns`, so waiting cannot fail.
                let _ = changes.changed().await;
                continue;
            }
            // No task writes it.
            message.ending = EndingView::Interrupted;
        }
        return Source::Finished(finished_updates(message));
    }
}

/// Returns the updates of a finished response.
fn finished_updates(message: MessageView) -> VecDeque<Update> {
    let ended = Update::Ended {
        text: message.text.clone(),
        ending: message.ending.clone(),
        model: message.model.clone(),
        stats: message.stats.map(Box::new),
    };
    let snapshot = Box::new(Snapshot {
        message,
        stage: Stage::Writing {
            tokens_per_second: None,
        },
    });
    [Update::Snapshot { snapshot }, ended].into()
}
