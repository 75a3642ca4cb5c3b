//! Summaries of the beginning of a conversation, each stored with the last message that it covers.
//!
//! Rule: a summary is removed with every text that it covers: a message that is edited or deleted
//! takes all summaries at and below it with it.

use crate::conversation::{ConversationId, MessageId};
use crate::error::StoreError;
use crate::store::{Flush, Store, execute, query_all, text};
use crate::tree::{self, UP};

impl Store {
    /// Stores a summary of all messages up to and including `last`, in place of an earlier one. An
    /// empty text says that the user removed it. As with an edited response, the former text stays in
    /// the backups.
    pub fn set_summary(&self, last: MessageId, summary: &str) -> Result<(), StoreError> {
        self.write(Flush::Now, |tx| {
            let sql = "UPDATE body SET summary = ?2 WHERE message = ?1";
            let n = execute(tx, sql, (last.0, summary.trim()))?;
            (n > 0).then_some(()).ok_or(StoreError::NoMessage(last))
        })
    }

    /// Returns the summaries on the path that is shown, each with the last message that it covers,
    /// in the order of the path. Removed ones are left out.
    pub fn summaries(&self, id: ConversationId) -> Result<Vec<(MessageId, String)>, StoreError> {
        self.read(|tx| {
            let Some(leaf) = tree::leaf(tx, id)? else {
                return Ok(Vec::new());
            };
            let sql = format!(
                "{UP} SELECT up.id, b.summary FROM up JOIN body b ON b.message = up.id
                 WHERE b.summary <> '' ORDER BY up.depth"
            );
            query_all(tx, &sql, [leaf.0], |row| {
                Ok((MessageId(row.get(0)?), text(row, 1)?))
            })
        })
    }
}
