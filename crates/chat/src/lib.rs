//! The turn: a person's message becomes a request, the growing answer becomes blocks.
//!
//! `turns` asks the supervisor and writes the store; `markdown` turns text into blocks;
//! `update` is what a window is told.
//!
//! Rule: nothing here knows a window. What two shells would both need of a conversation is here.

pub mod block;
pub mod ending;
pub mod failure;
pub mod markdown;
pub mod request;
pub mod title;
pub mod turns;
pub mod update;
mod view;

pub use block::{Block, Change};
pub use failure::Failure;
pub use turns::{Asking, Begun, Happening, Turns, Updates};
pub use update::{AnswerStats, MessageView, Section, Snapshot, Update};
