//! The updates that a window receives about a turn.
//!
//! A follower gets a [`Snapshot`] first and then [`Update`]s, so a window that opens in the middle
//! of a response gets the same as the one that sent the request.

use serde::{Deserialize, Serialize};
use transom_engine::{Route, Section, Stats};
use transom_store::{AttachedText, ConversationId, MessageId, MessageRole, Timestamp};

use crate::block::{Block, Change};
use crate::failure::Failure;

/// A message for display.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct MessageView {
    /// The id.
    pub id: MessageId,
    /// The conversation that it belongs to.
    pub conversation: ConversationId,
    /// Who wrote it.
    pub speaker: MessageRole,
    /// The model's reasoning before the answer.
    pub reasoning: Vec<Block>,
    /// The rendered text.
    pub blocks: Vec<Block>,
    /// The source of `blocks`, for copying and editing.
    pub text: String,
    /// Texts that the user attached.
    pub attachments: Vec<AttachedText>,
    /// How it ended.
    pub ending: EndingView,
    /// Name of the model that wrote it; of several, if another one continued it.
    pub model: Option<String>,
    /// Statistics of the response.
    pub stats: Option<AnswerStats>,
    /// When it was created.
    pub created_at: Timestamp,
    /// Versions of this message (edited or regenerated), including itself, oldest first.
    pub siblings: Vec<MessageId>,
}

/// A summary of the beginning of a conversation, which the model gets in place of dropped messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct SummaryView {
    /// The last message that it covers. It covers all messages before that one, too.
    pub last: MessageId,
    /// The text; empty if there is none yet.
    pub text: String,
    /// The rendered text.
    pub blocks: Vec<Block>,
    /// The model is writing it, in place of `text`.
    pub is_writing: bool,
    /// Why the last attempt to write it failed.
    pub failure: Option<Failure>,
}

/// How a message ended: [`transom_store::Ending`] with its failure parsed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "ending", rename_all = "snake_case")]
pub enum EndingView {
    /// It is being written. Follow it.
    Writing,
    /// Complete.
    Stop,
    /// Stopped at the length limit.
    Length,
    /// The user stopped it.
    Canceled,
    /// The system stopped it, because resources were critically low.
    #[serde(rename = "shed")]
    OutOfResources,
    /// It failed. The text so far is kept.
    Failed {
        /// The reason.
        failure: Failure,
    },
    /// The program quit while it was being written.
    Interrupted,
}

/// Statistics of a response.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct AnswerStats {
    /// Tokens in the prompt.
    pub prompt_tokens: u32,
    /// Prompt tokens that were cached from an earlier turn.
    pub cached_tokens: u32,
    /// Tokens generated.
    pub generated_tokens: u32,
    /// Time from the question to the first token.
    pub time_to_first_token_seconds: f64,
    /// Tokens per second while decoding; `None` for very short responses.
    pub tokens_per_second: Option<f64>,
    /// Messages at the start of the conversation that were left out of the prompt.
    pub dropped_messages: u32,
    /// The context length that the user had chosen, or a lower one while memory or power was short;
    /// `None` if it was automatic.
    pub context_length: Option<u32>,
    /// The route of the question.
    #[serde(default)]
    pub route: Route,
    /// The request had only a part of the earlier messages, because of its route.
    #[serde(default)]
    pub is_partial: bool,
    /// The engine's own statistics, without time for queueing and loading, for measuring the model.
    /// Neither stored nor sent.
    #[serde(skip)]
    #[cfg_attr(feature = "bindings", ts(skip))]
    pub engine: Option<Stats>,
}

/// A response so far, for a new follower.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Snapshot {
    /// The message so far.
    pub message: MessageView,
    /// The current stage.
    pub stage: Stage,
}

/// The stage of a response before and while it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum Stage {
    /// Queued behind other requests, or the machine allows no work (see the status for the reason).
    Waiting {
        /// Requests before it in the queue.
        position: u32,
    },
    /// Its model is loading.
    Loading {
        /// 0 to 1; `None` while other models are being unloaded.
        fraction: Option<f32>,
    },
    /// The prompt is being processed (prefill).
    Prefill {
        /// Tokens processed.
        done: u32,
        /// Tokens in total.
        total: u32,
    },
    /// Text is arriving.
    Writing {
        /// Current tokens per second; `None` at the start.
        tokens_per_second: Option<f32>,
    },
}

/// An update about a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "update", rename_all = "snake_case")]
pub enum Update {
    /// Always first.
    Snapshot {
        /// The response so far.
        snapshot: Box<Snapshot>,
    },
    /// The stage changed without new text.
    Stage {
        /// The current stage.
        stage: Stage,
    },
    /// New text. At most one per repaint.
    Text {
        /// The section that grew.
        section: Section,
        /// The blocks that changed since the last update.
        change: Change,
        /// Current tokens per second.
        tokens_per_second: Option<f32>,
    },
    /// Always last: the message as stored on disk. All of its text was sent before.
    Ended {
        /// The source of the whole answer.
        text: String,
        /// How it ended.
        ending: EndingView,
        /// The name of the model that wrote it, or of all models that did.
        model: Option<String>,
        /// Statistics of the response.
        stats: Option<Box<AnswerStats>>,
    },
}
