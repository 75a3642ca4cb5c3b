//! The state that all clones of `Turns` share: running responses, locked conversations and the
//! render cache.
//!
//! Rule: a response is listed here from before its id is known until all of its text is on disk, so
//! a lookup always finds it here or on disk. No lock is held across an await.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use transom_store::{ConversationId, Message, MessageId, Store, Timestamp};
use transom_supervisor::{Handle, ModelSpec};

use super::answer_task::{AnswerTask, RunningAnswer};
use super::answer_writer::{AnswerStorage, AnswerWriter};
use super::summary_task::{SummaryEntry, summarize_dropped};
use super::title_task::write_title;
use super::{EventListener, TurnEvent, TurnOptions};
use crate::failure::Failure;
use crate::routing::Route;
use crate::update::{EndingView, MessageView};
use crate::view::{RenderCache, Rendered, view};

pub(super) struct Shared {
    pub(super) handles: watch::Receiver<Handle>,
    pub(super) store: Store,
    pub(super) storage: Arc<dyn AnswerStorage>,
    pub(super) now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    pub(super) listener: EventListener,
    pub(super) active: Mutex<ActiveTurns>,
    /// Summaries that are being written or could not be written, by their last message.
    pub(super) summaries: Mutex<BTreeMap<MessageId, SummaryEntry>>,
    /// Titles that are being written. Notifying one stops it.
    pub(super) titles: Mutex<BTreeMap<ConversationId, Arc<Notify>>>,
    /// The models that responses were asked of since this program started, by id.
    pub(super) known_models: Mutex<BTreeMap<String, ModelSpec>>,
    /// What came with questions since this program started, and the history does not store.
    pub(super) asked: Mutex<BTreeMap<MessageId, Asked>>,
    /// Notified whenever a response starts, ends or is saved.
    pub(super) active_changed: watch::Sender<()>,
    pub(super) render_cache: Mutex<RenderCache>,
}

/// What came with a question beside its text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked {
    /// The route that the user chose.
    pub(super) route: Option<Route>,
    /// See [`super::TurnOptions::contained_tokens`].
    pub(super) contained_tokens: usize,
}

#[derive(Default)]
pub(super) struct ActiveTurns {
    /// Responses that are being written, and ended ones that are not on disk yet.
    pub(super) entries: BTreeMap<MessageId, Arc<RunningAnswer>>,
    /// Conversations with a running turn.
    pub(super) locked: HashSet<ConversationId>,
    pub(super) is_closing: bool,
}

/// Exclusive access to a conversation for one turn, until dropped.
pub(super) struct ConversationLock {
    pub(super) shared: Arc<Shared>,
    pub(super) conversation: ConversationId,
}

/// Runs one response in a nested task, so that even a panic ends it visibly.
pub(super) async fn run_answer(
    lock: ConversationLock,
    entry: Arc<RunningAnswer>,
    path: Vec<Message>,
    options: TurnOptions,
) {
    let shared = lock.shared.clone();
    let task = tokio::spawn(write_answer(lock, entry.clone(), path, options));
    if task.await.is_ok() {
        return;
    }
    // Without the error, whose text may contain a prompt. The panic hook has logged where it was.
    tracing::error!("the task of a response panicked");
    shared.active.lock().entries.remove(&entry.id);
    let reason = "the response failed because of an error in Transom; try again".to_owned();
    let failure = Failure::Other { reason };
    entry.live.abort(EndingView::Failed { failure });
    shared.active_changed.send_replace(());
    (shared.listener)(TurnEvent::ConversationChanged {
        id: entry.conversation,
    });
}

async fn write_answer(
    lock: ConversationLock,
    entry: Arc<RunningAnswer>,
    mut path: Vec<Message>,
    options: TurnOptions,
) {
    let shared = lock.shared.clone();
    shared.add_unsaved_text(&mut path);
    let writer = AnswerWriter::new(shared.storage.clone(), entry.id);
    let model = options.model.name.clone();
    let (handles, listener) = (shared.handles.clone(), shared.listener.clone());
    let mut task = AnswerTask::new(entry.clone(), options.clone(), handles, writer, listener);
    let (ending, stats) = task.write(&path).await;
    if task.has_text() {
        shared.add_model(&entry, &model).await;
    }
    let ending = match ending {
        // The program is quitting; the user did not cancel this response.
        EndingView::Canceled if shared.active.lock().is_closing => EndingView::Interrupted,
        ending => ending,
    };
    let is_saved = task.end(&ending, stats).await;
    drop(lock);
    (shared.listener)(TurnEvent::ConversationChanged {
        id: entry.conversation,
    });
    if ending == EndingView::Stop && !options.is_private {
        write_title(&shared, &path);
    }
    summarize_dropped(&shared, path, stats.as_ref(), options);
    if !is_saved {
        task.retry_finish(&ending, stats).await;
    }
    shared.active.lock().entries.remove(&entry.id);
    shared.active_changed.send_replace(());
}

impl Shared {
    /// Returns a message for display. A running response comes from its live state, which is ahead
    /// of the disk.
    pub(super) fn view(&self, message: Message) -> MessageView {
        let entry = self.active.lock().entries.get(&message.id).cloned();
        if let Some(entry) = entry {
            return MessageView {
                siblings: message.siblings,
                ..entry.live.message()
            };
        }
        let cached = self.render_cache.lock().get(&message);
        let rendered = cached.unwrap_or_else(|| {
            let rendered = Arc::new(Rendered::new(&message));
            self.render_cache.lock().put(&message, &rendered);
            rendered
        });
        view(message, &rendered)
    }

    /// Stores the name of a model that wrote a part of the response, such as its continuation.
    async fn add_model(&self, entry: &RunningAnswer, name: &str) {
        let Some(models) = entry.live.state().add_model(name) else {
            return;
        };
        let (store, id) = (self.store.clone(), entry.id);
        let stored = tokio::task::spawn_blocking(move || store.set_message_model(id, &models));
        if let Ok(Err(error)) = stored.await {
            tracing::warn!(%error, "the model that continued a response could not be saved");
        }
    }

    /// Fills in text of responses in `path` that could not be saved yet.
    pub(super) fn add_unsaved_text(&self, path: &mut [Message]) {
        for message in path {
            let entry = self.active.lock().entries.get(&message.id).cloned();
            if let Some(entry) = entry {
                let state = entry.live.state();
                let (reasoning, text) = state.sources();
                message.reasoning = reasoning.to_owned();
                message.text = text.to_owned();
            }
        }
    }
}

impl Drop for ConversationLock {
    fn drop(&mut self) {
        self.shared.active.lock().locked.remove(&self.conversation);
        self.shared.active_changed.send_replace(());
    }
}
