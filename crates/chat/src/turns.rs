//! Turns: questions go to disk and to the supervisor, responses come back to disk and to windows.
//!
//! Each running response is a separate task (`answer_task`) with a live state that windows read
//! (`live_answer`, `follow`) and a copy that grows on disk (`answer_writer`). Nothing here knows a
//! window: a response is written even if no window follows it.
//!
//! Rule: a question is on disk before its response starts, a response's row before its first text,
//! and new text within a second. A conversation has one running response at a time.

mod answer_task;
mod answer_writer;
mod background;
mod ended_answer;
mod follow;
mod live_answer;
mod section;
mod shared;
mod speed;
mod stopping;
mod summary_task;
mod title_task;

use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Notify, watch};
use transom_store::{
    ConversationId, ConversationSettings, Ending, Message, MessageId, MessageRole, ModelSettings,
    NewMessage, Store, StoreError, StoreErrorKind, Timestamp,
};
use transom_supervisor::{Handle, ModelSpec};

use crate::ending::stats_of;
use crate::failure::Failure;
use crate::routing::{Routes, Routing};
use crate::title::title;
use crate::update::MessageView;
use answer_task::RunningAnswer;
use answer_writer::AnswerStorage;
use live_answer::LiveAnswer;
use shared::{Asked, ConversationLock, Shared};

pub use follow::Updates;

/// The turns of all conversations. Clones share their state, which lives as long as any response
/// runs.
///
/// Its methods need a Tokio runtime. A turn continues after its caller is gone.
#[derive(Clone)]
pub struct Turns {
    shared: Arc<Shared>,
}

/// The model and settings for a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnOptions {
    /// The model to load, with the context length and KV cache type that the user chose.
    pub model: ModelSpec,
    /// The user's settings for the model. Unset values follow the recommendations of the model's
    /// authors.
    pub settings: ModelSettings,
    /// The settings of the conversation, also of one that is created for the question.
    pub conversation: ConversationSettings,
    /// Load the model even if it exceeds the memory budget. The user confirmed this.
    pub over_budget: bool,
    /// The conversation must not be written to the disk.
    pub is_private: bool,
    /// Who decides the route of the question.
    pub routing: Routing,
    /// What routes change.
    pub routes: Routes,
    /// Estimated tokens of attached text that the question itself contains, such as a selection in a saved
    /// prompt.
    pub contained_tokens: usize,
}

/// The ids of a message that was accepted and of the response that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct StartedTurn {
    /// The conversation, which is new if the caller named none.
    pub conversation: ConversationId,
    /// The user's message; `None` if an existing question is answered again.
    pub question: Option<MessageId>,
    /// The response; follow it for its updates.
    pub answer: MessageId,
}

/// An event that concerns more than the followers of one response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEvent {
    /// A conversation was created, renamed or extended. Lists must be reloaded.
    ConversationChanged {
        /// The conversation.
        id: ConversationId,
    },
    /// A response cannot be saved. It continues, and saving is retried. Sent once until
    /// [`TurnEvent::SaveRecovered`].
    SaveFailed {
        /// The response.
        answer: MessageId,
        /// The kind of the error, which windows translate.
        kind: Option<StoreErrorKind>,
        /// The reason in English, which names the file.
        reason: String,
    },
    /// The whole response is saved after an earlier failure.
    SaveRecovered {
        /// The response.
        answer: MessageId,
    },
}

/// Called for each event, from any thread. Must return quickly.
type EventListener = Arc<dyn Fn(TurnEvent) + Send + Sync>;

impl Turns {
    /// Creates turns that use the latest handle of `handles` and store messages in `store`.
    ///
    /// `handles` changes with the supervisor, for example when this program was a client of another
    /// program that quit. A turn without any text yet waits some seconds for the next handle. `now`
    /// returns the time for new messages. `on_event` is called from any thread and must return
    /// quickly.
    pub fn new(
        handles: watch::Receiver<Handle>,
        store: Store,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        listener: impl Fn(TurnEvent) + Send + Sync + 'static,
    ) -> Self {
        let storage = Arc::new(store.clone());
        Self::with_storage(handles, store, storage, Box::new(now), Arc::new(listener))
    }

    fn with_storage(
        handles: watch::Receiver<Handle>,
        store: Store,
        storage: Arc<dyn AnswerStorage>,
        now: Box<dyn Fn() -> Timestamp + Send + Sync>,
        listener: EventListener,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                handles,
                store,
                storage,
                now,
                listener,
                active: Mutex::default(),
                summaries: Mutex::default(),
                titles: Mutex::default(),
                known_models: Mutex::default(),
                asked: Mutex::default(),
                active_changed: watch::Sender::new(()),
                render_cache: Mutex::default(),
            }),
        }
    }

    /// Adds a question to the end of a conversation's visible path and starts a response. `None`
    /// creates a conversation. `attachment` is the [joined](transom_store::attached_text::join) text of all
    /// attachments. A conversation keeps the model of its first question until another one is set.
    /// On return, the question is on disk and the response has started.
    ///
    /// # Errors
    /// [`Failure::Busy`] while a response of this conversation is running; [`Failure::Storage`] if
    /// the disk refuses, in which case nothing is sent; [`Failure::Other`] if the question is empty
    /// or the conversation does not exist. Errors of the model are not returned here: they end the
    /// response.
    pub async fn ask(
        &self,
        conversation: Option<ConversationId>,
        text: &str,
        attachment: &str,
        options: TurnOptions,
    ) -> Result<StartedTurn, Failure> {
        check_question(text, attachment)?;
        let now = (self.shared.now)();
        let (lock, parent) = match conversation {
            Some(id) => {
                let lock = self.lock(id)?;
                let path = self.stored(move |store| store.path(id)).await?;
                (lock, path.last().map(|head| head.id))
            }
            None => {
                self.check_open()?;
                let settings = options.conversation.clone();
                let id = self.stored(move |store| store.create_conversation_with(now, &settings));
                (self.lock(id.await?)?, None)
            }
        };
        let question = NewMessage {
            attachment: attachment.to_owned(),
            ..NewMessage::from_user(lock.conversation, parent, text, now)
        };
        self.add_question(lock, question, options).await
    }

    /// Answers the same question again, also after a failure. The old response stays as a sibling.
    /// A question without a response may be given instead of a response.
    ///
    /// # Errors
    /// As [`Turns::ask`].
    pub async fn regenerate(
        &self,
        answer: MessageId,
        options: TurnOptions,
    ) -> Result<StartedTurn, Failure> {
        let message = self.stored(move |store| store.message(answer)).await?;
        let question = match (message.role, message.parent) {
            (MessageRole::User, _) => message.id,
            (MessageRole::Assistant, Some(parent)) => parent,
            (MessageRole::Assistant, None) => {
                let reason = "this response has no question, so it cannot be regenerated";
                return Err(other(reason));
            }
        };
        let lock = self.lock(message.conversation)?;
        if let Some(route) = options.routing.chosen() {
            let mut asked = self.shared.asked.lock();
            asked.entry(question).or_default().route = Some(route);
        }
        let options = self.as_asked(&message, options);
        self.start_answer(lock, question, options).await
    }

    /// Replaces the text of a question and keeps its attachment. The old question stays as a
    /// sibling with everything after it.
    ///
    /// # Errors
    /// As [`Turns::ask`], and [`Failure::Other`] for a message that a model wrote.
    pub async fn edit(
        &self,
        question: MessageId,
        text: &str,
        options: TurnOptions,
    ) -> Result<StartedTurn, Failure> {
        let old = self.stored(move |store| store.message(question)).await?;
        if old.role != MessageRole::User {
            return Err(other("only your own messages can be edited"));
        }
        check_question(text, &old.attachment)?;
        let lock = self.lock(old.conversation)?;
        let now = (self.shared.now)();
        let question = NewMessage {
            attachment: old.attachment,
            ..NewMessage::from_user(old.conversation, old.parent, text, now)
        };
        self.add_question(lock, question, options).await
    }

    /// Returns the updates of a response from now on, starting with a snapshot. Dropping them does
    /// not affect the response.
    pub fn follow(&self, answer: MessageId) -> Updates {
        let entry = self.shared.active.lock().entries.get(&answer).cloned();
        match entry {
            Some(entry) => Updates::of_live(entry.live.clone()),
            None => Updates::of_stored(self.clone(), answer),
        }
    }

    /// Returns the ids of running responses, oldest first.
    pub fn running(&self) -> Vec<MessageId> {
        let active = self.shared.active.lock();
        let entries = active.entries.values();
        let running = entries.filter(|entry| !entry.live.state().is_over());
        running.map(|entry| entry.id).collect()
    }

    /// Returns the running response of a conversation. Stop it as soon as the user deletes the
    /// conversation, so that the model is free for other requests at once.
    pub fn running_in(&self, conversation: ConversationId) -> Option<MessageId> {
        let active = self.shared.active.lock();
        let mut entries = active.entries.values();
        let running = entries
            .find(|entry| entry.conversation == conversation && !entry.live.state().is_over());
        running.map(|entry| entry.id)
    }

    /// Returns messages for display, in the order of `ids`. Missing messages are left out. Renders
    /// outside of the async threads and caches the results.
    ///
    /// # Errors
    /// [`Failure::Storage`] when the disk refuses.
    pub async fn messages(&self, ids: &[MessageId]) -> Result<Vec<MessageView>, Failure> {
        let ids = ids.to_vec();
        let shared = self.shared.clone();
        self.stored(move |store| {
            let messages = store.messages(&ids)?;
            Ok(messages.into_iter().map(|it| shared.view(it)).collect())
        })
        .await
    }

    /// Keeps what came with the question of a message that is answered again or continued, and the route
    /// of its response. One that failed has no statistics, but what the user chose still counts.
    fn as_asked(&self, message: &Message, options: TurnOptions) -> TurnOptions {
        let question = match message.role {
            MessageRole::User => Some(message.id),
            MessageRole::Assistant => message.parent,
        };
        let asked = question.and_then(|id| self.shared.asked.lock().get(&id).copied());
        let asked = asked.unwrap_or_default();
        let of_answer = stats_of(message).map(|stats| stats.route);
        TurnOptions {
            routing: match (options.routing, of_answer.or(asked.route)) {
                (Routing::Automatic, Some(route)) => Routing::Chosen(route),
                (routing, _) => routing,
            },
            contained_tokens: asked.contained_tokens,
            ..options
        }
    }

    /// Stores a new question, sets the conversation's title, and starts the response.
    async fn add_question(
        &self,
        lock: ConversationLock,
        question: NewMessage,
        options: TurnOptions,
    ) -> Result<StartedTurn, Failure> {
        let conversation = lock.conversation;
        let model = options.model.id.clone();
        let added = self.stored(move |store| {
            let name = title(&question.text, &question.attachment);
            let is_first = question.parent.is_none();
            let id = store.add_message(question)?;
            if is_first && !name.is_empty() {
                store.set_title_if_empty(conversation, &name)?;
            }
            store.set_model_if_unset(conversation, &model)?;
            Ok(id)
        });
        let question = added.await?;
        let asked = Asked {
            route: options.routing.chosen(),
            contained_tokens: options.contained_tokens,
        };
        self.shared.asked.lock().insert(question, asked);
        let started = self.start_answer(lock, question, options).await?;
        Ok(StartedTurn {
            question: Some(question),
            ..started
        })
    }

    async fn start_answer(
        &self,
        lock: ConversationLock,
        question: MessageId,
        options: TurnOptions,
    ) -> Result<StartedTurn, Failure> {
        let conversation = lock.conversation;
        let (now, model) = ((self.shared.now)(), options.model.name.clone());
        let added = self.stored(move |store| {
            let path = store.history(question)?;
            let answer = store.add_message(NewMessage {
                conversation,
                parent: Some(question),
                role: MessageRole::Assistant,
                text: String::new(),
                attachment: String::new(),
                ending: Ending::Writing,
                model: Some(model),
                created_at: now,
            })?;
            Ok((path, store.message(answer)?))
        });
        let (path, message) = added.await?;
        Ok(self.start_writing(lock, path, message, options))
    }

    /// Starts the task that writes `message`, a stored response, after the messages of `path`.
    fn start_writing(
        &self,
        lock: ConversationLock,
        path: Vec<Message>,
        message: Message,
        options: TurnOptions,
    ) -> StartedTurn {
        let (conversation, answer) = (lock.conversation, message.id);
        let model = &options.model;
        let mut known = self.shared.known_models.lock();
        known.insert(model.id.clone(), model.clone());
        drop(known);
        let entry = Arc::new(RunningAnswer {
            id: answer,
            conversation,
            live: Arc::new(LiveAnswer::new(message)),
            stop: Notify::new(),
        });
        let is_closing = {
            let mut active = self.shared.active.lock();
            active.entries.insert(entry.id, entry.clone());
            active.is_closing
        };
        if is_closing {
            entry.stop.notify_one();
        }
        self.shared.active_changed.send_replace(());
        (self.shared.listener)(TurnEvent::ConversationChanged { id: conversation });
        tokio::spawn(shared::run_answer(lock, entry, path, options));
        StartedTurn {
            conversation,
            question: None,
            answer,
        }
    }

    fn lock(&self, conversation: ConversationId) -> Result<ConversationLock, Failure> {
        self.check_open()?;
        if !self.shared.active.lock().locked.insert(conversation) {
            return Err(Failure::Busy);
        }
        Ok(ConversationLock {
            shared: self.shared.clone(),
            conversation,
        })
    }

    fn check_open(&self) -> Result<(), Failure> {
        if self.shared.active.lock().is_closing {
            return Err(other("Transom is quitting"));
        }
        Ok(())
    }

    /// Runs `work` on a blocking thread.
    async fn stored<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failure> {
        let store = self.shared.store.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        match done {
            Ok(result) => result.map_err(|error| storage(&error)),
            // Its text may contain a prompt, and the panic hook has logged where it was.
            Err(_) => Err(other("the store stopped unexpectedly; try again")),
        }
    }
}

fn check_question(text: &str, attachment: &str) -> Result<(), Failure> {
    if text.trim().is_empty() && attachment.trim().is_empty() {
        return Err(other("the message is empty; write something first"));
    }
    Ok(())
}

fn storage(error: &StoreError) -> Failure {
    let (kind, reason) = (error.kind(), error.to_string());
    match error {
        StoreError::NoConversation(_) | StoreError::NoMessage(_) => Failure::Other { reason },
        _ => Failure::Storage { kind, reason },
    }
}

fn other(reason: &str) -> Failure {
    Failure::Other {
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;
