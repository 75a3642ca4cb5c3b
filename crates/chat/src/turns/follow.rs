//! The reading end of an answer, for a window.
//!
//! Rule: a follower is owed a snapshot, news and one end, in this order, whenever it joins; it may
//! read as slowly as it likes, or leave by dropping its [`Updates`].

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;
use transom_store::MessageId;

use super::Turns;
use super::board::{Board, Seen};
use super::desk::Found;
use crate::update::{EndingView, MessageView, Snapshot, Stage, Update};

/// News of one answer: [`Update::Snapshot`] first, [`Update::Ended`] last. An answer that is over
/// is told so at once. One that is not there ends without any.
///
/// Dropping it stops following and nothing else: the answer goes on.
#[derive(Debug)]
pub struct Updates {
    from: From,
}

enum From {
    /// An answer that is being written.
    Board {
        board: Arc<Board>,
        news: watch::Receiver<()>,
        seen: Seen,
    },
    /// One that the store was not yet asked for.
    Stored { turns: Turns, id: MessageId },
    /// One that was over.
    Told(VecDeque<Update>),
}

impl std::fmt::Debug for From {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Board { seen, .. } => f.debug_struct("Board").field("seen", seen).finish(),
            Self::Stored { id, .. } => f.debug_tuple("Stored").field(id).finish(),
            Self::Told(updates) => f.debug_tuple("Told").field(&updates.len()).finish(),
        }
    }
}

impl Updates {
    pub(super) fn of_board(board: Arc<Board>) -> Self {
        Self {
            from: From::board(board),
        }
    }

    pub(super) fn of_stored(turns: Turns, id: MessageId) -> Self {
        Self {
            from: From::Stored { turns, id },
        }
    }

    /// Waits for the next update; `None` after the last. What happened since the one before is
    /// joined. Nothing is lost when the returned future is dropped.
    pub async fn next(&mut self) -> Option<Update> {
        if let From::Stored { turns, id } = &self.from {
            self.from = find(turns, *id).await;
        }
        match &mut self.from {
            From::Stored { .. } => None,
            From::Told(updates) => updates.pop_front(),
            From::Board { board, news, seen } => loop {
                // Marked before the look, so that news between the look and the wait are not missed.
                news.mark_unchanged();
                if let Some(update) = board.state().next(seen) {
                    return Some(update);
                }
                if seen.has_end() || news.changed().await.is_err() {
                    return None;
                }
            },
        }
    }
}

impl From {
    fn board(board: Arc<Board>) -> Self {
        let news = board.subscribe();
        let seen = Seen::default();
        Self::Board { board, news, seen }
    }
}

/// Where the news of an answer come from that was not running when it was looked for: mostly from
/// the store alone. But its row is on disk a moment before it runs.
async fn find(turns: &Turns, id: MessageId) -> From {
    let mut news = turns.inner.desk_news.subscribe();
    loop {
        news.mark_unchanged();
        let found = turns.messages(&[id]).await;
        let message = match found {
            Ok(messages) => messages.into_iter().next(),
            Err(failure) => {
                tracing::error!(?failure, "an answer cannot be read");
                None
            }
        };
        let Some(mut message) = message else {
            return From::Told(VecDeque::new());
        };
        match turns.inner.look_for(id, message.conversation) {
            Found::Running(board) => return From::board(board),
            Found::Beginning if message.ending == EndingView::Writing => {
                // The sender lives in `turns`.
                let _ = news.changed().await;
            }
            Found::Beginning | Found::Over => {
                if message.ending == EndingView::Writing {
                    // Nobody writes it.
                    message.ending = EndingView::Interrupted;
                }
                return From::Told(told(message));
            }
        }
    }
}

/// What is told of an answer that is over.
fn told(message: MessageView) -> VecDeque<Update> {
    let ended = Update::Ended {
        text: message.text.clone(),
        ending: message.ending.clone(),
        stats: message.stats,
    };
    let snapshot = Box::new(Snapshot {
        message,
        stage: Stage::Writing {
            tokens_per_second: None,
        },
    });
    [Update::Snapshot { snapshot }, ended].into()
}
