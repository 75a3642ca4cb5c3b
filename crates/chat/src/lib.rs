//! Chat turns: a user's message becomes a request, and the streamed response becomes blocks of
//! HTML.
//!
//! `turns` sends requests to the supervisor and writes to the store. `markdown` renders text as
//! blocks. `update` defines the updates that a window receives.
//!
//! Rule: this crate knows no window. Code that two shells would need for a conversation belongs
//! here.

pub mod block;
pub mod ending;
pub mod failure;
pub mod markdown;
pub mod request;
pub mod routing;
#[cfg(test)]
mod tests;
pub mod title;
pub mod turns;
pub mod update;
mod view;

pub use block::{Block, Change};
pub use failure::{Failure, ModelProblem};
pub use routing::{Route, Routes, Routing};
pub use turns::{StartedTurn, TurnEvent, TurnOptions, Turns, Updates};
pub use update::{AnswerStats, MessageView, Snapshot, SummaryView, Update};
