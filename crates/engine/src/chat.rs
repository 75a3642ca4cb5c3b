//! A conversation, as chat templates see it.

use serde::{Deserialize, Serialize};

/// Who speaks. Serialised in the spelling that chat templates compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions to the model.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// The spelling that chat templates compare with.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message of `role`.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
        }
    }
}

/// A conversation to be continued by the model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ChatPrompt {
    /// Turns, oldest first; the last is usually the user's.
    pub messages: Vec<Message>,
    /// Asks models that can reason first to do so or not; `None` leaves it to the template.
    pub enable_thinking: Option<bool>,
    /// Tool definitions in the JSON schema form that templates expect.
    pub tools: Vec<serde_json::Value>,
}
