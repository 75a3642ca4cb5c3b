//! The stream of one ask, from where the supervisor writes to where a shell reads.
//!
//! Rule: writing never waits. A reader that lags gets consecutive texts of a section joined and
//! only the latest progress, so what waits for it is never more than the answer itself.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use transom_engine::{FinishReason, LoadProgress, ModelInfo, Stats, TokenEvent};

use crate::request::AskError;

/// One step in the life of an ask. [`AnswerEvent::Ended`] is always the last, and comes once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum AnswerEvent {
    /// It waits; told again whenever its position changes.
    Queued {
        /// Asks before it, the running one included.
        position: usize,
        /// Why nothing is answered at present, in one sentence; `None` when others are just first.
        held: Option<String>,
    },
    /// Its model is being loaded.
    Loading {
        /// How far; `None` while older models make room or its files are read.
        progress: Option<LoadProgress>,
    },
    /// It goes on. Never carries [`TokenEvent::Finished`].
    Token {
        /// What happened.
        event: TokenEvent,
    },
    /// It is over.
    Ended {
        /// How.
        outcome: Outcome,
    },
}

/// How an ask ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// [`crate::Work::Load`]: the model is loaded.
    Loaded {
        /// What it is.
        info: Box<ModelInfo>,
    },
    /// [`crate::Work::Generate`]: the answer is complete, or was ended early for `reason`.
    Finished {
        /// Why it ended. Cancelled while still waiting: [`FinishReason::Cancelled`] with empty
        /// figures.
        reason: FinishReason,
        /// What it took.
        stats: Stats,
    },
    /// There is no result, or only what was streamed so far.
    Failed {
        /// Why.
        error: AskError,
    },
}
