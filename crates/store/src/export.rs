//! Exports conversations: JSON with everything, Markdown for reading.
//!
//! Rule: every export to a file can be imported again. JSON has all branches; Markdown has the path
//! that is shown.

use std::collections::{HashMap, HashSet};

use rusqlite::Transaction;

use crate::conversation::{ConversationId, Ending, MessageId};
use crate::error::StoreError;
use crate::export_format::{Export, ExportedConversation, ExportedMessage, FORMAT, VERSION};
use crate::store::{Store, query_all};
use crate::{conversations, markdown, messages, settings, tree};

impl Store {
    /// Exports one conversation, or all of them, with all branches, as JSON that [`Store::import`]
    /// reads.
    pub fn export_json(&self, id: Option<ConversationId>) -> Result<String, StoreError> {
        let conversations = self.read(|tx| match id {
            Some(id) => Ok(vec![exported_conversation(tx, id)?]),
            None => {
                let sql = "SELECT id FROM conversation ORDER BY id";
                let ids = query_all(tx, sql, [], |row| row.get(0).map(ConversationId))?;
                ids.into_iter()
                    .map(|id| exported_conversation(tx, id))
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

    /// Returns the path that is shown as Markdown to paste elsewhere, which cannot be imported.
    pub fn readable_markdown(&self, id: ConversationId) -> Result<String, StoreError> {
        Ok(markdown::without_markers(&self.export_markdown(id)?))
    }

    /// Exports the path that is shown as readable Markdown, which [`Store::import`] reads too.
    pub fn export_markdown(&self, id: ConversationId) -> Result<String, StoreError> {
        let mut exported = self.read(|tx| exported_conversation(tx, id))?;
        // If another branch is shown at a fork, this message and all that follow it are not on the
        // path.
        let mut on_path = HashSet::new();
        exported.messages.retain(|message| {
            let is_on_path = message.is_shown
                && message
                    .parent
                    .is_none_or(|parent| on_path.contains(&parent));
            is_on_path && on_path.insert(message.id)
        });
        Ok(markdown::write(&exported))
    }
}

pub(crate) fn exported_conversation(
    tx: &Transaction<'_>,
    id: ConversationId,
) -> Result<ExportedConversation, StoreError> {
    let conversation = conversations::find(tx, id)?;
    let (key, leaf): (String, Option<i64>) = tx
        .prepare_cached("SELECT key, leaf FROM conversation WHERE id = ?1")?
        .query_row([id.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let sql = "SELECT id, shown_child FROM message WHERE conversation = ?1 ORDER BY id";
    let rows: Vec<(i64, Option<i64>)> =
        query_all(tx, sql, [id.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let numbers: HashMap<i64, u64> = rows.iter().map(|(id, _)| *id).zip(1..).collect();
    let mut shown: HashSet<i64> = rows.iter().filter_map(|(_, child)| *child).collect();
    if let Some(leaf) = leaf {
        let path = tree::ids_to(tx, MessageId(leaf))?;
        shown.extend(path.first().map(|first| first.0));
    }
    let mut exported_messages = Vec::with_capacity(rows.len());
    for (id, _) in rows {
        let Some(message) = messages::find(tx, MessageId(id))? else {
            continue;
        };
        exported_messages.push(ExportedMessage {
            id: numbers[&id],
            parent: message.parent.and_then(|parent| {
                // A child always has a higher number than its parent. Anything else is damage that
                // was not found yet.
                let number = numbers.get(&parent.0).copied();
                number.filter(|number| *number < numbers[&id])
            }),
            is_shown: shown.contains(&id),
            role: message.role,
            created_at: message.created_at.0,
            ending: match message.ending {
                // An exported message does not continue to grow.
                Ending::Writing => Ending::Interrupted,
                ending => ending,
            },
            model: message.model,
            stats: message.stats,
            summary: message.summary,
            attachment: message.attachment,
            reasoning: message.reasoning,
            text: message.text,
        });
    }
    Ok(ExportedConversation {
        key,
        title: conversation.title,
        is_pinned: conversation.is_pinned,
        is_archived: conversation.is_archived,
        created_at: conversation.created_at.0,
        updated_at: conversation.updated_at.0,
        settings: settings::conversation::find(tx, id)?,
        messages: exported_messages,
    })
}
