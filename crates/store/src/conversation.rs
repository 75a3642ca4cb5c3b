//! Conversations as trees of messages, of which one path is shown.
//!
//! Editing a question and regenerating add a sibling; only the edited text of a response overwrites
//! the old one. The conversation stores the leaf of the path that is shown.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

/// The id of a conversation. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct ConversationId(#[cfg_attr(feature = "bindings", ts(type = "number"))] pub i64);

/// The id of a message. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct MessageId(#[cfg_attr(feature = "bindings", ts(type = "number"))] pub i64);

/// The first id of conversations and messages in [`crate::Store::temporary`]. No file reaches it.
pub(crate) const FIRST_TEMPORARY_ID: i64 = 1 << 50;

impl ConversationId {
    /// Returns true for a conversation of [`crate::Store::temporary`].
    pub fn is_temporary(self) -> bool {
        self.0 >= FIRST_TEMPORARY_ID
    }
}

impl MessageId {
    /// Returns true for a message of [`crate::Store::temporary`].
    pub fn is_temporary(self) -> bool {
        self.0 >= FIRST_TEMPORARY_ID
    }
}

/// Milliseconds since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Timestamp(#[cfg_attr(feature = "bindings", ts(type = "number"))] pub i64);

/// A conversation without its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Conversation {
    /// The id.
    pub id: ConversationId,
    /// The title; empty until the first question sets it.
    pub title: String,
    /// Whether it is pinned to the top of the list.
    pub is_pinned: bool,
    /// Whether it is archived: not in the list, but found by a search.
    pub is_archived: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its last message was added.
    pub updated_at: Timestamp,
    /// The number of messages on the path that is shown.
    pub n_messages: u32,
}

/// A conversation in search results or in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct FoundConversation {
    /// The conversation.
    pub conversation: Conversation,
    /// The text around the matches; `None` if nothing was searched for, or if the title matches.
    pub snippet: Option<Snippet>,
}

impl From<Conversation> for FoundConversation {
    fn from(conversation: Conversation) -> Self {
        Self {
            conversation,
            snippet: None,
        }
    }
}

/// A piece of a message around the matches of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Snippet {
    /// The message.
    pub message: MessageId,
    /// Pieces of text in order, each with whether it is a match.
    pub pieces: Vec<(String, bool)>,
}

/// The author of a message. The names are those in the database too.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, EnumString, IntoStaticStr,
)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS), ts(rename = "Speaker"))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum MessageRole {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// How a message ended. The names are those in the database too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "ending", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Ending {
    /// The message is still being written. If the program ends first, the next start changes this
    /// to [`Ending::Interrupted`].
    Writing,
    /// Complete. Every message of a user is.
    Stop,
    /// Stopped at the length limit.
    Length,
    /// The user canceled it. The name is that of released versions, in the database and in exports.
    #[serde(rename = "cancelled")]
    #[strum(serialize = "cancelled")]
    Canceled,
    /// Stopped early because the computer was short of memory.
    Shed,
    /// Failed; the text written before stays.
    Failed {
        /// The reason, as JSON of the caller.
        failure: String,
    },
    /// The program ended while the message was being written.
    Interrupted,
}

impl Ending {
    /// Returns the ending with this name in the database. The schema allows no other name.
    pub(crate) fn from_name(name: &str, failure: Option<String>) -> Self {
        match name.parse().unwrap_or(Self::Interrupted) {
            Self::Failed { .. } => Self::Failed {
                failure: failure.unwrap_or_default(),
            },
            ending => ending,
        }
    }

    /// Returns the reason of a failure.
    pub(crate) fn failure(&self) -> Option<&str> {
        match self {
            Self::Failed { failure } => Some(failure),
            _ => None,
        }
    }
}

/// A message with its texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The id.
    pub id: MessageId,
    /// The conversation.
    pub conversation: ConversationId,
    /// The message that this one follows.
    pub parent: Option<MessageId>,
    /// Who wrote it.
    #[serde(rename = "speaker")]
    pub role: MessageRole,
    /// The reasoning of the model before its response; empty for users.
    pub reasoning: String,
    /// The text as Markdown.
    pub text: String,
    /// The [joined](crate::attached_text::join) texts that the user attached; may be empty.
    pub attachment: String,
    /// How it ended.
    pub ending: Ending,
    /// The name of the model that wrote it.
    pub model: Option<String>,
    /// Statistics of the response, as JSON of the caller.
    pub stats: Option<String>,
    /// A summary of all messages up to and including this one; empty if the user removed it.
    pub summary: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// All messages with the same parent, including this one, oldest first.
    pub siblings: Vec<MessageId>,
}

/// The data of a message that the list of a long conversation needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct MessageHead {
    /// The id.
    pub id: MessageId,
    /// Who wrote it.
    #[serde(rename = "speaker")]
    pub role: MessageRole,
    /// The number of characters of text and reasoning, to estimate its height.
    pub n_chars: u32,
}

/// A message to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// The conversation.
    pub conversation: ConversationId,
    /// The message that it follows; `None` for a first message or another version of it.
    pub parent: Option<MessageId>,
    /// Who writes it.
    pub role: MessageRole,
    /// The text so far.
    pub text: String,
    /// The [joined](crate::attached_text::join) texts that the user attached.
    pub attachment: String,
    /// How it ended; [`Ending::Writing`] for a response that begins.
    pub ending: Ending,
    /// The name of the model that writes it.
    pub model: Option<String>,
    /// The current time.
    pub created_at: Timestamp,
}

impl NewMessage {
    /// Creates a complete message of the user without an attachment.
    pub fn from_user(
        conversation: ConversationId,
        parent: Option<MessageId>,
        text: impl Into<String>,
        created_at: Timestamp,
    ) -> Self {
        Self {
            conversation,
            parent,
            role: MessageRole::User,
            text: text.into(),
            attachment: String::new(),
            ending: Ending::Stop,
            model: None,
            created_at,
        }
    }
}
