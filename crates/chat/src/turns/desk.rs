//! What is under way: which answers run, which conversations are taken, what is kept for all.
//!
//! Rule: an answer is on the desk from before anybody knows its name until all of it is on disk, so
//! whoever asks for it finds it here or there. No lock is held while anything is waited for.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use transom_store::{ConversationId, Message, MessageId, Store, Timestamp};
use transom_supervisor::Handle;

use super::answer::{Entry, Writing};
use super::board::Board;
use super::disk::{Disk, DiskCopy};
use super::{Asking, Happening, Tell};
use crate::failure::Failure;
use crate::update::{EndingView, MessageView};
use crate::view::{Kept, Rendered, view};

/// What all clones of the turns share.
pub(super) struct Inner {
    pub(super) handles: watch::Receiver<Handle>,
    pub(super) store: Store,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    pub(super) tell: Tell,
    pub(super) desk: Mutex<Desk>,
    /// Told whenever an answer begins, ends or is saved.
    pub(super) desk_news: watch::Sender<()>,
    pub(super) kept: Mutex<Kept>,
}

/// What is under way.
#[derive(Default)]
pub(super) struct Desk {
    /// Answers that are written, and those over that are not yet on disk.
    pub(super) entries: BTreeMap<MessageId, Arc<Entry>>,
    /// Conversations that have a turn under way.
    pub(super) taken: HashSet<ConversationId>,
    pub(super) is_closing: bool,
}

/// A conversation that is this turn's until it is dropped.
pub(super) struct Place {
    pub(super) inner: Arc<Inner>,
    pub(super) conversation: ConversationId,
}

/// Where an answer is.
pub(super) enum Found {
    Running(Arc<Board>),
    Beginning,
    Over,
}

/// The life of one answer, in a task of its own, so that even a panic is an end that people see.
pub(super) async fn live(place: Place, entry: Arc<Entry>, path: Vec<Message>, asking: Asking) {
    let inner = place.inner.clone();
    let life = tokio::spawn(write(place, entry.clone(), path, asking));
    let Err(error) = life.await else {
        return;
    };
    tracing::error!(%error, "an answer was broken off");
    inner.desk().entries.remove(&entry.id);
    let reason = "the answer was broken off by a mistake in Transom".to_owned();
    let failure = Failure::Other { reason };
    entry.board.break_off(EndingView::Failed { failure });
    inner.desk_news.send_replace(());
    (inner.tell)(Happening::Conversation {
        id: entry.conversation,
    });
}

async fn write(place: Place, entry: Arc<Entry>, mut path: Vec<Message>, asking: Asking) {
    let inner = place.inner.clone();
    inner.complete(&mut path);
    let copy = DiskCopy::new(inner.disk.clone(), entry.id);
    let (handles, tell) = (inner.handles.clone(), inner.tell.clone());
    let mut writing = Writing::new(entry.clone(), asking, handles, copy, tell);
    let (ending, stats) = writing.write(&path).await;
    drop(path);
    let ending = match ending {
        // The program ends, which is not what the person asked of this answer.
        EndingView::Cancelled if inner.desk().is_closing => EndingView::Interrupted,
        ending => ending,
    };
    let is_saved = writing.end(&ending, stats).await;
    drop(place);
    (inner.tell)(Happening::Conversation {
        id: entry.conversation,
    });
    if !is_saved {
        writing.insist(&ending, stats).await;
    }
    inner.desk().entries.remove(&entry.id);
    inner.desk_news.send_replace(());
}

impl Inner {
    pub(super) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer if it is being written, and whether it is about to be.
    pub(super) fn look_for(&self, answer: MessageId, conversation: ConversationId) -> Found {
        let desk = self.desk();
        match desk.entries.get(&answer) {
            Some(entry) => Found::Running(entry.board.clone()),
            None if desk.taken.contains(&conversation) => Found::Beginning,
            None => Found::Over,
        }
    }

    /// A message as it is drawn: a running answer from its board, which is ahead of the disk.
    pub(super) fn view(&self, message: Message) -> MessageView {
        let board = self
            .desk()
            .entries
            .get(&message.id)
            .map(|it| it.board.clone());
        if let Some(board) = board {
            let written = board.message();
            return MessageView {
                siblings: message.siblings,
                ..written
            };
        }
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept().get(message.id);
        let rendered = known.unwrap_or_else(|| {
            let rendered = Arc::new(Rendered::of(&message));
            kept().put(&message, &rendered);
            rendered
        });
        view(message, &rendered)
    }

    /// Puts into `path` what of its answers could not be saved yet.
    pub(super) fn complete(&self, path: &mut [Message]) {
        for message in path {
            let entry = self.desk().entries.get(&message.id).cloned();
            if let Some(entry) = entry {
                let state = entry.board.state();
                let (reasoning, text) = state.sources();
                message.reasoning = reasoning.to_owned();
                message.text = text.to_owned();
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inner.desk().taken.remove(&self.conversation);
        self.inner.desk_news.send_replace(());
    }
}
