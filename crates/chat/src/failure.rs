//! Why a turn failed, by what a window can offer.

use serde::{Deserialize, Serialize};

/// A failed turn. Windows put it into the user's language by its code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Failure {
    /// The engine's process ended; try again.
    EngineCrashed,
    /// The model does not fit the memory: choose a smaller context, another model, or insist.
    TooLarge {
        /// What it needs.
        need_bytes: u64,
        /// What models may use now.
        budget_bytes: u64,
        /// A context length with which it would fit.
        context_that_fits: Option<u32>,
    },
    /// The machine is too hot or short of memory, and stayed so; try later.
    Held {
        /// Worth trying again after this long.
        retry_after_seconds: u32,
    },
    /// Too many asks wait.
    Busy,
    /// The message alone is longer than the context.
    PromptTooLong {
        /// Tokens of it.
        prompt_tokens: u32,
        /// Tokens of context.
        context_length: u32,
    },
    /// The model's files are gone, damaged, or of a kind that no engine runs: choose another.
    ModelUnusable {
        /// The reason in the engine's words.
        reason: String,
    },
    /// The model was unloaded before the turn began; try again.
    Unloaded,
    /// The conversation could not be written to disk.
    Storage {
        /// The reason, naming the file.
        reason: String,
    },
    /// Anything else.
    Other {
        /// The reason in English.
        reason: String,
    },
}
