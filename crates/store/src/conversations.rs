//! The list of conversations: create, rename, pin, archive.

use rusqlite::{Row, Transaction};
use transom_files::visible;

use crate::conversation::{Conversation, ConversationId, Timestamp};
use crate::error::StoreError;
use crate::search_index::{self, Change};
use crate::settings::ConversationSettings;
use crate::store::{Flush, Store, count, execute, query_all, query_one, text};

/// The columns that [`read`] expects.
pub(crate) const COLUMNS: &str =
    "c.id, c.title, c.is_pinned, c.is_archived, c.created_at, c.updated_at, coalesce(m.depth, 0)";
/// The tables of these columns.
pub(crate) const TABLES: &str = "conversation c LEFT JOIN message m ON m.id = c.leaf";

pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Conversation> {
    Ok(Conversation {
        id: ConversationId(row.get(0)?),
        title: text(row, 1)?,
        is_pinned: row.get(2)?,
        is_archived: row.get(3)?,
        created_at: Timestamp(row.get(4)?),
        updated_at: Timestamp(row.get(5)?),
        n_messages: count(row, 6)?,
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

    /// Returns conversations that are not archived: pinned ones first, then by the time of the last
    /// message, newest first.
    pub fn conversations(&self, offset: u32, limit: u32) -> Result<Vec<Conversation>, StoreError> {
        self.read(|tx| list(tx, false, offset, limit))
    }

    /// Returns archived conversations in the order of [`Store::conversations`].
    pub fn archived_conversations(
        &self,
        offset: u32,
        limit: u32,
    ) -> Result<Vec<Conversation>, StoreError> {
        self.read(|tx| list(tx, true, offset, limit))
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

    /// Sets a title that a model wrote, if the title is still `derived`. Returns true if it did.
    pub fn set_written_title(
        &self,
        id: ConversationId,
        derived: &str,
        title: &str,
    ) -> Result<bool, StoreError> {
        self.write(Flush::Later, |tx| {
            let is_derived = find(tx, id)?.title == derived;
            if is_derived {
                set_title(tx, id, title)?;
                let sql = "UPDATE conversation SET is_title_written = 1 WHERE id = ?1";
                execute(tx, sql, [id.0])?;
            }
            Ok(is_derived)
        })
    }

    /// Returns true if a model wrote the title, from the first question.
    pub fn has_written_title(&self, id: ConversationId) -> Result<bool, StoreError> {
        self.read(|tx| {
            let sql = "SELECT is_title_written FROM conversation WHERE id = ?1";
            let found = query_one(tx, sql, [id.0], |row| row.get(0))?;
            found.ok_or(StoreError::NoConversation(id))
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

    /// Moves a conversation to the archive and unpins it, or moves it back to the list. A new
    /// message moves it back as well.
    pub fn archive(&self, id: ConversationId, is_archived: bool) -> Result<(), StoreError> {
        self.write(Flush::Later, |tx| {
            let sql = "UPDATE conversation SET is_archived = ?2, is_pinned = is_pinned AND NOT ?2
                       WHERE id = ?1";
            let n = execute(tx, sql, (id.0, is_archived))?;
            (n > 0).then_some(()).ok_or(StoreError::NoConversation(id))
        })
    }
}

fn list(
    tx: &Transaction<'_>,
    is_archived: bool,
    offset: u32,
    limit: u32,
) -> Result<Vec<Conversation>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {TABLES} WHERE c.is_archived = ?1
         ORDER BY c.is_pinned DESC, c.updated_at DESC, c.id DESC LIMIT ?2 OFFSET ?3"
    );
    query_all(tx, &sql, (is_archived, limit, offset), read)
}

/// Deletes the rows of a conversation, and its words from the search index.
pub(crate) fn delete_rows(tx: &Transaction<'_>, id: ConversationId) -> Result<(), StoreError> {
    let title = find(tx, id)?.title;
    search_index::change_title(tx, Change::Remove, id, &title)?;
    search_index::change_messages(tx, Change::Remove, Some(id))?;
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
    search_index::change_title(tx, Change::Remove, id, &old)?;
    search_index::change_title(tx, Change::Add, id, title)?;
    let sql = "UPDATE conversation SET title = ?2, is_title_written = 0 WHERE id = ?1";
    execute(tx, sql, (id.0, title)).map(drop)
}
