//! The format of exported files.
//!
//! Rule: the format has a version, and files of version 1 stay readable. Fields may be added;
//! readers ignore unknown fields.

use serde::{Deserialize, Serialize};

use crate::conversation::{Ending, MessageRole};
use crate::error::StoreError;
use crate::settings::ConversationSettings;

/// Identifies our files.
pub(crate) const FORMAT: &str = "transom-conversations";
/// The version that is written, and the newest one that is read.
pub(crate) const VERSION: u32 = 1;

/// Refuses a newer format.
pub(crate) fn check_version(version: u32, place: &str) -> Result<(), StoreError> {
    if version <= VERSION {
        return Ok(());
    }
    let problem =
        format!("it has format {version}, and this version of Transom reads up to {VERSION}");
    Err(StoreError::import(place, problem))
}

/// An exported file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Export {
    pub(crate) format: String,
    pub(crate) version: u32,
    pub(crate) conversations: Vec<ExportedConversation>,
}

/// A conversation with all its branches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExportedConversation {
    /// The globally unique key, so that a conversation is not imported twice.
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) is_pinned: bool,
    #[serde(default)]
    pub(crate) is_archived: bool,
    /// Milliseconds since 1970.
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    #[serde(default)]
    pub(crate) settings: ConversationSettings,
    /// The messages; parents come before their children.
    #[serde(default)]
    pub(crate) messages: Vec<ExportedMessage>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExportedMessage {
    /// The number of the message in this conversation of this file.
    pub(crate) id: u64,
    /// The number of the message that it follows.
    #[serde(default)]
    pub(crate) parent: Option<u64>,
    /// True for the message that was last shown among those with the same parent.
    #[serde(default)]
    pub(crate) is_shown: bool,
    #[serde(rename = "speaker")]
    pub(crate) role: MessageRole,
    pub(crate) created_at: i64,
    #[serde(flatten)]
    pub(crate) ending: Ending,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) attachment: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reasoning: String,
    pub(crate) text: String,
}
