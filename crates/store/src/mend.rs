//! Makes whole conversations of the rows that were saved from a damaged file.
//!
//! Rule: no saved text is dropped. A message without the one before it follows the nearest that is
//! left; a text whose message is lost comes into a conversation of such texts.

use std::collections::HashMap;

use rusqlite::{Connection, Transaction};

use crate::error::StoreError;

/// What was saved.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Saved {
    pub(crate) n_conversations: u32,
    pub(crate) n_messages: u32,
}

/// The title of the conversation of texts whose messages are lost.
const FOUND_TITLE: &str = "Recovered";

/// A message as far as the tree needs it.
struct Node {
    id: i64,
    conversation: i64,
    parent: Option<i64>,
}

pub(crate) fn mend(target: &mut Connection) -> Result<Saved, StoreError> {
    let tx = target.transaction()?;
    tx.execute_batch(
        "INSERT INTO body (message, text, reasoning, attachment)
         SELECT id, '', '', '' FROM message WHERE id NOT IN (SELECT message FROM body);
         INSERT INTO conversation (id, created_at, updated_at)
         SELECT conversation, min(created_at), max(created_at) FROM message
         WHERE conversation NOT IN (SELECT id FROM conversation) GROUP BY conversation;
         INSERT INTO body (message, text, reasoning, attachment)
         SELECT message, '', '', '' FROM piece WHERE message NOT IN (SELECT message FROM body)
         GROUP BY message;",
    )?;
    adopt_texts(&tx)?;
    // Pieces of an answer that has ended would be there only if its ending were misread.
    tx.execute_batch(
        "UPDATE message SET ending = 'writing'
         WHERE id IN (SELECT message FROM piece) AND ending <> 'writing';
         UPDATE message SET n_chars =
         (SELECT length(text) + length(reasoning) FROM body WHERE message = message.id)
         + coalesce((SELECT sum(length(text)) FROM piece WHERE message = message.id), 0);",
    )?;
    let shown = rebuild_trees(&tx)?;
    for (conversation, leaf) in shown {
        tx.execute(
            "UPDATE conversation SET leaf = ?2 WHERE id = ?1 AND NOT EXISTS
             (SELECT 1 FROM message m WHERE m.id = leaf AND m.conversation = ?1
              AND NOT EXISTS (SELECT 1 FROM message c WHERE c.parent = m.id))",
            (conversation, leaf),
        )?;
    }
    tx.execute_batch(
        "UPDATE conversation SET leaf = NULL
         WHERE id NOT IN (SELECT conversation FROM message);
         UPDATE message SET shown_child = NULL WHERE shown_child IS NOT NULL AND NOT EXISTS
         (SELECT 1 FROM message c WHERE c.id = message.shown_child AND c.parent = message.id);",
    )?;
    let count = |table: &str| {
        tx.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
            row.get(0)
        })
    };
    let saved = Saved {
        n_conversations: count("conversation")?,
        n_messages: count("message")?,
    };
    tx.commit()?;
    Ok(saved)
}

/// Gives texts whose messages are lost a message each, in one conversation, in their old order.
fn adopt_texts(tx: &Transaction<'_>) -> Result<(), StoreError> {
    let lost: Vec<i64> = tx
        .prepare(
            "SELECT message FROM body WHERE message NOT IN (SELECT id FROM message)
             ORDER BY message",
        )?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    if lost.is_empty() {
        return Ok(());
    }
    let latest: i64 = tx.query_row(
        "SELECT coalesce(max(updated_at), 0) FROM conversation",
        [],
        |row| row.get(0),
    )?;
    tx.execute(
        "INSERT INTO conversation (title, created_at, updated_at) VALUES (?1, ?2, ?2)",
        (FOUND_TITLE, latest),
    )?;
    let conversation = tx.last_insert_rowid();
    let mut parent: Option<i64> = None;
    for id in lost {
        // Only answers have figures, failures or thoughts.
        tx.execute(
            "INSERT INTO message
             (id, conversation, parent, depth, speaker, ending, n_chars, created_at)
             SELECT message, ?2, ?3, 1,
                    iif(stats IS NULL AND failure IS NULL AND reasoning = '', 'user', 'assistant'),
                    'stop', 0, ?4
             FROM body WHERE message = ?1",
            (id, conversation, parent, latest),
        )?;
        parent = Some(id);
    }
    Ok(())
}

/// Sets parents that are there, and depths that follow from them; the newest message of each
/// conversation.
fn rebuild_trees(tx: &Transaction<'_>) -> Result<HashMap<i64, i64>, StoreError> {
    let nodes: Vec<Node> = tx
        .prepare("SELECT id, conversation, parent FROM message ORDER BY id")?
        .query_map([], |row| {
            Ok(Node {
                id: row.get(0)?,
                conversation: row.get(1)?,
                parent: row.get(2)?,
            })
        })?
        .collect::<Result<_, _>>()?;
    let mut depths: HashMap<i64, (i64, i64)> = HashMap::new();
    let mut newest: HashMap<i64, i64> = HashMap::new();
    let mut update = tx.prepare("UPDATE message SET parent = ?2, depth = ?3 WHERE id = ?1")?;
    for node in nodes {
        // What follows is always younger than what it follows, so what is not known yet is lost.
        let is_there = |parent: &i64| {
            let conversation = depths.get(parent).map(|(conversation, _)| *conversation);
            conversation == Some(node.conversation)
        };
        let nearest = newest.get(&node.conversation).copied();
        let parent = match node.parent {
            Some(parent) if is_there(&parent) => Some(parent),
            Some(_) => nearest,
            None => None,
        };
        let depth = parent
            .and_then(|parent| depths.get(&parent))
            .map_or(1, |(_, depth)| depth + 1);
        update.execute((node.id, parent, depth))?;
        depths.insert(node.id, (node.conversation, depth));
        newest.insert(node.conversation, node.id);
    }
    Ok(newest)
}
