//! Deletes one exchange: a question and its responses, with all their versions.
//!
//! Messages after the exchange stay, without their statistics and summaries: they then follow the
//! message before it. Rule: as with a whole conversation, deleted text is in no file of the folder
//! when the call returns.

use rusqlite::Transaction;

use crate::conversation::{ConversationId, Ending, Message, MessageId, MessageRole};
use crate::error::StoreError;
use crate::search_index::{self, Change};
use crate::store::{Store, execute, query_one, text};
use crate::{messages, tree};

impl Store {
    /// Deletes the exchange of `question`: all versions of the question, and all responses to them.
    /// The conversation also leaves the backups. If a response of the exchange is being written,
    /// further calls for that fail with [`StoreError::NoMessage`].
    ///
    /// # Errors
    ///
    /// [`StoreError::NoMessage`] also for a message that the user did not write.
    pub fn delete_exchange(&self, question: MessageId) -> Result<(), StoreError> {
        self.erase(|tx| {
            let question = messages::find(tx, question)?
                .filter(|message| message.role == MessageRole::User)
                .ok_or(StoreError::NoMessage(question))?;
            delete(tx, &question)?;
            let sql = "SELECT key FROM conversation WHERE id = ?1";
            let key = query_one(tx, sql, [question.conversation.0], |row| text(row, 0))?;
            key.ok_or(StoreError::NoConversation(question.conversation))
        })
    }
}

fn delete(tx: &Transaction<'_>, question: &Message) -> Result<(), StoreError> {
    let (conversation, parent) = (question.conversation, question.parent);
    let mut exchange = Vec::new();
    for version in with_role(tx, &question.siblings, MessageRole::User)? {
        exchange.push(version);
        let responses = tree::siblings(tx, conversation, Some(version))?;
        exchange.extend(with_role(tx, &responses, MessageRole::Assistant)?);
    }
    let shown = tree::leaf(tx, conversation)?;
    let depth = "SELECT depth FROM message WHERE id = ?1";
    let depth: Option<i64> = query_one(tx, depth, [question.id.0], |row| row.get(0))?;
    for id in &exchange {
        for child in tree::siblings(tx, conversation, Some(*id))? {
            if !exchange.contains(&child) {
                move_up(tx, child, parent, depth.unwrap_or(1))?;
            }
        }
    }
    let leaf = shown.filter(|leaf| !exchange.contains(leaf));
    tx.execute(
        "UPDATE conversation SET leaf = NULL WHERE id = ?1",
        [conversation.0],
    )?;
    for id in &exchange {
        delete_row(tx, *id)?;
    }
    show(tx, conversation, leaf, parent)
}

/// Returns the messages of `ids` that have this role.
fn with_role(
    tx: &Transaction<'_>,
    ids: &[MessageId],
    role: MessageRole,
) -> Result<Vec<MessageId>, StoreError> {
    let mut found = Vec::new();
    for id in ids {
        if messages::find(tx, *id)?.is_some_and(|message| message.role == role) {
            found.push(*id);
        }
    }
    Ok(found)
}

/// Gives a message another parent, and its subtree the depths below it. Removes their statistics and
/// summaries, which are of the deleted text.
fn move_up(
    tx: &Transaction<'_>,
    id: MessageId,
    parent: Option<MessageId>,
    depth: i64,
) -> Result<(), StoreError> {
    let sql = "WITH RECURSIVE down (id, depth, was) AS (
            SELECT id, ?2, depth FROM message WHERE id = ?1
            UNION ALL
            SELECT m.id, down.depth + 1, m.depth
            FROM down JOIN message m ON m.parent = down.id AND m.depth = down.was + 1
        )
        UPDATE message SET depth = down.depth FROM down WHERE message.id = down.id";
    execute(tx, sql, (id.0, depth))?;
    let sql = "UPDATE message SET parent = ?2 WHERE id = ?1";
    execute(tx, sql, (id.0, parent.map(|parent| parent.0)))?;
    messages::remove_stale(tx, id)
}

/// Deletes a message and its words in the search index.
fn delete_row(tx: &Transaction<'_>, id: MessageId) -> Result<(), StoreError> {
    let Some(message) = messages::find(tx, id)? else {
        return Ok(());
    };
    if message.ending != Ending::Writing {
        search_index::change_message(tx, Change::Remove, id, &message.text, &message.attachment)?;
    }
    for sql in [
        "UPDATE message SET shown_child = NULL WHERE shown_child = ?1",
        "DELETE FROM piece WHERE message = ?1",
        "DELETE FROM body WHERE message = ?1",
        "DELETE FROM message WHERE id = ?1",
    ] {
        execute(tx, sql, [id.0])?;
    }
    Ok(())
}

/// Shows the path to `leaf`; without one, the newest path below `parent`, if there is any.
fn show(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    leaf: Option<MessageId>,
    parent: Option<MessageId>,
) -> Result<(), StoreError> {
    let below = match (leaf, parent) {
        (Some(leaf), _) => return tree::show(tx, conversation, leaf),
        (None, Some(parent)) => Some(parent),
        (None, None) => tree::siblings(tx, conversation, None)?.pop(),
    };
    match below {
        Some(below) => {
            let leaf = tree::leaf_below(tx, below)?;
            tree::show(tx, conversation, leaf)
        }
        None => Ok(()),
    }
}
