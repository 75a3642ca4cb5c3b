//! What survives a restart: conversations and settings, in one SQLite file of the data folder.
//!
//! Calls block; none takes longer than a disk. The caller gives the time, and decides nothing about
//! what is kept: it is whole on disk when a call returns.
//!
//! Rule: this room imports no other room. Failures of answers and figures are JSON to it.

mod backup;
mod conversations;
mod error;
mod examine;
mod exchange;
mod export;
mod fold;
mod foreign;
mod import;
mod markdown;
mod messages;
mod notice;
mod open;
mod recovery;
mod schema;
mod search;
mod snippet;
mod store;
mod tree;

pub mod conversation;
pub mod settings;

pub use conversation::{
    Conversation, ConversationId, Ending, FoundConversation, Message, MessageHead, MessageId,
    NewMessage, Snippet, Speaker, Timestamp,
};
pub use error::StoreError;
pub use notice::{Notice, Opened};
pub use settings::{
    Appearance, Behaviour, General, KvCache, ModelSettings, SavedPrompt, SettingIssue, Settings,
};
pub use store::Store;
