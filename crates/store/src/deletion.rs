//! Deletes conversations, and what is left of them in other files.
//!
//! Rule: deleted text is in no file of the folder when the call returns. SQLite overwrites freed
//! bytes, the search index drops the words, the log is truncated, and the backups are changed too.
//! The backups come first: if the program is killed in between, the user still sees the chat and can
//! delete it again.

use parking_lot::Mutex;
use rusqlite::Transaction;

use crate::conversation::ConversationId;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{Flush, Store, query_one, text};
use crate::{backup, conversations, recovery};

impl Store {
    /// Deletes a conversation with all its branches, also from the backups. Its text is then in no
    /// file of the folder, except damaged files that were set aside. If a response of it is being
    /// written, further calls for that fail with [`StoreError::NoMessage`].
    pub fn delete(&self, id: ConversationId) -> Result<(), StoreError> {
        self.erase(|tx| {
            let sql = "SELECT key FROM conversation WHERE id = ?1";
            let key = query_one(tx, sql, [id.0], |row| text(row, 0))?;
            let key = key.ok_or(StoreError::NoConversation(id))?;
            conversations::delete_rows(tx, id)?;
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
        let _backups = self.inner.backups.lock();
        self.write(Flush::Now, |tx| {
            let key = work(tx)?;
            if let Some(path) = &self.inner.path {
                backup::delete_conversation(path, &key);
            }
            Ok(())
        })?;
        self.erase_traces(false)
    }

    /// Deletes all conversations and all damaged files that were set aside. Settings stay.
    pub fn clear_history(&self) -> Result<(), StoreError> {
        let _backups = self.inner.backups.lock();
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
        let writer = self.inner.writer.lock();
        // A reader in a transaction would prevent truncating the log.
        let _reader = self.inner.reader.as_ref().map(Mutex::lock);
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
