//! Messages: add, append to a growing response, finish, read.
//!
//! A response grows by pieces, each in a row of its own, so a write contains only the new text,
//! twice per second. The pieces are joined once, when the response ends.
//!
//! Rule: a message is in the search index if and only if it has ended.

use rusqlite::{Row, Transaction};

use crate::conversation::{
    ConversationId, Ending, Message, MessageId, MessageRole, NewMessage, Timestamp,
};
use crate::error::StoreError;
use crate::search_index::{self, Change};
use crate::store::{Flush, Store, execute, optional_text, query_one, role, text};
use crate::{conversations, tree};

impl Store {
    /// Adds a message, which becomes the end of the path that is shown. If its parent has children
    /// already, it is a new version of them. It is on the disk when the call returns.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoMessage`] for its parent, also if that is in another conversation.
    pub fn add_message(&self, message: NewMessage) -> Result<MessageId, StoreError> {
        self.write(Flush::Now, |tx| {
            let conversation = conversations::find(tx, message.conversation)?;
            let id = insert(tx, &message, "", None, None)?;
            tree::show(tx, message.conversation, id)?;
            let updated_at = message.created_at.max(conversation.updated_at);
            let sql = "UPDATE conversation SET updated_at = ?2, is_archived = 0 WHERE id = ?1";
            execute(tx, sql, (message.conversation.0, updated_at.0))?;
            Ok(id)
        })
    }

    /// Appends to a response that is being written. Cheap however long the response is. When the
    /// call returns, the text survives a crash of this program; a power cut may lose the last few
    /// calls. Fails with [`StoreError::NotWriting`] if the response has ended.
    pub fn append(&self, id: MessageId, reasoning: &str, text: &str) -> Result<(), StoreError> {
        self.write(Flush::Later, |tx| append(tx, id, reasoning, text))
    }

    /// Ends a response that is being written. `stats` are statistics as JSON of the caller. When
    /// the call returns, the response is on the disk and in the search index.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotWriting`] if it has ended before, and [`StoreError::InvalidEnding`] for
    /// [`Ending::Writing`].
    pub fn finish(
        &self,
        id: MessageId,
        ending: Ending,
        stats: Option<String>,
    ) -> Result<(), StoreError> {
        if ending == Ending::Writing {
            return Err(StoreError::InvalidEnding(id));
        }
        self.write(Flush::Now, |tx| {
            check_writing(tx, id)?;
            finish(tx, id, &ending, stats.as_deref())
        })
    }

    /// Opens a response that has ended, so that it can grow further. Until it ends again it is not
    /// in the search index and has no statistics and no summary.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoMessage`], also for a message of the user or a response that is being
    /// written.
    pub fn reopen(&self, id: MessageId) -> Result<(), StoreError> {
        self.write(Flush::Now, |tx| {
            let old = ended_response(tx, id)?;
            search_index::change_message(tx, Change::Remove, id, &old.text, &old.attachment)?;
            let sql = "UPDATE body SET failure = NULL, stats = NULL, summary = NULL
                       WHERE message = ?1";
            execute(tx, sql, [id.0])?;
            let sql = "UPDATE message SET ending = 'writing' WHERE id = ?1";
            execute(tx, sql, [id.0]).map(drop)
        })
    }

    /// Replaces the text of a response that has ended. Its reasoning and ending stay. Statistics and
    /// summaries of it and of all messages below it are removed, because they are of the old text.
    ///
    /// # Errors
    ///
    /// As [`Store::reopen`].
    pub fn replace_text(&self, id: MessageId, text: &str) -> Result<(), StoreError> {
        self.write(Flush::Now, |tx| {
            let old = ended_response(tx, id)?;
            search_index::change_message(tx, Change::Remove, id, &old.text, &old.attachment)?;
            search_index::change_message(tx, Change::Add, id, text, &old.attachment)?;
            let sql = "UPDATE body SET text = ?2 WHERE message = ?1";
            execute(tx, sql, (id.0, text))?;
            let n_chars = chars_column(old.reasoning.chars().count() + text.chars().count());
            let sql = "UPDATE message SET n_chars = ?2 WHERE id = ?1";
            execute(tx, sql, (id.0, n_chars))?;
            remove_stale(tx, id)
        })
    }

    /// Replaces the name of the model that wrote a response.
    pub fn set_message_model(&self, id: MessageId, model: &str) -> Result<(), StoreError> {
        self.write(Flush::Later, |tx| {
            let sql = "UPDATE message SET model = ?2 WHERE id = ?1";
            let n = execute(tx, sql, (id.0, model))?;
            (n > 0).then_some(()).ok_or(StoreError::NoMessage(id))
        })
    }

    /// Returns a message; of a growing response, the text so far.
    pub fn message(&self, id: MessageId) -> Result<Message, StoreError> {
        self.read(|tx| find(tx, id)?.ok_or(StoreError::NoMessage(id)))
    }

    /// Returns messages in the order of `ids`, without those that do not exist.
    pub fn messages(&self, ids: &[MessageId]) -> Result<Vec<Message>, StoreError> {
        self.read(|tx| {
            let found = ids.iter().map(|id| find(tx, *id));
            found.filter_map(Result::transpose).collect()
        })
    }

    /// Returns the messages from the first one up to and including `leaf`: the context of a
    /// response below `leaf`.
    pub fn history(&self, leaf: MessageId) -> Result<Vec<Message>, StoreError> {
        self.read(|tx| {
            let ids = tree::ids_to(tx, leaf)?;
            if ids.is_empty() {
                return Err(StoreError::NoMessage(leaf));
            }
            let found = ids.into_iter().map(|id| find(tx, id));
            found.filter_map(Result::transpose).collect()
        })
    }
}

/// Adds a row without changing the path that is shown.
pub(crate) fn insert(
    tx: &Transaction<'_>,
    message: &NewMessage,
    reasoning: &str,
    stats: Option<&str>,
    summary: Option<&str>,
) -> Result<MessageId, StoreError> {
    let depth = match message.parent {
        None => 1,
        Some(parent) => depth_below(tx, parent, message.conversation)?,
    };
    let n_chars = message.text.chars().count() + reasoning.chars().count();
    let is_writing = message.ending == Ending::Writing;
    let values = (
        message.conversation.0,
        message.parent.map(|parent| parent.0),
        depth,
        <&str>::from(message.role),
        <&str>::from(&message.ending),
        if is_writing { 0 } else { chars_column(n_chars) },
        message.created_at.0,
        message.model.as_deref(),
    );
    let sql = "INSERT INTO message
               (conversation, parent, depth, speaker, ending, n_chars, created_at, model)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    execute(tx, sql, values)?;
    let id = MessageId(tx.last_insert_rowid());
    let values = (
        id.0,
        if is_writing { "" } else { &message.text },
        if is_writing { "" } else { reasoning },
        &message.attachment,
        message.ending.failure(),
        stats,
        summary,
    );
    let sql = "INSERT INTO body (message, text, reasoning, attachment, failure, stats, summary)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    execute(tx, sql, values)?;
    if is_writing {
        append(tx, id, reasoning, &message.text)?;
    } else {
        search_index::change_message(tx, Change::Add, id, &message.text, &message.attachment)?;
    }
    Ok(id)
}

/// Removes the statistics and summaries of a message and of all messages below it, which are of text
/// that was changed or deleted.
pub(crate) fn remove_stale(tx: &Transaction<'_>, id: MessageId) -> Result<(), StoreError> {
    let sql = "WITH RECURSIVE down (id, depth) AS (
            SELECT id, depth FROM message WHERE id = ?1
            UNION ALL
            SELECT m.id, m.depth
            FROM down JOIN message m ON m.parent = down.id AND m.depth = down.depth + 1
        )
        UPDATE body SET stats = NULL, summary = NULL WHERE message IN (SELECT id FROM down)";
    execute(tx, sql, [id.0]).map(drop)
}

/// Ends the responses that the last run of the program left open. Returns their number.
pub(crate) fn interrupt(tx: &Transaction<'_>) -> Result<u32, StoreError> {
    let ids = tree::ids(tx, "SELECT id FROM message WHERE ending = 'writing'", [])?;
    for id in &ids {
        finish(tx, *id, &Ending::Interrupted, None)?;
    }
    Ok(u32::try_from(ids.len()).unwrap_or(u32::MAX))
}

pub(crate) fn find(tx: &Transaction<'_>, id: MessageId) -> Result<Option<Message>, StoreError> {
    let sql = "SELECT m.id, m.conversation, m.parent, m.speaker, b.reasoning, b.text, b.attachment,
                      m.ending, b.failure, m.model, b.stats, m.created_at, b.summary
               FROM message m JOIN body b ON b.message = m.id WHERE m.id = ?1";
    let Some(mut message) = query_one(tx, sql, [id.0], read)? else {
        return Ok(None);
    };
    if message.ending == Ending::Writing {
        let mut pieces = tx.prepare_cached(
            "SELECT is_reasoning, text FROM piece WHERE message = ?1 ORDER BY seq",
        )?;
        let mut rows = pieces.query([id.0])?;
        while let Some(row) = rows.next()? {
            let grown = match row.get(0)? {
                true => &mut message.reasoning,
                false => &mut message.text,
            };
            grown.push_str(&text(row, 1)?);
        }
    }
    message.siblings = tree::siblings(tx, message.conversation, message.parent)?;
    Ok(Some(message))
}

fn read(row: &Row<'_>) -> rusqlite::Result<Message> {
    Ok(Message {
        id: MessageId(row.get(0)?),
        conversation: ConversationId(row.get(1)?),
        parent: row.get::<_, Option<i64>>(2)?.map(MessageId),
        role: role(row, 3)?,
        reasoning: text(row, 4)?,
        text: text(row, 5)?,
        attachment: text(row, 6)?,
        ending: Ending::from_name(&text(row, 7)?, optional_text(row, 8)?),
        model: optional_text(row, 9)?,
        stats: optional_text(row, 10)?,
        summary: optional_text(row, 12)?,
        created_at: Timestamp(row.get(11)?),
        siblings: Vec::new(),
    })
}

fn append(
    tx: &Transaction<'_>,
    id: MessageId,
    reasoning: &str,
    text: &str,
) -> Result<(), StoreError> {
    check_writing(tx, id)?;
    for (is_reasoning, piece) in [(true, reasoning), (false, text)] {
        if piece.is_empty() {
            continue;
        }
        let sql = "INSERT INTO piece (message, seq, is_reasoning, text)
                   SELECT ?1, coalesce(max(seq), 0) + 1, ?2, ?3 FROM piece WHERE message = ?1";
        execute(tx, sql, (id.0, is_reasoning, piece))?;
    }
    let n_chars = chars_column(reasoning.chars().count() + text.chars().count());
    let sql = "UPDATE message SET n_chars = n_chars + ?2 WHERE id = ?1";
    execute(tx, sql, (id.0, n_chars)).map(drop)
}

fn finish(
    tx: &Transaction<'_>,
    id: MessageId,
    ending: &Ending,
    stats: Option<&str>,
) -> Result<(), StoreError> {
    let Some(message) = find(tx, id)? else {
        return Err(StoreError::NoMessage(id));
    };
    let (text, reasoning) = (&message.text, &message.reasoning);
    let values = (id.0, text, reasoning, ending.failure(), stats);
    let sql =
        "UPDATE body SET text = ?2, reasoning = ?3, failure = ?4, stats = ?5 WHERE message = ?1";
    execute(tx, sql, values)?;
    execute(tx, "DELETE FROM piece WHERE message = ?1", [id.0])?;
    let sql = "UPDATE message SET ending = ?2 WHERE id = ?1";
    execute(tx, sql, (id.0, <&str>::from(ending)))?;
    search_index::change_message(tx, Change::Add, id, &message.text, &message.attachment)
}

fn ended_response(tx: &Transaction<'_>, id: MessageId) -> Result<Message, StoreError> {
    let is_ended = |message: &Message| {
        message.role == MessageRole::Assistant && message.ending != Ending::Writing
    };
    let message = find(tx, id)?.filter(is_ended);
    message.ok_or(StoreError::NoMessage(id))
}

fn check_writing(tx: &Transaction<'_>, id: MessageId) -> Result<(), StoreError> {
    let sql = "SELECT ending = 'writing' FROM message WHERE id = ?1";
    match query_one(tx, sql, [id.0], |row| row.get::<_, bool>(0))? {
        None => Err(StoreError::NoMessage(id)),
        Some(false) => Err(StoreError::NotWriting(id)),
        Some(true) => Ok(()),
    }
}

fn depth_below(
    tx: &Transaction<'_>,
    parent: MessageId,
    conversation: ConversationId,
) -> Result<i64, StoreError> {
    let sql = "SELECT depth FROM message WHERE id = ?1 AND conversation = ?2";
    let depth = query_one(tx, sql, (parent.0, conversation.0), |row| {
        row.get::<_, i64>(0)
    })?;
    Ok(depth.ok_or(StoreError::NoMessage(parent))? + 1)
}

fn chars_column(n_chars: usize) -> u32 {
    u32::try_from(n_chars).unwrap_or(u32::MAX)
}
