//! The tree of a conversation's messages, and the path through it that is shown.
//!
//! Rule: every message with children stores which child was last shown, and the conversation stores
//! the leaf at the end of the path. Walks follow `depth`, which changes by one at every step, so
//! they end even if pointers are damaged.

use rusqlite::{Params, Transaction};

use crate::conversation::{ConversationId, MessageHead, MessageId};
use crate::error::StoreError;
use crate::store::{Flush, Store, count, execute, query_all, query_one, role};

/// Walks from a message up to the first one.
pub(crate) const UP: &str = "WITH RECURSIVE up (id, parent, depth) AS (
    SELECT id, parent, depth FROM message WHERE id = ?1
    UNION ALL
    SELECT m.id, m.parent, m.depth FROM up JOIN message m ON m.id = up.parent AND m.depth = up.depth - 1
)";

/// Stores which child of a message was last shown.
pub(crate) const SET_SHOWN_CHILD: &str = "UPDATE message SET shown_child = ?2 WHERE id = ?1";

/// Walks from a message down to a leaf, to the child that was last shown, else to the newest.
const LEAF_BELOW: &str = "WITH RECURSIVE down (id, depth) AS (
    SELECT id, depth FROM message WHERE id = ?1
    UNION ALL
    SELECT m.id, m.depth FROM down JOIN message m ON m.depth = down.depth + 1 AND m.id = coalesce(
        (SELECT shown_child FROM message WHERE id = down.id),
        (SELECT max(id) FROM message WHERE parent = down.id)
    )
)
SELECT id FROM down ORDER BY depth DESC LIMIT 1";

impl Store {
    /// Returns the path that is shown, first message first.
    pub fn path(&self, id: ConversationId) -> Result<Vec<MessageHead>, StoreError> {
        self.read(|tx| {
            let Some(leaf) = leaf(tx, id)? else {
                return Ok(Vec::new());
            };
            let sql = format!(
                "{UP} SELECT m.id, m.speaker, m.n_chars FROM up JOIN message m ON m.id = up.id
                 ORDER BY up.depth"
            );
            query_all(tx, &sql, [leaf.0], |row| {
                Ok(MessageHead {
                    id: MessageId(row.get(0)?),
                    role: role(row, 1)?,
                    n_chars: count(row, 2)?,
                })
            })
        })
    }

    /// Shows the branch of `message`, down to the leaf that was last shown on it.
    pub fn show_branch(&self, message: MessageId) -> Result<(), StoreError> {
        self.write(Flush::Later, |tx| {
            let sql = "SELECT conversation FROM message WHERE id = ?1";
            let conversation = query_one(tx, sql, [message.0], |row| row.get::<_, i64>(0))?;
            let conversation = conversation.ok_or(StoreError::NoMessage(message))?;
            let leaf = leaf_below(tx, message)?;
            show(tx, ConversationId(conversation), leaf)
        })
    }
}

/// Shows the path to `leaf`, and stores the shown child at every fork.
pub(crate) fn show(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    leaf: MessageId,
) -> Result<(), StoreError> {
    let parent: Option<i64> = tx
        .prepare_cached("SELECT parent FROM message WHERE id = ?1")?
        .query_row([leaf.0], |row| row.get(0))?;
    let is_next = parent.is_some() && parent == self::leaf(tx, conversation)?.map(|id| id.0);
    if is_next {
        // The path above is shown already.
        execute(tx, SET_SHOWN_CHILD, (parent, leaf.0))?;
    } else {
        let sql = format!(
            "{UP} UPDATE message SET shown_child = up.id FROM up
             WHERE message.id = up.parent AND message.shown_child IS NOT up.id"
        );
        execute(tx, &sql, [leaf.0])?;
    }
    let sql = "UPDATE conversation SET leaf = ?2 WHERE id = ?1";
    execute(tx, sql, (conversation.0, leaf.0)).map(drop)
}

/// Returns the messages from the first one to `leaf`; none if there is no such message.
pub(crate) fn ids_to(tx: &Transaction<'_>, leaf: MessageId) -> Result<Vec<MessageId>, StoreError> {
    ids(
        tx,
        &format!("{UP} SELECT id FROM up ORDER BY depth"),
        [leaf.0],
    )
}

/// Returns the messages that a query selects.
pub(crate) fn ids(
    tx: &Transaction<'_>,
    sql: &str,
    params: impl Params,
) -> Result<Vec<MessageId>, StoreError> {
    query_all(tx, sql, params, |row| row.get(0).map(MessageId))
}

/// Returns the leaf below a message that was last shown.
pub(crate) fn leaf_below(
    tx: &Transaction<'_>,
    message: MessageId,
) -> Result<MessageId, StoreError> {
    let leaf = tx
        .prepare_cached(LEAF_BELOW)?
        .query_row([message.0], |row| row.get(0))?;
    Ok(MessageId(leaf))
}

/// Returns the messages with the same parent, oldest first.
pub(crate) fn siblings(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    parent: Option<MessageId>,
) -> Result<Vec<MessageId>, StoreError> {
    let sql = "SELECT id FROM message WHERE parent IS ?1 AND conversation = ?2 ORDER BY id";
    ids(tx, sql, (parent.map(|id| id.0), conversation.0))
}

/// Returns the leaf of the path that is shown.
pub(crate) fn leaf(
    tx: &Transaction<'_>,
    id: ConversationId,
) -> Result<Option<MessageId>, StoreError> {
    let sql = "SELECT leaf FROM conversation WHERE id = ?1";
    let leaf: Option<Option<i64>> = query_one(tx, sql, [id.0], |row| row.get(0))?;
    let leaf = leaf.ok_or(StoreError::NoConversation(id))?;
    Ok(leaf.map(MessageId))
}
