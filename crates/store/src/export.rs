//! Conversations as files: JSON for everything, Markdown for reading.
//!
//! Rule: what is exported can be imported again. JSON keeps every branch; Markdown keeps the path
//! that is shown.

use rusqlite::Transaction;

use crate::conversation::{ConversationId, Ending, MessageId};
use crate::error::StoreError;
use crate::exchange::{Export, FORMAT, Said, Talk, VERSION};
use crate::store::Store;
use crate::{conversations, markdown, messages};

impl Store {
    /// One conversation, or all of them, with every branch, as JSON that [`Store::import`] takes.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoConversation`] if there is none of that id.
    pub fn export_json(&self, id: Option<ConversationId>) -> Result<String, StoreError> {
        let conversations = self.read(|tx| match id {
            Some(id) => Ok(vec![talk(tx, id)?]),
            None => {
                let ids: Vec<i64> = tx
                    .prepare("SELECT id FROM conversation ORDER BY id")?
                    .query_map([], |row| row.get(0))?
                    .collect::<Result<_, _>>()?;
                ids.into_iter()
                    .map(|id| talk(tx, ConversationId(id)))
                    .collect()
            }
        })?;
        let export = Export {
            format: FORMAT.to_string(),
            version: VERSION,
            conversations,
        };
        let json = serde_json::to_string_pretty(&export);
        Ok(json.expect("texts, numbers and truth values are always JSON") + "\n")
    }

    /// The path that is shown, as Markdown for people that [`Store::import`] takes as well.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoConversation`] if there is none of that id.
    pub fn export_markdown(&self, id: ConversationId) -> Result<String, StoreError> {
        let mut talk = self.read(|tx| talk(tx, id))?;
        // A message whose fork was left for another is not on the path, nor is what follows it.
        let mut on_path = std::collections::HashSet::new();
        talk.messages.retain(|said| {
            let is_on_path =
                said.is_shown && said.parent.is_none_or(|parent| on_path.contains(&parent));
            is_on_path && on_path.insert(said.id)
        });
        Ok(markdown::write(&talk))
    }
}

fn talk(tx: &Transaction<'_>, id: ConversationId) -> Result<Talk, StoreError> {
    let conversation = conversations::find(tx, id)?;
    let (key, leaf): (String, Option<i64>) = tx
        .prepare_cached("SELECT key, leaf FROM conversation WHERE id = ?1")?
        .query_row([id.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let rows: Vec<(i64, Option<i64>)> = tx
        .prepare_cached("SELECT id, shown_child FROM message WHERE conversation = ?1 ORDER BY id")?
        .query_map([id.0], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let numbers: std::collections::HashMap<i64, u64> =
        rows.iter().map(|(id, _)| *id).zip(1..).collect();
    let mut shown: std::collections::HashSet<i64> =
        rows.iter().filter_map(|(_, child)| *child).collect();
    shown.extend(first_on_path(tx, leaf)?);
    let mut said = Vec::with_capacity(rows.len());
    for (id, _) in rows {
        let Some(message) = messages::find(tx, MessageId(id))? else {
            continue;
        };
        said.push(Said {
            id: numbers[&id],
            parent: message.parent.and_then(|parent| {
                // What follows is younger; anything else is damage that nobody has met yet.
                let number = numbers.get(&parent.0).copied();
                number.filter(|number| *number < numbers[&id])
            }),
            is_shown: shown.contains(&id),
            speaker: message.speaker,
            created_at: message.created_at.0,
            ending: match message.ending {
                // Whoever reads the file has only what is in it.
                Ending::Writing => Ending::Interrupted,
                ending => ending,
            },
            model: message.model,
            stats: message.stats,
            attachment: message.attachment,
            reasoning: message.reasoning,
            text: message.text,
        });
    }
    Ok(Talk {
        key,
        title: conversation.title,
        is_pinned: conversation.is_pinned,
        created_at: conversation.created_at.0,
        updated_at: conversation.updated_at.0,
        messages: said,
    })
}

/// The first message of the path to a leaf.
fn first_on_path(tx: &Transaction<'_>, leaf: Option<i64>) -> Result<Option<i64>, StoreError> {
    let Some(leaf) = leaf else {
        return Ok(None);
    };
    Ok(crate::tree::ids_to(tx, MessageId(leaf))?
        .first()
        .map(|id| id.0))
}
