//! Settings of single conversations, which replace those of the model.

use rusqlite::{Row, Transaction};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{EnumString, IntoStaticStr};

use super::fields;
use crate::conversation::{ConversationId, Timestamp};
use crate::error::StoreError;
use crate::setting_issue::SettingIssue;
use crate::store::{Flush, Store, execute, optional_text, query_one};

/// Settings of one conversation. `None` means the current model and what its settings say.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(default)]
pub struct ConversationSettings {
    /// The id of the model that responds.
    pub model: Option<String>,
    /// Instructions at the start of the conversation.
    pub instructions: Option<String>,
    /// 0 to 2.
    pub temperature: Option<f32>,
    /// The context length in tokens.
    pub context_length: Option<u32>,
    /// Whether a model that can reason does so.
    pub thinking: Option<bool>,
    /// What happens when the conversation outgrows its context.
    pub overflow: Overflow,
}

/// What happens when a conversation outgrows its context.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, EnumString, IntoStaticStr,
)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Overflow {
    /// The model no longer gets the oldest exchanges. They stay in the history.
    #[default]
    DropOldest,
    /// The response fails, so that the user decides.
    Stop,
    /// As [`Overflow::DropOldest`], and the model gets a summary of these exchanges, which it writes
    /// afterwards.
    Summarize,
}

impl ConversationSettings {
    /// Returns the valid values, and the issues of the others.
    pub(crate) fn checked(&self) -> (Self, Vec<SettingIssue>) {
        checked(&self.to_value())
    }

    fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Store {
    /// Creates an empty conversation without a title that has these settings.
    ///
    /// # Errors
    ///
    /// As [`Store::set_conversation_settings`].
    pub fn create_conversation_with(
        &self,
        now: Timestamp,
        settings: &ConversationSettings,
    ) -> Result<ConversationId, StoreError> {
        let settings = valid(&settings.to_value())?;
        self.write(Flush::Later, |tx| {
            let sql = "INSERT INTO conversation (created_at, updated_at) VALUES (?1, ?1)";
            execute(tx, sql, [now.0])?;
            let id = ConversationId(tx.last_insert_rowid());
            write(tx, id, &settings)?;
            Ok(id)
        })
    }

    /// Returns the settings of a conversation.
    pub fn conversation_settings(
        &self,
        id: ConversationId,
    ) -> Result<ConversationSettings, StoreError> {
        self.read(|tx| find(tx, id))
    }

    /// Changes settings of a conversation with a JSON merge patch (RFC 7396). `null` resets a field
    /// to its default.
    ///
    /// # Errors
    ///
    /// [`StoreError::Setting`] with the field and its allowed values. Nothing was changed.
    pub fn set_conversation_settings(
        &self,
        id: ConversationId,
        patch: &Value,
    ) -> Result<(), StoreError> {
        self.write(Flush::Now, |tx| {
            let mut settings = find(tx, id)?.to_value();
            json_patch::merge(&mut settings, patch);
            write(tx, id, &valid(&settings)?)
        })
    }

    /// Sets the model of a conversation that has none.
    pub fn set_model_if_unset(&self, id: ConversationId, model: &str) -> Result<(), StoreError> {
        self.write(Flush::Later, |tx| {
            let sql = "UPDATE conversation SET model = ?2 WHERE id = ?1 AND model IS NULL";
            execute(tx, sql, (id.0, model)).map(drop)
        })
    }
}

/// As [`ConversationSettings::checked`].
fn checked(settings: &Value) -> (ConversationSettings, Vec<SettingIssue>) {
    let (valid, issues) = fields::valid_conversation(settings);
    (serde_json::from_value(valid).unwrap_or_default(), issues)
}

fn valid(settings: &Value) -> Result<ConversationSettings, StoreError> {
    let (settings, issues) = checked(settings);
    match issues.into_iter().next() {
        Some(issue) => Err(StoreError::Setting(issue)),
        None => Ok(settings),
    }
}

pub(crate) fn find(
    tx: &Transaction<'_>,
    id: ConversationId,
) -> Result<ConversationSettings, StoreError> {
    let sql = "SELECT model, instructions, temperature, context_length, thinking, overflow
               FROM conversation WHERE id = ?1";
    query_one(tx, sql, [id.0], read)?.ok_or(StoreError::NoConversation(id))
}

pub(crate) fn write(
    tx: &Transaction<'_>,
    id: ConversationId,
    settings: &ConversationSettings,
) -> Result<(), StoreError> {
    let values = (
        id.0,
        &settings.model,
        &settings.instructions,
        settings.temperature,
        settings.context_length,
        settings.thinking,
        overflow_name(settings.overflow),
    );
    let sql = "UPDATE conversation SET model = ?2, instructions = ?3, temperature = ?4,
                      context_length = ?5, thinking = ?6, overflow = ?7 WHERE id = ?1";
    let n = execute(tx, sql, values)?;
    (n > 0).then_some(()).ok_or(StoreError::NoConversation(id))
}

fn read(row: &Row<'_>) -> rusqlite::Result<ConversationSettings> {
    let context_length: Option<i64> = row.get(3)?;
    let overflow = optional_text(row, 5)?.and_then(|name| name.parse().ok());
    Ok(ConversationSettings {
        model: optional_text(row, 0)?,
        instructions: optional_text(row, 1)?,
        temperature: row.get(2)?,
        context_length: context_length.and_then(|tokens| u32::try_from(tokens).ok()),
        thinking: row.get(4)?,
        overflow: overflow.unwrap_or_default(),
    })
}

fn overflow_name(overflow: Overflow) -> Option<&'static str> {
    (overflow != Overflow::default()).then(|| overflow.into())
}
