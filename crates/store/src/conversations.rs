//! The list of conversations: begin, name, pin, delete.
//!
//! Rule: what is deleted is in no file of the folder when the call returns. SQLite overwrites freed
//! bytes, the index forgets the words, the log is cut, and the backups forget it too.

use rusqlite::{OptionalExtension, Row, Transaction, named_params};
use transom_files::visible;

use crate::conversation::{Conversation, ConversationId, Timestamp};
use crate::error::StoreError;
use crate::store::{Flush, Store, count, lock, text};
use crate::{backup, recovery, search};

/// The columns that [`read`] takes.
pub(crate) const COLUMNS: &str =
    "c.id, c.title, c.is_pinned, c.created_at, c.updated_at, coalesce(m.depth, 0)";
/// Where they come from.
pub(crate) const TABLES: &str = "conversation c LEFT JOIN message m ON m.id = c.leaf";

pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Conversation> {
    Ok(Conversation {
        id: ConversationId(row.get(0)?),
        title: text(row, 1)?,
        is_pinned: row.get(2)?,
        created_at: Timestamp(row.get(3)?),
        updated_at: Timestamp(row.get(4)?),
        n_messages: count(row, 5)?,
    })
}

pub(crate) fn find(tx: &Transaction<'_>, id: ConversationId) -> Result<Conversation, StoreError> {
    tx.prepare_cached(&format!("SELECT {COLUMNS} FROM {TABLES} WHERE c.id = ?1"))?
        .query_row([id.0], read)
        .optional()?
        .ok_or(StoreError::NoConversation(id))
}

impl Store {
    /// Begins an empty conversation without a title.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn create_conversation(&self, now: Timestamp) -> Result<ConversationId, StoreError> {
        self.write(Flush::Later, |tx| {
            tx.prepare_cached("INSERT INTO conversation (created_at, updated_at) VALUES (?1, ?1)")?
                .execute([now.0])?;
            Ok(ConversationId(tx.last_insert_rowid()))
        })
    }

    /// One conversation.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoConversation`] if there is none of that id.
    pub fn conversation(&self, id: ConversationId) -> Result<Conversation, StoreError> {
        self.read(|tx| find(tx, id))
    }

    /// Pinned ones first, then by when something was last said, latest first.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn conversations(&self, offset: u32, limit: u32) -> Result<Vec<Conversation>, StoreError> {
        self.read(|tx| {
            let mut statement = tx.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM {TABLES}
                 ORDER BY c.is_pinned DESC, c.updated_at DESC, c.id DESC LIMIT ?1 OFFSET ?2"
            ))?;
            let rows = statement.query_map([limit, offset], read)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Gives it a title; blanks at the ends go, and control characters become visible.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoConversation`] if there is none of that id.
    pub fn rename(&self, id: ConversationId, title: &str) -> Result<(), StoreError> {
        self.write(Flush::Now, |tx| set_title(tx, id, title))
    }

    /// Gives it a title unless it has one; whether it did.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoConversation`] if there is none of that id.
    pub fn set_title_if_empty(&self, id: ConversationId, title: &str) -> Result<bool, StoreError> {
        self.write(Flush::Later, |tx| {
            let is_empty = find(tx, id)?.title.is_empty();
            if is_empty {
                set_title(tx, id, title)?;
            }
            Ok(is_empty)
        })
    }

    /// Keeps it at the top, or no longer.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoConversation`] if there is none of that id.
    pub fn pin(&self, id: ConversationId, is_pinned: bool) -> Result<(), StoreError> {
        self.write(Flush::Later, |tx| {
            let n = tx
                .prepare_cached("UPDATE conversation SET is_pinned = ?2 WHERE id = ?1")?
                .execute((id.0, is_pinned))?;
            (n > 0).then_some(()).ok_or(StoreError::NoConversation(id))
        })
    }

    /// Deletes it with all its branches, so that its words are in no file of the folder any more,
    /// but for a damaged file that was set aside. It leaves the backups too. An
    /// answer of it that is being written can no longer be: its calls fail with
    /// [`StoreError::NoMessage`].
    ///
    /// # Errors
    ///
    /// [`StoreError::NoConversation`] if there is none of that id.
    pub fn delete(&self, id: ConversationId) -> Result<(), StoreError> {
        // A copy that is being made now would still have it.
        let _backups = self.inner.backups();
        let key = self.write(Flush::Now, |tx| {
            let key = tx
                .query_row(
                    "SELECT key FROM conversation WHERE id = ?1",
                    [id.0],
                    |row| text(row, 0),
                )
                .optional()?
                .ok_or(StoreError::NoConversation(id))?;
            delete_rows(tx, id)?;
            Ok(key)
        })?;
        if let Some(path) = &self.inner.path {
            backup::forget(path, &key);
        }
        self.erase_traces(false)
    }

    /// Deletes every conversation, and what was set aside of damaged files. Settings stay.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn clear_history(&self) -> Result<(), StoreError> {
        let _backups = self.inner.backups();
        if let Some(path) = &self.inner.path {
            backup::remove_all(path);
        }
        self.write(Flush::Now, |tx| {
            tx.execute("INSERT INTO search (search) VALUES ('delete-all')", [])?;
            tx.execute("UPDATE conversation SET leaf = NULL", [])?;
            for table in ["piece", "body", "message", "conversation"] {
                tx.execute(&format!("DELETE FROM {table}"), [])?;
            }
            Ok(())
        })?;
        self.erase_traces(true)
    }

    /// Folds the log into the file and cuts it; with everything, damaged files go too.
    fn erase_traces(&self, is_everything: bool) -> Result<(), StoreError> {
        let Some(path) = &self.inner.path else {
            return Ok(());
        };
        if is_everything {
            recovery::remove_set_aside(path);
        }
        let writer = lock(&self.inner.writer);
        // A reader in mid-transaction would keep the log from being cut.
        let _reader = self.inner.reader.as_ref().map(lock);
        let cut = || -> Result<bool, StoreError> {
            // What was deleted is overwritten already; this gives the space back.
            if is_everything && let Err(error) = writer.connection.execute_batch("VACUUM") {
                tracing::warn!(%error, "the file stays as large as it was");
            }
            let is_busy =
                writer
                    .connection
                    .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
            Ok(is_busy)
        };
        if self.placed(cut())? {
            return Err(StoreError::Busy { path: path.clone() });
        }
        Ok(())
    }
}

/// Deletes the rows of a conversation, and its words from the index.
pub(crate) fn delete_rows(tx: &Transaction<'_>, id: ConversationId) -> Result<(), StoreError> {
    let title = find(tx, id)?.title;
    search::forget_title(tx, id, &title)?;
    search::forget_messages(tx, id)?;
    for table in ["piece", "body"] {
        tx.execute(
            &format!(
                "DELETE FROM {table} WHERE message IN
                 (SELECT id FROM message WHERE conversation = ?1)"
            ),
            [id.0],
        )?;
    }
    tx.execute("DELETE FROM message WHERE conversation = ?1", [id.0])?;
    tx.execute("DELETE FROM conversation WHERE id = ?1", [id.0])?;
    Ok(())
}

fn set_title(tx: &Transaction<'_>, id: ConversationId, title: &str) -> Result<(), StoreError> {
    let title: &str = &visible(title.trim());
    let old = find(tx, id)?.title;
    if old == title {
        return Ok(());
    }
    search::forget_title(tx, id, &old)?;
    search::index_title(tx, id, title)?;
    tx.prepare_cached("UPDATE conversation SET title = :title WHERE id = :id")?
        .execute(named_params! { ":title": title, ":id": id.0 })?;
    Ok(())
}
