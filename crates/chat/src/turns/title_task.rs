//! Titles that a model writes in place of the first words of a question.
//!
//! Rule: a title never delays a message, and none is written while the machine limits responses. Until it is
//! written, and if it never is, the title is the one derived from the question.
//!
//! Rule: only the first question decides the title, so a title that a model wrote contains no other text
//! than one that is derived, and goes with that question.

use std::sync::Arc;

use tokio::sync::Notify;
use transom_engine::FinishReason;
use transom_engine::title::TitleText;
use transom_engine_host::wire::Request;
use transom_store::{ConversationId, Message};
use transom_supervisor::{
    Class, ClientId, Handle, ModelRequest, ModelSpec, Outcome, WhenBlocked, Work,
};

use super::shared::Shared;
use super::{TurnEvent, background};
use crate::request::title_request;
use crate::title::{title, written};

/// Messages of a conversation after which no title is written: attempts that messages of the user
/// interrupted are not repeated without end.
const MAX_MESSAGES: usize = 6;

/// Starts to write a title for a conversation whose response after `path` is complete, unless it has one
/// that a person or a model wrote.
pub(super) fn write_title(shared: &Arc<Shared>, path: &[Message]) {
    let handle = shared.handles.borrow().clone();
    let model = {
        let status = handle.status();
        let status = status.borrow();
        // Not any limit: a setting, or a machine with little memory, only unloads models sooner.
        let limits = &status.restrictions;
        let is_limited = limits.max_tokens.is_some() || limits.blocked_by.is_some();
        let is_busy = !status.queue.is_empty();
        let model = shared.small_model(&status);
        model.filter(|_| !is_limited && !is_busy)
    };
    let (Some((model, sampling)), Some(first)) = (model, path.first()) else {
        return;
    };
    let derived = title(&first.text, &first.attachment);
    if path.len() >= MAX_MESSAGES || derived.is_empty() || shared.active.lock().is_closing {
        return;
    }
    let task = TitleTask {
        shared: shared.clone(),
        conversation: first.conversation,
        derived,
        request: title_request(first, &sampling),
        stop: Arc::new(Notify::new()),
    };
    let mut titles = shared.titles.lock();
    if titles.contains_key(&task.conversation) {
        return;
    }
    titles.insert(task.conversation, task.stop.clone());
    drop(titles);
    tokio::spawn(async move {
        if let Some(title) = task.write(&handle, model).await {
            task.store(title).await;
        }
        let mut titles = task.shared.titles.lock();
        // Another one may have begun after this one was stopped.
        let is_own = |stop: &Arc<Notify>| Arc::ptr_eq(stop, &task.stop);
        if titles.get(&task.conversation).is_some_and(is_own) {
            titles.remove(&task.conversation);
        }
    });
}

struct TitleTask {
    shared: Arc<Shared>,
    conversation: ConversationId,
    /// The title that the written one replaces.
    derived: String,
    request: Request,
    stop: Arc<Notify>,
}

impl TitleTask {
    /// Returns the title; `None` if it was stopped, or no title came.
    async fn write(&self, handle: &Handle, model: ModelSpec) -> Option<String> {
        if !self.is_derived().await {
            return None;
        }
        let request = ModelRequest {
            class: Class::Background,
            when_blocked: WhenBlocked::Refuse,
            ..ModelRequest::new(
                ClientId::app(),
                model,
                Work::Generate(Box::new(self.request.clone())),
            )
        };
        let mut text = TitleText::default();
        let mut push = |event: &_| text.push(event);
        let outcome = background::send(handle, request, &self.stop, &mut push).await;
        match outcome {
            Outcome::Finished {
                reason: FinishReason::Stop,
                ..
            } => written(&text.finish()),
            Outcome::Finished { .. } | Outcome::Loaded { .. } => None,
            Outcome::Failed { error } => {
                tracing::debug!(%error, "no title was written");
                None
            }
        }
    }

    /// Returns true while nobody has written another title.
    async fn is_derived(&self) -> bool {
        let (store, id) = (self.shared.store.clone(), self.conversation);
        let found = tokio::task::spawn_blocking(move || store.conversation(id)).await;
        matches!(found, Ok(Ok(conversation)) if conversation.title == self.derived)
    }

    async fn store(&self, title: String) {
        let (store, id, derived) = (
            self.shared.store.clone(),
            self.conversation,
            self.derived.clone(),
        );
        let stored =
            tokio::task::spawn_blocking(move || store.set_written_title(id, &derived, &title));
        match stored.await {
            Ok(Ok(true)) => (self.shared.listener)(TurnEvent::ConversationChanged { id }),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a title could not be stored"),
            // Without the error, whose text may contain the title.
            Err(_) => tracing::error!("the task that stores a title panicked"),
        }
    }
}
