//! The full-text index of titles and messages.
//!
//! Rule: the index changes in the same transaction as the text, and a text is removed with exactly
//! the words with which it was added.

use rusqlite::{Connection, params_from_iter};

use crate::conversation::{ConversationId, MessageId};
use crate::error::StoreError;
use crate::store::{execute, text};
use crate::{attached_text, normalize, schema};

/// A change of the index by one row.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    Add,
    Remove,
}

pub(crate) fn change_title(
    tx: &Connection,
    change: Change,
    id: ConversationId,
    title: &str,
) -> Result<(), StoreError> {
    change_row(tx, change, -id.0, [title, "", ""])
}

pub(crate) fn change_message(
    tx: &Connection,
    change: Change,
    id: MessageId,
    text: &str,
    attachment: &str,
) -> Result<(), StoreError> {
    change_row(tx, change, id.0, ["", text, attachment])
}

/// Adds or removes all messages of a conversation, or of all conversations.
pub(crate) fn change_messages(
    tx: &Connection,
    change: Change,
    of: Option<ConversationId>,
) -> Result<(), StoreError> {
    let only = of.map_or("", |_| "AND m.conversation = ?1");
    let mut statement = tx.prepare(&format!(
        "SELECT m.id, b.text, b.attachment FROM message m JOIN body b ON b.message = m.id
         WHERE m.ending <> 'writing' {only}"
    ))?;
    let mut rows = statement.query(params_from_iter(of.map(|id| id.0)))?;
    while let Some(row) = rows.next()? {
        let (text, attachment) = (text(row, 1)?, text(row, 2)?);
        change_row(tx, change, row.get(0)?, ["", &text, &attachment])?;
    }
    Ok(())
}

/// Makes the next opening rebuild the index.
pub(crate) fn mark_stale(connection: &Connection) -> Result<(), StoreError> {
    schema::set_meta(connection, "search", "in doubt")
}

/// Rebuilds the index if it was built with other rules.
pub(crate) fn rebuild_if_stale(tx: &Connection) -> Result<(), StoreError> {
    let version = normalize::version();
    if schema::meta(tx, "search")?.as_deref() == Some(&version) {
        return Ok(());
    }
    tx.execute("INSERT INTO search (search) VALUES ('delete-all')", [])?;
    let mut titles = tx.prepare("SELECT id, title FROM conversation")?;
    let mut rows = titles.query([])?;
    while let Some(row) = rows.next()? {
        let id = ConversationId(row.get(0)?);
        change_title(tx, Change::Add, id, &text(row, 1)?)?;
    }
    change_messages(tx, Change::Add, None)?;
    schema::set_meta(tx, "search", &version)
}

fn change_row(
    tx: &Connection,
    change: Change,
    row: i64,
    texts: [&str; 3],
) -> Result<(), StoreError> {
    if texts.iter().all(|text| text.is_empty()) {
        return Ok(());
    }
    let [title, text, attachment] = texts;
    let attachment = &attached_text::readable(attachment);
    let [title, text, attachment] = [title, text, attachment].map(normalize::indexed_text);
    let sql = match change {
        Change::Add => {
            "INSERT INTO search (rowid, title, text, attachment) VALUES (?1, ?2, ?3, ?4)"
        }
        Change::Remove => {
            "INSERT INTO search (search, rowid, title, text, attachment)
             VALUES ('delete', ?1, ?2, ?3, ?4)"
        }
    };
    execute(tx, sql, (row, title, text, attachment)).map(drop)
}
