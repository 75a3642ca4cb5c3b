//! The list of conversations: create, rename, pin, delete.
//!
//! Rule: deleted text is in no file of the folder when the call returns. SQLite overwrites freed
//! bytes, the search index drops the words, the log is truncated, and the backups are changed too.

use rusqlite::{Row, Transaction};
use transom_files::visible;

use crate::conversation::{Conversation, ConversationId, Timestamp};
use crate::error::{StoreError, StoreErrorKind};
use crate::search::{self, Change};
use crate::settings::ConversationSettings;
use crate::store::{Flush, Store, count, execute, lock, query_all, query_one, text};
use crate::{backup, recovery};

/// The columns that [`read`] expects.
pub(crate) const COLUMNS: &str =
    "c.id, c.title, c.is_pinned, c.created_at, c.updated_at, coalesce(m.depth, 0)";
/// The tables of these columns.
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
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE c.id = ?1");
    query_one(tx, &sql, [id.0], read)?.ok_or(StoreError::NoConversation(id))
}

pub(crate) fn find_by_key(
    tx: &Transaction<'_>,
    key: &str,
) -> Result<Option<ConversationId>, StoreError> {
    let sql = "SELECT id FROM conversation WHERE key = ?1";
    query_one(tx, sql, [key], |row| row.get(0).map(ConversationId))
}

impl Store {
    /// Creates an empty conversation without a title and with default settings.
    pub fn create_conversation(&self, now: Timestamp) -> Result<ConversationId, StoreError> {
        self.create_conversation_with(now, &ConversationSettings::default())
    }

    /// Returns a conversation.
    pub fn conversation(&self, id: ConversationId) -> Result<Conversation, StoreError> {
        self.read(|tx| find(tx, id))
    }

    /// Returns conversations: pinned ones first, then by the time of the last message, newest
    /// first.
    pub fn conversations(&self, offset: u32, limit: u32) -> Result<Vec<Conversation>, StoreError> {
        self.read(|tx| {
            let sql = format!(
                "SELECT {COLUMNS} FROM {TABLES}
                 ORDER BY c.is_pinned DESC, c.updated_at DESC, c.id DESC LIMIT ?1 OFFSET ?2"
            );
            query_all(tx, &sql, [limit, offset], read)
        })
    }

    /// Sets the title. Spaces at the ends are removed, and control characters become visible.
    pub fn rename(&self, id: ConversationId, title: &str) -> Result<(), StoreError> {
        self.write(Flush::Now, |tx| set_title(tx, id, title))
    }

    /// Sets the title if there is none. Returns true if it did.
    pub fn set_title_if_empty(&self, id: ConversationId, title: &str) -> Result<bool, StoreError> {
        self.write(Flush::Later, |tx| {
            let is_empty = find(tx, id)?.title.is_empty();
            if is_empty {
                set_title(tx, id, title)?;
            }
            Ok(is_empty)
        })
    }

    /// Pins a conversation to the top of the list, or unpins it.
    pub fn pin(&self, id: ConversationId, is_pinned: bool) -> Result<(), StoreError> {
        self.write(Flush::Later, |tx| {
            let sql = "UPDATE conversation SET is_pinned = ?2 WHERE id = ?1";
            let n = execute(tx, sql, (id.0, is_pinned))?;
            (n > 0).then_some(()).ok_or(StoreError::NoConversation(id))
        })
    }

    /// Deletes a conversation with all its branches, also from the backups. Its text is then in no
    /// file of the folder, except damaged files that were set aside. If a response of it is being
    /// written, further calls for that fail with [`StoreError::NoMessage`].
    pub fn delete(&self, id: ConversationId) -> Result<(), StoreError> {
        self.erase(|tx| {
            let sql = "SELECT key FROM conversation WHERE id = ?1";
            let key = query_one(tx, sql, [id.0], |row| text(row, 0))?;
            let key = key.ok_or(StoreError::NoConversation(id))?;
            delete_rows(tx, id)?;
            Ok(key)
        })
    }

    /// Deletes the rows that `work` deletes, whose texts are then in no file. The conversation with
    /// the key that `work` returns leaves the backups.
    pub(crate) fn erase(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<String, StoreError>,
    ) -> Result<(), StoreError> {
        // A backup that is being made now would still contain them.
        let _backups = self.inner.backups();
        let key = self.write(Flush::Now, work)?;
        if let Some(path) = &self.inner.path {
            backup::delete_conversation(path, &key);
        }
        self.erase_traces(false)
    }

    /// Deletes all conversations and all damaged files that were set aside. Settings stay.
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

    /// Checkpoints the log into the database and truncates it. With `is_everything`, also deletes
    /// damaged files.
    fn erase_traces(&self, is_everything: bool) -> Result<(), StoreError> {
        let Some(path) = &self.inner.path else {
            return Ok(());
        };
        if is_everything {
            recovery::remove_set_aside(path);
        }
        let writer = lock(&self.inner.writer);
        // A reader in a transaction would prevent truncating the log.
        let _reader = self.inner.reader.as_ref().map(lock);
        // Deleted bytes are overwritten already; this frees the space.
        if is_everything && let Err(error) = writer.connection.execute_batch("VACUUM") {
            tracing::warn!(%error, "cannot shrink the database file");
        }
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_busy = writer
            .connection
            .query_row(checkpoint, [], |row| row.get::<_, bool>(0));
        match self.with_path(is_busy.map_err(StoreError::from))? {
            true => Err(StoreError::file(StoreErrorKind::Busy, path, "")),
            false => Ok(()),
        }
    }
}

/// Deletes the rows of a conversation, and its words from the search index.
pub(crate) fn delete_rows(tx: &Transaction<'_>, id: ConversationId) -> Result<(), StoreError> {
    let title = find(tx, id)?.title;
    search::change_title(tx, Change::Remove, id, &title)?;
    search::change_messages(tx, Change::Remove, Some(id))?;
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
    search::change_title(tx, Change::Remove, id, &old)?;
    search::change_title(tx, Change::Add, id, title)?;
    let sql = "UPDATE conversation SET title = ?2 WHERE id = ?1";
    execute(tx, sql, (id.0, title)).map(drop)
}
