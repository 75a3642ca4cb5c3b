//! Summaries of dropped messages: written by the model after a response or at the user's request, and
//! changed by the user.
//!
//! Rule: a summary never delays a message ([`background`]). One that was canceled for that is no error,
//! and is written after the next response instead.
//!
//! Rule: a summary is stored only if no message that it covers has changed meanwhile. Its entry is
//! removed before such a change, and stays locked while the summary is stored.

use std::sync::Arc;

use tokio::sync::Notify;
use transom_engine::{EngineError, FinishReason, summary};
use transom_store::{ConversationId, Message, MessageId, Overflow, StoreError};
use transom_supervisor::{
    Class, ClientId, Handle, ModelRequest, ModelSpec, Outcome, RequestError, WhenBlocked, Work,
};

use super::shared::Shared;
use super::{TurnEvent, TurnOptions, Turns, background, other, storage};
use crate::ending;
use crate::failure::Failure;
use crate::markdown;
use crate::request::summary_request;
use crate::update::{AnswerStats, EndingView, SummaryView};

/// A prompt that is too long is not shortened below this, because little would be left of it.
const MIN_MESSAGE_BYTES: usize = 1_000;

/// A summary that is not in the store.
pub(super) struct SummaryEntry {
    conversation: ConversationId,
    state: SummaryState,
}

#[derive(Clone)]
enum SummaryState {
    /// It is being written, until it is notified.
    Writing(Arc<Notify>),
    Failed(Failure),
}

impl Turns {
    /// Starts to write a summary of all messages up to and including `last`, in place of an earlier
    /// one. Returns at once; [`Turns::summaries`] has the result, also if it fails.
    ///
    /// # Errors
    /// [`Failure::Storage`] if the disk refuses; [`Failure::Other`] if the message does not exist.
    pub async fn summarize(&self, last: MessageId, options: TurnOptions) -> Result<(), Failure> {
        self.check_open()?;
        let mut path = self.stored(move |store| store.history(last)).await?;
        self.shared.add_unsaved_text(&mut path);
        start(&self.shared, path, options, WhenBlocked::Wait);
        Ok(())
    }

    /// Replaces the summary of all messages up to and including `last`. An empty text removes it, and
    /// no other one is written unless the user asks for it.
    ///
    /// # Errors
    /// As [`Turns::summarize`].
    pub async fn set_summary(&self, last: MessageId, text: &str) -> Result<(), Failure> {
        let text = text.to_owned();
        let id = self.stored(move |store| Ok(store.message(last)?.conversation));
        let id = id.await?;
        self.stop_summaries(Some(id));
        self.stored(move |store| store.set_summary(last, &text))
            .await?;
        (self.shared.listener)(TurnEvent::ConversationChanged { id });
        Ok(())
    }

    /// Returns the summaries on the visible path of a conversation, in its order, and those that are
    /// being written or could not be written.
    ///
    /// # Errors
    /// As [`Turns::summarize`].
    pub async fn summaries(&self, id: ConversationId) -> Result<Vec<SummaryView>, Failure> {
        // These first: one that is complete afterwards is in the store.
        let unfinished: Vec<_> = {
            let summaries = self.shared.summaries.lock();
            let of_conversation = summaries.iter().filter(|(_, it)| it.conversation == id);
            of_conversation
                .map(|(last, entry)| (*last, entry.state.clone()))
                .collect()
        };
        let stored = self.stored(move |store| {
            let summaries = store.summaries(id)?.into_iter();
            Ok(summaries
                .map(|(last, text)| view(last, text))
                .collect::<Vec<_>>())
        });
        let mut views = stored.await?;
        for (last, state) in unfinished {
            let at = views.iter().position(|view| view.last == last);
            let at = at.unwrap_or_else(|| {
                views.push(view(last, String::new()));
                views.len() - 1
            });
            match state {
                SummaryState::Writing(_) => views[at].is_writing = true,
                SummaryState::Failed(failure) => views[at].failure = Some(failure),
            }
        }
        Ok(views)
    }

    /// Stops writing summaries and the title of a conversation, or of all conversations, and forgets
    /// summaries that failed. Call this before messages of the conversation are changed, and [`Turns::end`]
    /// before they are deleted.
    pub fn stop_summaries(&self, conversation: Option<ConversationId>) {
        self.shared.titles.lock().retain(|id, stop| {
            let is_kept = conversation.is_some_and(|changed| changed != *id);
            if !is_kept {
                stop.notify_one();
            }
            is_kept
        });
        self.shared.summaries.lock().retain(|_, entry| {
            let is_kept = conversation.is_some_and(|id| id != entry.conversation);
            if !is_kept && let SummaryState::Writing(stop) = &entry.state {
                stop.notify_one();
            }
            is_kept
        });
    }
}

fn view(last: MessageId, text: String) -> SummaryView {
    SummaryView {
        last,
        blocks: markdown::render(&text),
        text,
        is_writing: false,
        failure: None,
    }
}

/// Starts to write a summary of the messages of `path` that its response, with these statistics, was
/// written without, if the conversation wants one and has none. One that failed is not repeated,
/// because each attempt costs the KV cache of the conversation.
pub(super) fn summarize_dropped(
    shared: &Arc<Shared>,
    mut path: Vec<Message>,
    stats: Option<&AnswerStats>,
    options: TurnOptions,
) {
    if options.conversation.overflow != Overflow::Summarize {
        return;
    }
    path.truncate(stats.map_or(0, |stats| stats.dropped_messages as usize));
    let is_missing =
        |last: &Message| last.summary.is_none() && !shared.summaries.lock().contains_key(&last.id);
    if path.last().is_some_and(is_missing) {
        start(shared, path, options, WhenBlocked::Refuse);
    }
}

/// Starts the task that writes a summary of all messages of `path`, unless it is being written.
fn start(
    shared: &Arc<Shared>,
    path: Vec<Message>,
    options: TurnOptions,
    when_blocked: WhenBlocked,
) {
    let Some((last, conversation)) = path.last().map(|last| (last.id, last.conversation)) else {
        return;
    };
    let stop = Arc::new(Notify::new());
    {
        let is_closing = shared.active.lock().is_closing;
        let mut summaries = shared.summaries.lock();
        let entry = summaries.get(&last).map(|entry| &entry.state);
        if is_closing || matches!(entry, Some(SummaryState::Writing(_))) {
            return;
        }
        let state = SummaryState::Writing(stop.clone());
        summaries.insert(
            last,
            SummaryEntry {
                conversation,
                state,
            },
        );
    }
    (shared.listener)(TurnEvent::ConversationChanged { id: conversation });
    let task = Arc::new(SummaryTask {
        shared: shared.clone(),
        conversation,
        last,
        options,
        when_blocked,
        stop,
    });
    tokio::spawn(async move {
        // In a nested task, so that even a panic ends it visibly.
        let writing = task.clone();
        let written = tokio::spawn(async move { writing.write(&path).await }).await;
        let written = written.unwrap_or_else(|_| {
            // Without the error, whose text may contain a prompt. The panic hook has logged where it was.
            tracing::error!("the task of a summary panicked");
            Err(other(
                "the summary failed because of an error in Transom; try again",
            ))
        });
        task.finish(written).await;
    });
}

struct SummaryTask {
    shared: Arc<Shared>,
    conversation: ConversationId,
    /// The last message that the summary covers.
    last: MessageId,
    options: TurnOptions,
    /// [`WhenBlocked::Refuse`] for an automatic summary.
    when_blocked: WhenBlocked,
    stop: Arc<Notify>,
}

impl SummaryTask {
    /// Returns the summary; `None` if it was stopped.
    async fn write(&self, path: &[Message]) -> Result<Option<String>, Failure> {
        let handle = self.shared.handles.borrow().clone();
        let small = self.shared.small_model(&handle.status().borrow());
        let model = small.map_or_else(|| self.options.model.clone(), |(model, _)| model);
        let (outcome, _) = self.send(&handle, &model, Work::Load).await;
        let info = match outcome {
            Outcome::Loaded { info } => info,
            Outcome::Finished { .. } => return Ok(None),
            Outcome::Failed { error } => return self.stopped_or_failed(&error),
        };
        if !info.has_chat_template {
            return Err(other(
                "this model has no chat template, so it cannot write a summary; choose an \
                 instruct model",
            ));
        }
        let limit = handle.status().borrow().restrictions.context_length;
        let context_length = limit.map_or(info.context_length, |n| n.min(info.context_length));
        let mut max_bytes = summary::max_message_bytes(context_length);
        while self.exists().await? && self.is_wanted() {
            let mut request = Box::new(summary_request(path, &info, max_bytes));
            request.params.is_private = self.options.is_private;
            let (outcome, text) = self.send(&handle, &model, Work::Generate(request)).await;
            match outcome {
                // The estimate of its tokens was too low.
                Outcome::Failed {
                    error:
                        RequestError::Engine {
                            source: EngineError::PromptTooLong { .. },
                        },
                } if max_bytes >= 2 * MIN_MESSAGE_BYTES => max_bytes /= 2,
                Outcome::Failed { error } => return self.stopped_or_failed(&error),
                Outcome::Finished {
                    reason: FinishReason::Canceled | FinishReason::Shed,
                    ..
                } if !text.is_full() => return Ok(None),
                Outcome::Finished { .. } => {
                    let reason = "the model wrote no summary; try again or choose another model";
                    return text.finish().map(Some).ok_or_else(|| other(reason));
                }
                // Only a load ends this way.
                Outcome::Loaded { .. } => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the failure of a request, or `None` if it was canceled, the program quits, or an
    /// automatic summary has to wait until the machine has recovered.
    fn stopped_or_failed(&self, error: &RequestError) -> Result<Option<String>, Failure> {
        match ending::failed(error) {
            EndingView::Failed {
                failure: Failure::Held { .. },
            } if self.when_blocked == WhenBlocked::Refuse => Ok(None),
            EndingView::Failed { failure } => Err(failure),
            _ => Ok(None),
        }
    }

    /// Sends a request, and returns its end and its text. Cancels it when the summary is long enough.
    async fn send(
        &self,
        handle: &Handle,
        model: &ModelSpec,
        work: Work,
    ) -> (Outcome, summary::SummaryText) {
        let request = ModelRequest {
            over_budget: self.options.over_budget,
            when_blocked: self.when_blocked,
            class: match self.when_blocked {
                WhenBlocked::Refuse => Class::Background,
                // Someone asked for it.
                WhenBlocked::Wait => Class::Interactive,
            },
            ..ModelRequest::new(ClientId::app(), model.clone(), work)
        };
        let mut text = summary::SummaryText::default();
        let mut push = |event: &_| text.push(event);
        let outcome = background::send(handle, request, &self.stop, &mut push).await;
        (outcome, text)
    }

    /// Stores the summary or why it failed.
    async fn finish(self: Arc<Self>, written: Result<Option<String>, Failure>) {
        let id = self.conversation;
        let listener = self.shared.listener.clone();
        let stored = tokio::task::spawn_blocking(move || self.store(written)).await;
        if stored.is_err() {
            tracing::error!("the task that stores a summary panicked");
        }
        listener(TurnEvent::ConversationChanged { id });
    }

    fn store(&self, written: Result<Option<String>, Failure>) {
        let mut summaries = self.shared.summaries.lock();
        let Some(entry) = summaries.get_mut(&self.last) else {
            return;
        };
        if !self.is_of(entry) {
            return;
        }
        // The user may have got one while the response was written.
        let is_kept = self.when_blocked == WhenBlocked::Refuse && self.has_summary();
        let stored = written.and_then(|text| match text {
            Some(_) if is_kept => Ok(()),
            Some(text) => match self.shared.store.set_summary(self.last, &text) {
                // The conversation was deleted.
                Ok(()) | Err(StoreError::NoMessage(_)) => Ok(()),
                Err(error) => Err(storage(&error)),
            },
            None => Ok(()),
        });
        match stored {
            Ok(()) => drop(summaries.remove(&self.last)),
            Err(failure) => entry.state = SummaryState::Failed(failure),
        }
    }

    /// Returns true if the store has a summary, or the user removed one.
    fn has_summary(&self) -> bool {
        let message = self.shared.store.message(self.last);
        message.is_ok_and(|message| message.summary.is_some())
    }

    /// Returns false if the messages were deleted, which must not be sent to a model again.
    async fn exists(&self) -> Result<bool, Failure> {
        let shared = self.shared.clone();
        let (turns, last) = (Turns { shared }, self.last);
        let found = turns.stored(move |store| match store.message(last) {
            Ok(_) => Ok(true),
            Err(StoreError::NoMessage(_)) => Ok(false),
            Err(error) => Err(error),
        });
        found.await
    }

    /// Returns true until the summary is stopped.
    fn is_wanted(&self) -> bool {
        let summaries = self.shared.summaries.lock();
        let entry = summaries.get(&self.last);
        entry.is_some_and(|entry| self.is_of(entry))
    }

    fn is_of(&self, entry: &SummaryEntry) -> bool {
        matches!(&entry.state, SummaryState::Writing(stop) if Arc::ptr_eq(stop, &self.stop))
    }
}
