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
    #[serde(flatten)]
    pub(crate) header: ConversationHeader,
    #[serde(default)]
    pub(crate) settings: ConversationSettings,
    /// The messages; parents come before their children.
    #[serde(default)]
    pub(crate) messages: Vec<ExportedMessage>,
}

/// What a conversation says of itself, in JSON and in Markdown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConversationHeader {
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
    #[serde(flatten)]
    pub(crate) header: MessageHeader,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) attachment: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reasoning: String,
    pub(crate) text: String,
}

/// What a message says of itself besides its texts, in JSON and in Markdown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MessageHeader {
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
}

impl ConversationHeader {
    /// Returns the header of a conversation that is neither pinned nor archived.
    pub(crate) fn new(key: String, title: String, created_at: i64, updated_at: i64) -> Self {
        Self {
            key,
            title,
            is_pinned: false,
            is_archived: false,
            created_at,
            updated_at,
        }
    }
}

impl MessageHeader {
    /// Returns the header of a message that is complete.
    pub(crate) fn ended(role: MessageRole, created_at: i64, model: Option<String>) -> Self {
        Self {
            role,
            created_at,
            ending: Ending::Stop,
            model,
            stats: None,
            summary: None,
        }
    }
}

impl ExportedMessage {
    /// Returns the message number `id` of a list, in which each one follows the one before it.
    pub(crate) fn in_list(id: u64, header: MessageHeader) -> Self {
        Self {
            id,
            parent: (id > 1).then(|| id - 1),
            is_shown: true,
            header,
            attachment: String::new(),
            reasoning: String::new(),
            text: String::new(),
        }
    }
}
