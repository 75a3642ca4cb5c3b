//! What a window is told of a turn.
//!
//! Whoever follows an answer gets a [`Snapshot`] first and [`Update`]s from there on, so a window
//! that opens in mid-answer, or takes one over, is told the same as the one that asked.

use serde::{Deserialize, Serialize};
use transom_engine::Stats;
use transom_store::{ConversationId, MessageId, MessageRole, Timestamp};

use crate::block::{Block, Change};
use crate::failure::Failure;

/// A message as it is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct MessageView {
    /// Its name.
    pub id: MessageId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// Who wrote it.
    pub speaker: MessageRole,
    /// What the model thought before.
    pub reasoning: Vec<Block>,
    /// What is said.
    pub blocks: Vec<Block>,
    /// The source of `blocks`, for copying and editing.
    pub text: String,
    /// Text that the person took along; empty if none.
    pub attachment: String,
    /// How it ended.
    pub ending: EndingView,
    /// Name of the model that wrote it.
    pub model: Option<String>,
    /// What it took.
    pub stats: Option<AnswerStats>,
    /// When it was begun.
    pub created_at: Timestamp,
    /// Versions of it (edited or answered again), itself included, oldest first.
    pub siblings: Vec<MessageId>,
}

/// How a message ended; [`transom_store::Ending`] with its failure read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "ending", rename_all = "snake_case")]
pub enum EndingView {
    /// It is being written: follow it.
    Writing,
    /// Complete.
    Stop,
    /// Its length limit was reached.
    Length,
    /// The person stopped it.
    Cancelled,
    /// The machine could not afford more of it.
    Shed,
    /// It failed; what was written stays.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// The program ended while it was written.
    Interrupted,
}

/// What an answer took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct AnswerStats {
    /// Tokens in the prompt.
    pub prompt_tokens: u32,
    /// Of these, tokens that were still known from an earlier turn.
    pub cached_tokens: u32,
    /// Tokens generated.
    pub generated_tokens: u32,
    /// From the question to the first token.
    pub time_to_first_token_seconds: f64,
    /// Tokens a second while it was written; `None` for very short answers.
    pub tokens_per_second: Option<f64>,
    /// Messages at the start of the conversation that no longer fitted.
    pub dropped_messages: u32,
    /// The engine's own figures, which know nothing of queues and loads: for whoever measures the
    /// model. Neither kept nor sent.
    #[serde(skip)]
    #[cfg_attr(feature = "bindings", ts(skip))]
    pub of_engine: Option<Stats>,
}

/// Part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// What the model thinks first.
    Reasoning,
    /// The answer proper.
    Answer,
}

/// An answer as far as it is, for whoever begins to follow it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Snapshot {
    /// The message so far.
    pub message: MessageView,
    /// What it does now.
    pub stage: Stage,
}

/// What an answer does before and while it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum Stage {
    /// Others are first, or the machine allows no work (the status says why).
    Waiting {
        /// Asks before it.
        position: u32,
    },
    /// Its model is loaded.
    Loading {
        /// 0 to 1; `None` while other models make room.
        fraction: Option<f32>,
    },
    /// The conversation is read.
    Prefill {
        /// Tokens read.
        done: u32,
        /// Tokens in all.
        total: u32,
    },
    /// Text comes.
    Writing {
        /// Tokens a second of late; `None` at the start.
        tokens_per_second: Option<f32>,
    },
}

/// News of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "update", rename_all = "snake_case")]
pub enum Update {
    /// Always first.
    Snapshot {
        /// The answer so far.
        snapshot: Box<Snapshot>,
    },
    /// It went on without text.
    Stage {
        /// What it does now.
        stage: Stage,
    },
    /// Text came; at most one a repaint.
    Text {
        /// The section that grows.
        section: Section,
        /// How its blocks changed since the last update.
        change: Change,
        /// Tokens a second of late.
        tokens_per_second: Option<f32>,
    },
    /// Always last: the message as it now stands on disk. All of its text was sent before.
    Ended {
        /// The source of the whole answer.
        text: String,
        /// How it ended.
        ending: EndingView,
        /// What it took.
        stats: Option<AnswerStats>,
    },
}
