//! Conversations as a tree of messages, of which one path is shown.
//!
//! Editing and regenerating add a sibling; nothing is overwritten. The conversation remembers the
//! leaf of the path that is shown.

use serde::{Deserialize, Serialize};

/// Names a conversation. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct ConversationId(#[cfg_attr(feature = "bindings", ts(type = "number"))] pub i64);

/// Names a message. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct MessageId(#[cfg_attr(feature = "bindings", ts(type = "number"))] pub i64);

/// Milliseconds since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Timestamp(#[cfg_attr(feature = "bindings", ts(type = "number"))] pub i64);

/// A conversation, without its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Conversation {
    /// Its name.
    pub id: ConversationId,
    /// Title for people; empty until the first question gave it one.
    pub title: String,
    /// Kept at the top.
    pub is_pinned: bool,
    /// When it began.
    pub created_at: Timestamp,
    /// When something was last said in it.
    pub updated_at: Timestamp,
    /// Messages on the path that is shown.
    pub n_messages: u32,
}

/// A conversation that a search found, or one of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct FoundConversation {
    /// Which.
    pub conversation: Conversation,
    /// Where the words were found; `None` in a list that was not searched for, or when the title
    /// has them.
    pub snippet: Option<Snippet>,
}

/// A piece of a message around the words that were searched for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Snippet {
    /// Of which message.
    pub message: MessageId,
    /// Pieces of text in order, each with whether it is one of the words.
    pub pieces: Vec<(String, bool)>,
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// How a message ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "ending", rename_all = "snake_case")]
pub enum Ending {
    /// It is being written. One that a program left so is [`Ending::Interrupted`] when the store is
    /// next opened.
    Writing,
    /// Complete; every message of a person is.
    Stop,
    /// Its length limit was reached.
    Length,
    /// The person stopped it.
    Cancelled,
    /// The machine could not afford more of it.
    Shed,
    /// It failed; what was written stays.
    Failed {
        /// Why, as JSON of whoever asked for it.
        failure: String,
    },
    /// The program ended while it was written.
    Interrupted,
}

/// One message, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its name.
    pub id: MessageId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// The message that it follows.
    pub parent: Option<MessageId>,
    /// Who wrote it.
    pub speaker: Speaker,
    /// What the model thought before; empty for people.
    pub reasoning: String,
    /// What is said, as Markdown.
    pub text: String,
    /// Text that the person took along with it, such as a selection; empty if none.
    pub attachment: String,
    /// How it ended.
    pub ending: Ending,
    /// Name of the model that wrote it.
    pub model: Option<String>,
    /// Figures of the answer, as JSON of whoever asked for it.
    pub stats: Option<String>,
    /// When it was begun.
    pub created_at: Timestamp,
    /// Messages with the same parent, itself included, oldest first.
    pub siblings: Vec<MessageId>,
}

/// What a long conversation's list needs of each message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct MessageHead {
    /// Its name.
    pub id: MessageId,
    /// Who wrote it.
    pub speaker: Speaker,
    /// Characters of text and reasoning, for a guess at its height.
    pub n_chars: u32,
}

/// A message to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Its conversation.
    pub conversation: ConversationId,
    /// The message that it follows; `None` begins the conversation, or a branch of its beginning.
    pub parent: Option<MessageId>,
    /// Who writes it.
    pub speaker: Speaker,
    /// What is said so far.
    pub text: String,
    /// What the person takes along.
    pub attachment: String,
    /// How it ended; [`Ending::Writing`] for an answer that begins.
    pub ending: Ending,
    /// Name of the model that writes it.
    pub model: Option<String>,
    /// Now.
    pub created_at: Timestamp,
}

impl NewMessage {
    /// What a person says, whole and with nothing taken along.
    pub fn said(
        conversation: ConversationId,
        parent: Option<MessageId>,
        text: impl Into<String>,
        created_at: Timestamp,
    ) -> Self {
        Self {
            conversation,
            parent,
            speaker: Speaker::User,
            text: text.into(),
            attachment: String::new(),
            ending: Ending::Stop,
            model: None,
            created_at,
        }
    }
}
