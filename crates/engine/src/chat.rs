//! A conversation as chat templates see it.

use serde::{Deserialize, Serialize};

/// The author of a message. Serialized in the spelling that chat templates use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions to the model.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// Returns the spelling that chat templates use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text.
    pub content: String,
}

impl Message {
    /// Creates a message.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
        }
    }
}

/// A conversation that the model continues.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ChatPrompt {
    /// Messages, oldest first; the last one is usually the user's.
    pub messages: Vec<Message>,
    /// Turns reasoning on or off, in models that can do both; `None` uses the template's default.
    pub enable_thinking: Option<bool>,
    /// Tool definitions in the JSON schema form that templates expect.
    pub tools: Vec<serde_json::Value>,
    /// The last message is an unfinished one of the model, and the response continues its text.
    #[serde(default)]
    pub continue_final_message: bool,
}

impl ChatPrompt {
    /// Returns the unfinished message that the response continues.
    pub(crate) fn unfinished_message(&self) -> Option<&Message> {
        self.messages.last().filter(|_| self.continue_final_message)
    }
}
