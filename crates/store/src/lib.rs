//! Stores conversations and settings in one SQLite file in the data folder.
//!
//! Calls block, but not longer than the disk takes. The caller passes the time. When a call
//! returns, its change is completely on the disk.
//!
//! Rule: this crate imports no other crate but `files`. Failures and statistics of responses are
//! JSON strings here.

mod backup;
mod check;
mod conversations;
mod deletion;
mod error;
mod exchange;
mod export;
mod export_format;
mod import;
mod markdown;
mod messages;
mod normalize;
mod notice;
mod open;
mod other_formats;
mod private_files;
mod recovery;
mod schema;
mod search;
mod search_index;
mod setting_issue;
mod snippet;
mod store;
mod summaries;
mod tree;

pub mod attached_text;
pub mod conversation;
pub mod settings;

pub use attached_text::AttachedText;
pub use conversation::{
    Conversation, ConversationId, Ending, FoundConversation, Message, MessageHead, MessageId,
    MessageRole, NewMessage, Snippet, Timestamp,
};
pub use error::{StoreError, StoreErrorKind};
pub use notice::{Notice, Opened};
pub use setting_issue::SettingIssue;
pub use settings::{
    Appearance, Assistant, Behavior, ConversationSettings, General, KvCache, LocalApi,
    ModelSettings, Overflow, RouteChanges, RouteThinking, SavedPrompt, Settings,
};
pub use store::Store;
