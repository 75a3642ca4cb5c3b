//! A stored message, for the tests of this crate.

use transom_store::{ConversationId, Ending, Message, MessageId, MessageRole, Timestamp};

/// Returns a complete message without attachment, reasoning and statistics.
pub(crate) fn message(role: MessageRole, text: &str) -> Message {
    Message {
        id: MessageId(1),
        conversation: ConversationId(1),
        parent: None,
        role,
        reasoning: String::new(),
        text: text.to_owned(),
        attachment: String::new(),
        ending: Ending::Stop,
        model: None,
        stats: None,
        summary: None,
        created_at: Timestamp(0),
        siblings: Vec::new(),
    }
}
