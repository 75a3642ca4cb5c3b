//! Turns: questions go to disk and to the supervisor, answers come back to disk and to windows.
//!
//! Each running answer is a task of its own (`answer`), with a board that windows read (`follow`)
//! and a copy that grows on disk (`disk`). Nothing here knows a window: an answer that nobody
//! follows is written all the same.
//!
//! Rule: a question is on disk before its answer begins, and an answer before its first word; what
//! is said is on disk within a second. A conversation is given one answer at a time.

mod answer;
mod board;
mod desk;
mod disk;
mod follow;
mod part;
mod speed;

use std::fmt;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use tokio::sync::{Notify, watch};
use transom_store::{
    ConversationId, Ending, MessageId, MessageRole, ModelSettings, NewMessage, Store, StoreError,
    Timestamp,
};
use transom_supervisor::{Handle, ModelSpec};

use crate::failure::Failure;
use crate::title::title;
use crate::update::MessageView;
use crate::view::{Rendered, view};
use answer::Entry;
use board::Board;
use desk::{Inner, Place};
use disk::Disk;

pub use follow::Updates;

/// Every conversation's turns. Clones are of the same ones, which live as long as their answers.
///
/// Its calls need a Tokio runtime. A turn that is begun goes on when its caller is gone.
#[derive(Clone)]
pub struct Turns {
    inner: Arc<Inner>,
}

/// Which model is asked, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Asking {
    /// The model as it is to be loaded, with the context length and the form of keys and values
    /// that the user chose.
    pub model: ModelSpec,
    /// The user's choices for it. What they leave open is what the model's authors recommend.
    pub settings: ModelSettings,
    /// Load it even if it exceeds the memory budget: the user was told, and insists.
    pub insist: bool,
}

/// A message that was accepted and the answer that was begun: follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Begun {
    /// Their conversation, new if none was named.
    pub conversation: ConversationId,
    /// The person's message; `None` when an answer was asked for again.
    pub question: Option<MessageId>,
    /// The answer.
    pub answer: MessageId,
}

/// Something that concerns more than those who follow one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// A conversation was begun or named, or said something: lists are to be read again.
    Conversation {
        /// Which.
        id: ConversationId,
    },
    /// What is written cannot be saved. The answer goes on and saving is tried again; told once
    /// until [`Happening::Saved`].
    Unsaved {
        /// Which answer.
        answer: MessageId,
        /// The reason in English, naming the file.
        reason: String,
    },
    /// Everything of the answer could be saved after all.
    Saved {
        /// Which answer.
        answer: MessageId,
    },
}

/// Hears what happens; called from any thread, and must return quickly.
type Tell = Arc<dyn Fn(Happening) + Send + Sync>;

impl Turns {
    /// Turns that are asked of the latest of `handles` and kept in `store`.
    ///
    /// `handles` changes where the supervisor does, as when this program was the guest of another
    /// that quit: a turn that has not said anything waits some seconds for the next one. `now` is
    /// the time that messages are dated with. `tell` hears what concerns more than one window; it
    /// is called from any thread and must return quickly.
    pub fn new(
        handles: watch::Receiver<Handle>,
        store: Store,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        tell: impl Fn(Happening) + Send + Sync + 'static,
    ) -> Self {
        let disk = Arc::new(store.clone());
        Self::with_disk(handles, store, disk, Box::new(now), Arc::new(tell))
    }

    fn with_disk(
        handles: watch::Receiver<Handle>,
        store: Store,
        disk: Arc<dyn Disk>,
        now: Box<dyn Fn() -> Timestamp + Send + Sync>,
        tell: Tell,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                handles,
                store,
                disk,
                now,
                tell,
                desk: Mutex::default(),
                desk_news: watch::Sender::new(()),
                kept: Mutex::default(),
            }),
        }
    }

    /// Asks `text` at the end of a conversation's shown path, with `attachment` taken along; `None`
    /// begins a conversation. When it returns, the question is on disk and its answer begun.
    ///
    /// # Errors
    /// [`Failure::Busy`] while an answer of this conversation is being written;
    /// [`Failure::Storage`] when the disk refuses, and nothing is asked then; [`Failure::Other`]
    /// when there is nothing to ask, or no such conversation. What the model cannot do is not told
    /// here: the answer ends with it.
    pub async fn ask(
        &self,
        conversation: Option<ConversationId>,
        text: &str,
        attachment: &str,
        asking: Asking,
    ) -> Result<Begun, Failure> {
        let question = Question {
            text: text.to_owned(),
            attachment: attachment.to_owned(),
        };
        question.check()?;
        let now = (self.inner.now)();
        let (place, parent) = match conversation {
            Some(id) => {
                let place = self.take(id)?;
                let path = self.stored(move |store| store.path(id)).await?;
                (place, path.last().map(|head| head.id))
            }
            None => {
                self.check_open()?;
                let id = self.stored(move |store| store.create_conversation(now));
                (self.take(id.await?)?, None)
            }
        };
        self.put(place, parent, question, asking).await
    }

    /// Answers the same question again, also after a failure; the old answer stays as a sibling. A
    /// question that never got an answer may be named itself.
    ///
    /// # Errors
    /// As [`Turns::ask`].
    pub async fn regenerate(&self, answer: MessageId, asking: Asking) -> Result<Begun, Failure> {
        let message = self.stored(move |store| store.message(answer)).await?;
        let question = match (message.role, message.parent) {
            (MessageRole::User, _) => message.id,
            (MessageRole::Assistant, Some(parent)) => parent,
            (MessageRole::Assistant, None) => {
                return Err(other("this answer has no question to be asked again"));
            }
        };
        let place = self.take(message.conversation)?;
        let answer = self.begin(place, question, asking).await?;
        Ok(Begun {
            conversation: message.conversation,
            question: None,
            answer,
        })
    }

    /// Asks a question in other words, with what was taken along; the old one stays as a sibling,
    /// with all that followed.
    ///
    /// # Errors
    /// As [`Turns::ask`], and [`Failure::Other`] for a message that a model wrote.
    pub async fn edit(
        &self,
        question: MessageId,
        text: &str,
        asking: Asking,
    ) -> Result<Begun, Failure> {
        let old = self.stored(move |store| store.message(question)).await?;
        if old.role != MessageRole::User {
            return Err(other("only your own messages can be edited"));
        }
        let question = Question {
            text: text.to_owned(),
            attachment: old.attachment,
        };
        question.check()?;
        let place = self.take(old.conversation)?;
        self.put(place, old.parent, question, asking).await
    }

    /// Ends an answer after its running step, wherever it is: waiting, loading, or being written.
    /// What was written stays. Without effect on one that is over.
    pub fn stop(&self, answer: MessageId) {
        if let Some(entry) = self.inner.desk().entries.get(&answer) {
            entry.stop.notify_one();
        }
    }

    /// Everything that happens to an answer from here on, a snapshot first. Dropping it changes
    /// nothing for the answer.
    pub fn follow(&self, answer: MessageId) -> Updates {
        let entry = self.inner.desk().entries.get(&answer).cloned();
        match entry {
            Some(entry) => Updates::of_board(entry.board.clone()),
            None => Updates::of_stored(self.clone(), answer),
        }
    }

    /// Answers that are not over, oldest first.
    pub fn running(&self) -> Vec<MessageId> {
        let desk = self.inner.desk();
        let entries = desk.entries.values();
        let running = entries.filter(|entry| !entry.board.state().is_over());
        running.map(|entry| entry.id).collect()
    }

    /// The answer of this conversation that is not over, if there is one. Stop it before the
    /// conversation is deleted, so that the model is free for others at once.
    pub fn running_in(&self, conversation: ConversationId) -> Option<MessageId> {
        let desk = self.inner.desk();
        let mut entries = desk.entries.values();
        let running = entries
            .find(|entry| entry.conversation == conversation && !entry.board.state().is_over());
        running.map(|entry| entry.id)
    }

    /// Messages as they are drawn, in the order of `ids`; those that are not there are left out.
    /// Rendered off the async threads, and kept for a while.
    ///
    /// # Errors
    /// [`Failure::Storage`] when the disk refuses.
    pub async fn messages(&self, ids: &[MessageId]) -> Result<Vec<MessageView>, Failure> {
        let ids = ids.to_vec();
        let inner = self.inner.clone();
        self.stored(move |store| {
            let messages = store.messages(&ids)?;
            Ok(messages.into_iter().map(|it| inner.view(it)).collect())
        })
        .await
    }

    /// Ends every answer and begins no more, for a program that quits. Returns when all that was
    /// said is on disk, or the disk has refused it. To be called before the supervisor quits.
    pub async fn close(&self) {
        let mut news = self.inner.desk_news.subscribe();
        self.inner.desk().is_closing = true;
        loop {
            news.mark_unchanged();
            {
                let desk = self.inner.desk();
                if desk.taken.is_empty() {
                    return;
                }
                for entry in desk.entries.values() {
                    entry.stop.notify_one();
                }
            }
            // The sender is ours.
            let _ = news.changed().await;
        }
    }

    /// Puts a new question below `parent`, titles the conversation, and begins the answer.
    async fn put(
        &self,
        place: Place,
        parent: Option<MessageId>,
        question: Question,
        asking: Asking,
    ) -> Result<Begun, Failure> {
        let conversation = place.conversation;
        let now = (self.inner.now)();
        let added = self.stored(move |store| {
            let Question { text, attachment } = question;
            let name = title(&text, &attachment);
            let id = store.add_message(NewMessage {
                conversation,
                parent,
                role: MessageRole::User,
                text,
                attachment,
                ending: Ending::Stop,
                model: None,
                created_at: now,
            })?;
            if parent.is_none() && !name.is_empty() {
                store.set_title_if_empty(conversation, &name)?;
            }
            Ok(id)
        });
        let question = added.await?;
        let answer = self.begin(place, question, asking).await?;
        Ok(Begun {
            conversation,
            question: Some(question),
            answer,
        })
    }

    /// Begins an answer to `question`.
    async fn begin(
        &self,
        place: Place,
        question: MessageId,
        asking: Asking,
    ) -> Result<MessageId, Failure> {
        let conversation = place.conversation;
        let (now, model) = ((self.inner.now)(), asking.model.name.clone());
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
        let answer = message.id;
        let entry = Arc::new(Entry {
            id: answer,
            conversation,
            board: Arc::new(Board::new(view(message, &Rendered::default()))),
            stop: Notify::new(),
        });
        let is_closing = {
            let mut desk = self.inner.desk();
            desk.entries.insert(answer, entry.clone());
            desk.is_closing
        };
        if is_closing {
            entry.stop.notify_one();
        }
        self.inner.desk_news.send_replace(());
        (self.inner.tell)(Happening::Conversation { id: conversation });
        tokio::spawn(desk::live(place, entry, path, asking));
        Ok(answer)
    }

    /// Takes a conversation for a turn.
    fn take(&self, conversation: ConversationId) -> Result<Place, Failure> {
        self.check_open()?;
        if !self.inner.desk().taken.insert(conversation) {
            return Err(Failure::Busy);
        }
        Ok(Place {
            inner: self.inner.clone(),
            conversation,
        })
    }

    fn check_open(&self) -> Result<(), Failure> {
        if self.inner.desk().is_closing {
            return Err(other("Transom is quitting"));
        }
        Ok(())
    }

    /// Runs `work` where it may block.
    async fn stored<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failure> {
        let store = self.inner.store.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        match done {
            Ok(result) => result.map_err(|error| storage(&error)),
            Err(error) => Err(other(&format!("the store stopped in mid-work: {error}"))),
        }
    }
}

/// What a person says.
struct Question {
    text: String,
    attachment: String,
}

impl Question {
    fn check(&self) -> Result<(), Failure> {
        if self.text.trim().is_empty() && self.attachment.trim().is_empty() {
            return Err(other("there is nothing to ask; write something first"));
        }
        Ok(())
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.running();
        f.debug_struct("Turns").field("running", &running).finish()
    }
}

fn storage(error: &StoreError) -> Failure {
    let reason = error.to_string();
    match error {
        StoreError::NoConversation(_) | StoreError::NoMessage(_) => Failure::Other { reason },
        _ => Failure::Storage { reason },
    }
}

fn other(reason: &str) -> Failure {
    Failure::Other {
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;
