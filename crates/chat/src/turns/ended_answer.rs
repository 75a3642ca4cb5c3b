//! Changes of a response that has ended: it is continued, or the user edits its text.

use transom_store::{Message, MessageId};

use super::shared::ConversationLock;
use super::{StartedTurn, TurnEvent, TurnOptions, Turns, other};
use crate::failure::Failure;

impl Turns {
    /// Continues a response that ended too early. New text is added to the same message, and the name
    /// of the model that writes it to the name of the first one.
    ///
    /// # Errors
    /// As [`Turns::ask`], and [`Failure::Other`] for a response without text.
    pub async fn continue_answer(
        &self,
        answer: MessageId,
        options: TurnOptions,
    ) -> Result<StartedTurn, Failure> {
        let message = self.stored(move |store| store.message(answer)).await?;
        if message.text.trim().is_empty() {
            return Err(other("the response has no text; regenerate it instead"));
        }
        let lock = self.lock_ended(&message)?;
        self.stop_summaries(Some(message.conversation));
        let options = self.as_asked(&message, options);
        let reopened = self.stored(move |store| {
            // The statistics, which opening it removes, contain the messages that stay dropped.
            let path = store.history(answer)?;
            store.reopen(answer)?;
            Ok((path, store.message(answer)?))
        });
        let (path, message) = reopened.await?;
        Ok(self.start_writing(lock, path, message, options))
    }

    /// Replaces the text of a response. The old text is not kept.
    ///
    /// # Errors
    /// As [`Turns::ask`], and [`Failure::Other`] for an empty text or a message of the user.
    pub async fn edit_answer(&self, answer: MessageId, text: &str) -> Result<(), Failure> {
        let text = text.trim().to_owned();
        if text.is_empty() {
            return Err(other("the response is empty; write something first"));
        }
        let message = self.stored(move |store| store.message(answer)).await?;
        let lock = self.lock_ended(&message)?;
        self.stop_summaries(Some(message.conversation));
        let replaced = self.stored(move |store| store.replace_text(answer, &text));
        replaced.await?;
        let id = lock.conversation;
        drop(lock);
        (self.shared.listener)(TurnEvent::ConversationChanged { id });
        Ok(())
    }

    /// Locks the conversation of a response whose end is on disk.
    fn lock_ended(&self, answer: &Message) -> Result<ConversationLock, Failure> {
        let lock = self.lock(answer.conversation)?;
        if self.shared.active.lock().entries.contains_key(&answer.id) {
            return Err(Failure::Busy);
        }
        Ok(lock)
    }
}
