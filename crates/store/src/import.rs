//! Conversations from files: our own JSON and Markdown, and what other programs write.
//!
//! A conversation that is there already is brought up to date: messages that it lacks are added,
//! and nothing of it changes. So importing a file twice adds nothing the second time.
//!
//! Rule: a file is taken whole or not at all, and a refusal names the place.

use std::collections::{HashMap, HashSet};

use rusqlite::{OptionalExtension, Transaction};
use serde_json::Value;

use crate::conversation::{ConversationId, Ending, MessageId, NewMessage, Timestamp};
use crate::error::StoreError;
use crate::exchange::{Export, FORMAT, Said, Talk, VERSION};
use crate::store::{Flush, Store};
use crate::{foreign, markdown, messages, search, tree};

impl Store {
    /// Takes in an exported file, whichever of the known kinds it is: JSON or Markdown of ours, or
    /// JSON as [`Store::import_json`] says. How many conversations are new or have grown: 0 means
    /// that all was there already.
    ///
    /// # Errors
    ///
    /// [`StoreError::Import`] with the place; nothing was taken then.
    pub fn import(&self, text: &str, now: Timestamp) -> Result<usize, StoreError> {
        let text = text.trim_start_matches('\u{feff}');
        if text.trim_start().starts_with(['{', '[']) {
            self.import_json(text, now)
        } else {
            self.import_markdown(text)
        }
    }

    /// Takes in JSON: what [`Store::export_json`] wrote, `conversations.json` of a ChatGPT export,
    /// or a list of messages with `role` and `content`. `now` dates what has no date of its own.
    /// How many conversations are new or have grown.
    ///
    /// # Errors
    ///
    /// [`StoreError::Import`] with the place; nothing was taken then.
    pub fn import_json(&self, json: &str, now: Timestamp) -> Result<usize, StoreError> {
        let value: Value = parse(json)?;
        let talks = if value.get("format").is_some() {
            drop(value);
            ours(json)?
        } else {
            foreign::talks(value, json, now)?
        };
        self.take(&talks)
    }

    /// Takes in Markdown that [`Store::export_markdown`] wrote. How many conversations are new or
    /// have grown.
    ///
    /// # Errors
    ///
    /// [`StoreError::Import`] with the place; nothing was taken then.
    pub fn import_markdown(&self, text: &str) -> Result<usize, StoreError> {
        self.take(&[markdown::read(text)?])
    }

    fn take(&self, talks: &[Talk]) -> Result<usize, StoreError> {
        self.write(Flush::Now, |tx| {
            let mut n_changed = 0;
            for (index, talk) in talks.iter().enumerate() {
                if take(tx, talk, &format!("conversations[{index}]"))? {
                    n_changed += 1;
                }
            }
            Ok(n_changed)
        })
    }
}

fn ours(json: &str) -> Result<Vec<Talk>, StoreError> {
    #[derive(serde::Deserialize)]
    struct Head {
        format: String,
        version: u32,
    }
    let head: Head = parse(json)?;
    if head.format != FORMAT {
        return Err(refused(
            "format",
            format!("“{}” is no format that Transom knows", head.format),
        ));
    }
    if head.version > VERSION {
        return Err(refused(
            "version",
            format!(
                "it has format {}, and this version of Transom reads up to {VERSION}",
                head.version
            ),
        ));
    }
    Ok(parse::<Export>(json)?.conversations)
}

/// serde_json ends its reasons with the place.
fn parse<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        let reason = error.to_string();
        let end = reason.rfind(" at line ").unwrap_or(reason.len());
        refused(&place, reason[..end].to_string())
    })
}

pub(crate) fn refused(place: &str, problem: String) -> StoreError {
    StoreError::Import {
        place: place.to_string(),
        problem,
    }
}

/// Whether anything was new.
fn take(tx: &Transaction<'_>, talk: &Talk, place: &str) -> Result<bool, StoreError> {
    let existing: Option<i64> = tx
        .prepare_cached("SELECT id FROM conversation WHERE key = ?1")?
        .query_row([&talk.key], |row| row.get(0))
        .optional()?;
    let id = match existing {
        Some(id) => ConversationId(id),
        None => begin(tx, talk)?,
    };
    let mut ids: HashMap<u64, MessageId> = HashMap::new();
    let mut matched: HashSet<MessageId> = HashSet::new();
    let mut has_grown = false;
    for (index, said) in talk.messages.iter().enumerate() {
        let place = format!("{place}.messages[{index}]");
        let parent = match said.parent {
            None => None,
            Some(parent) => Some(*ids.get(&parent).ok_or_else(|| {
                let problem = format!("no message before it has the id {parent}");
                refused(&format!("{place}.parent"), problem)
            })?),
        };
        let same = match existing {
            Some(_) => find_same(tx, id, parent, said, &matched)?,
            None => None,
        };
        let message = match same {
            Some(message) => message,
            None => {
                has_grown = true;
                add(tx, id, parent, said)?
            }
        };
        matched.insert(message);
        if ids.insert(said.id, message).is_some() {
            let problem = format!("another message has the id {}", said.id);
            return Err(refused(&format!("{place}.id"), problem));
        }
    }
    if existing.is_none() {
        show(tx, id, talk, &ids)?;
    } else if has_grown {
        tx.execute(
            "UPDATE conversation SET updated_at = max(updated_at, ?2) WHERE id = ?1",
            (id.0, talk.updated_at),
        )?;
    }
    Ok(existing.is_none() || has_grown)
}

fn begin(tx: &Transaction<'_>, talk: &Talk) -> Result<ConversationId, StoreError> {
    let title = transom_files::visible(&talk.title);
    tx.prepare_cached(
        "INSERT INTO conversation (key, title, is_pinned, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((
        &talk.key,
        &title,
        talk.is_pinned,
        talk.created_at,
        talk.updated_at,
    ))?;
    let id = ConversationId(tx.last_insert_rowid());
    search::index_title(tx, id, &title)?;
    Ok(id)
}

fn add(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    parent: Option<MessageId>,
    said: &Said,
) -> Result<MessageId, StoreError> {
    let message = NewMessage {
        conversation,
        parent,
        speaker: said.speaker,
        text: said.text.clone(),
        attachment: said.attachment.clone(),
        ending: match &said.ending {
            Ending::Writing => Ending::Interrupted,
            ending => ending.clone(),
        },
        model: said.model.clone(),
        created_at: Timestamp(said.created_at),
    };
    messages::insert(tx, &message, &said.reasoning, said.stats.as_deref())
}

/// A message that is there already, unless another of the file was found to be it. Of several that
/// say the same, the one of the same time: what follows it follows no other.
fn find_same(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    parent: Option<MessageId>,
    said: &Said,
    matched: &HashSet<MessageId>,
) -> Result<Option<MessageId>, StoreError> {
    let mut first = None;
    for id in tree::siblings(tx, conversation, parent)? {
        if matched.contains(&id) {
            continue;
        }
        let same = messages::find(tx, id)?.filter(|message| {
            message.speaker == said.speaker
                && message.text == said.text
                && message.reasoning == said.reasoning
                && message.attachment == said.attachment
        });
        match same {
            Some(message) if message.created_at.0 == said.created_at => return Ok(Some(id)),
            Some(_) => first = first.or(Some(id)),
            None => {}
        }
    }
    Ok(first)
}

/// Shows a new conversation as it was shown where it comes from.
fn show(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    talk: &Talk,
    ids: &HashMap<u64, MessageId>,
) -> Result<(), StoreError> {
    let mut first = None;
    for said in &talk.messages {
        match said.parent {
            None if said.is_shown || first.is_none() => first = Some(ids[&said.id]),
            Some(parent) if said.is_shown => {
                tx.prepare_cached("UPDATE message SET shown_child = ?2 WHERE id = ?1")?
                    .execute((ids[&parent].0, ids[&said.id].0))?;
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
