//! Imports conversations from files: our own JSON and Markdown, and formats of other programs.
//!
//! A conversation that exists already is updated: missing messages are added, and nothing is
//! changed. So importing a file twice adds nothing the second time.
//!
//! Rule: a file is imported entirely or not at all, and errors name the place.

use std::collections::{HashMap, HashSet};

use rusqlite::Transaction;
use serde::Deserialize;
use serde_json::Value;

use crate::conversation::{ConversationId, Ending, MessageId, NewMessage, Timestamp};
use crate::error::StoreError;
use crate::export_format::{Export, ExportedConversation, ExportedMessage, FORMAT, check_version};
use crate::search_index::{self, Change};
use crate::store::{Flush, Store, execute};
use crate::{conversations, export, markdown, messages, other_formats, settings, tree};

impl Store {
    /// Imports the output of [`Store::export_json`] or [`Store::export_markdown`],
    /// `conversations.json` of a ChatGPT export, or a JSON list of messages with `role` and
    /// `content`. `now` is the date of everything without a date. Returns how many conversations
    /// are new or have grown; 0 means that everything existed already.
    ///
    /// # Errors
    ///
    /// [`StoreError::Import`] with the place. Nothing was imported.
    pub fn import(&self, text: &str, now: Timestamp) -> Result<usize, StoreError> {
        let text = text.trim_start_matches('\u{feff}');
        let exports = match text.trim_start().starts_with(['{', '[']) {
            true => parse_json(text, now)?,
            false => vec![markdown::read(text)?],
        };
        self.write(Flush::Now, |tx| {
            let mut n_changed = 0;
            for (index, exported) in exports.iter().enumerate() {
                let place = format!("conversations[{index}]");
                n_changed += usize::from(import_conversation(tx, exported, &place)?);
            }
            Ok(n_changed)
        })
    }
}

impl Store {
    /// Copies a conversation with all its branches. The copy is new at `now`, has this title and is
    /// neither pinned nor archived.
    pub fn duplicate(
        &self,
        id: ConversationId,
        title: &str,
        now: Timestamp,
    ) -> Result<ConversationId, StoreError> {
        self.write(Flush::Now, |tx| {
            let original = export::exported_conversation(tx, id)?;
            let copy = ExportedConversation {
                key: tx.query_row("SELECT lower(hex(randomblob(16)))", [], |row| row.get(0))?,
                title: title.trim().to_owned(),
                is_pinned: false,
                is_archived: false,
                created_at: now.0,
                updated_at: now.0,
                ..original
            };
            import_conversation(tx, &copy, "the copy")?;
            let copied = conversations::find_by_key(tx, &copy.key)?;
            copied.ok_or(StoreError::NoConversation(id))
        })
    }
}

fn parse_json(json: &str, now: Timestamp) -> Result<Vec<ExportedConversation>, StoreError> {
    let value: Value = parse(json)?;
    if value.get("format").is_none() {
        return other_formats::conversations(value, json, now);
    }
    let format = value["format"].as_str().unwrap_or_default();
    if format != FORMAT {
        let problem = format!("“{format}” is not a format that Transom knows");
        return Err(StoreError::import("format", problem));
    }
    // A newer format may have other fields.
    if let Ok(version) = u32::deserialize(&value["version"]) {
        check_version(version, "version")?;
    }
    drop(value);
    Ok(parse::<Export>(json)?.conversations)
}

/// Parses JSON. Removes the place that serde_json appends to its messages, because the error has it
/// separately.
fn parse<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        let reason = error.to_string();
        let end = reason.rfind(" at line ").unwrap_or(reason.len());
        StoreError::import(&place, &reason[..end])
    })
}

/// Imports a conversation. Returns true if anything was new.
fn import_conversation(
    tx: &Transaction<'_>,
    exported: &ExportedConversation,
    place: &str,
) -> Result<bool, StoreError> {
    let existing = conversations::find_by_key(tx, &exported.key)?;
    let id = match existing {
        Some(id) => id,
        None => create_conversation(tx, exported)?,
    };
    let mut ids: HashMap<u64, MessageId> = HashMap::new();
    let mut matched: HashSet<MessageId> = HashSet::new();
    let mut has_grown = false;
    for (index, exported_message) in exported.messages.iter().enumerate() {
        let place = format!("{place}.messages[{index}]");
        let parent = match exported_message.parent {
            None => None,
            Some(parent) => Some(*ids.get(&parent).ok_or_else(|| {
                let problem = format!("no message before it has the id {parent}");
                StoreError::import(&format!("{place}.parent"), problem)
            })?),
        };
        let same = match existing {
            Some(_) => find_existing(tx, id, parent, exported_message, &matched)?,
            None => None,
        };
        let message = match same {
            Some(message) => message,
            None => {
                has_grown = true;
                add_message(tx, id, parent, exported_message)?
            }
        };
        matched.insert(message);
        if ids.insert(exported_message.id, message).is_some() {
            let problem = format!("another message has the id {}", exported_message.id);
            return Err(StoreError::import(&format!("{place}.id"), problem));
        }
    }
    if existing.is_none() {
        show(tx, id, exported, &ids)?;
    } else if has_grown {
        tx.execute(
            "UPDATE conversation SET updated_at = max(updated_at, ?2) WHERE id = ?1",
            (id.0, exported.updated_at),
        )?;
    }
    Ok(existing.is_none() || has_grown)
}

fn create_conversation(
    tx: &Transaction<'_>,
    exported: &ExportedConversation,
) -> Result<ConversationId, StoreError> {
    let title = transom_files::visible(&exported.title);
    let values = (
        &exported.key,
        &title,
        exported.is_pinned,
        exported.is_archived,
        exported.created_at,
        exported.updated_at,
    );
    let sql =
        "INSERT INTO conversation (key, title, is_pinned, is_archived, created_at, updated_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    execute(tx, sql, values)?;
    let id = ConversationId(tx.last_insert_rowid());
    let (settings, _) = exported.settings.checked();
    settings::conversation::write(tx, id, &settings)?;
    search_index::change_title(tx, Change::Add, id, &title)?;
    Ok(id)
}

fn add_message(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    parent: Option<MessageId>,
    exported_message: &ExportedMessage,
) -> Result<MessageId, StoreError> {
    let message = NewMessage {
        conversation,
        parent,
        role: exported_message.role,
        text: exported_message.text.clone(),
        attachment: exported_message.attachment.clone(),
        ending: match &exported_message.ending {
            Ending::Writing => Ending::Interrupted,
            ending => ending.clone(),
        },
        model: exported_message.model.clone(),
        created_at: Timestamp(exported_message.created_at),
    };
    messages::insert(
        tx,
        &message,
        &exported_message.reasoning,
        exported_message.stats.as_deref(),
        exported_message.summary.as_deref(),
    )
}

/// Returns the existing message that equals the imported one and was not matched before. Of
/// several, the one with the same time is preferred, because its children follow no other message.
fn find_existing(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    parent: Option<MessageId>,
    exported_message: &ExportedMessage,
    matched: &HashSet<MessageId>,
) -> Result<Option<MessageId>, StoreError> {
    let mut first = None;
    for id in tree::siblings(tx, conversation, parent)? {
        if matched.contains(&id) {
            continue;
        }
        let same = messages::find(tx, id)?.filter(|message| {
            message.role == exported_message.role
                && message.text == exported_message.text
                && message.reasoning == exported_message.reasoning
                && message.attachment == exported_message.attachment
        });
        match same {
            Some(message) if message.created_at.0 == exported_message.created_at => {
                return Ok(Some(id));
            }
            Some(_) => first = first.or(Some(id)),
            None => {}
        }
    }
    Ok(first)
}

/// Shows the same path of a new conversation that the exporting program showed.
fn show(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    exported: &ExportedConversation,
    ids: &HashMap<u64, MessageId>,
) -> Result<(), StoreError> {
    let mut first = None;
    for exported_message in &exported.messages {
        match exported_message.parent {
            None if exported_message.is_shown || first.is_none() => {
                first = Some(ids[&exported_message.id])
            }
            Some(parent) if exported_message.is_shown => {
                let shown = (ids[&parent].0, ids[&exported_message.id].0);
                execute(tx, tree::SET_SHOWN_CHILD, shown)?;
            }
            _ => {}
        }
    }
    let Some(first) = first else {
        return Ok(());
    };
    let leaf = tree::leaf_below(tx, first)?;
    tree::show(tx, conversation, leaf)
}
