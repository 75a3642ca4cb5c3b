//! Conversations as they leave and enter: the format of exported files.
//!
//! Rule: the format has a version, and a file of version 1 stays readable. Fields may be added;
//! whoever reads passes over those that it does not know.

use serde::{Deserialize, Serialize};

use crate::conversation::{Ending, Speaker};

/// What tells our files from others.
pub(crate) const FORMAT: &str = "transom-conversations";
/// The version that is written, and the latest that is read.
pub(crate) const VERSION: u32 = 1;

/// A whole file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Export {
    pub(crate) format: String,
    pub(crate) version: u32,
    pub(crate) conversations: Vec<Talk>,
}

/// A conversation with all its branches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Talk {
    /// Names it everywhere, so that it is not taken in twice.
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) is_pinned: bool,
    /// Milliseconds since 1970.
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    /// What follows comes after what it follows.
    #[serde(default)]
    pub(crate) messages: Vec<Said>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Said {
    /// Its number in this conversation of this file.
    pub(crate) id: u64,
    /// The number of the message that it follows.
    #[serde(default)]
    pub(crate) parent: Option<u64>,
    /// Of the messages that follow the same one, this was last shown.
    #[serde(default)]
    pub(crate) is_shown: bool,
    pub(crate) speaker: Speaker,
    pub(crate) created_at: i64,
    #[serde(flatten)]
    pub(crate) ending: Ending,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) attachment: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reasoning: String,
    pub(crate) text: String,
}
