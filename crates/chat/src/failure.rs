//! Reasons why a turn failed, as a window can act on them.

use serde::{Deserialize, Serialize};
use transom_store::StoreErrorKind;

/// A failed turn. Windows translate it by its code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Failure {
    /// The engine's process ended. Try again.
    EngineCrashed,
    /// The model does not fit in memory. Choose a smaller context or another model, or load it
    /// anyway.
    TooLarge {
        /// Bytes that the model needs.
        need_bytes: u64,
        /// Bytes that models may use now.
        budget_bytes: u64,
        /// A context length with which the model would fit.
        context_that_fits: Option<u32>,
    },
    /// The machine stayed too hot or too short of memory. Try later.
    Held {
        /// Try again after this time.
        retry_after_seconds: u32,
    },
    /// The supervisor's queue is full.
    Busy,
    /// The message alone is longer than the context.
    PromptTooLong {
        /// Tokens in the prompt.
        prompt_tokens: u32,
        /// Tokens in the context.
        context_length: u32,
    },
    /// The model's files are missing or damaged, or no engine runs them. Choose another model.
    ModelUnusable {
        /// The engine's error message.
        reason: String,
    },
    /// The model was unloaded before the turn started. Try again.
    Unloaded,
    /// The conversation could not be read or written.
    Storage {
        /// The kind of the error, which windows translate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "bindings", ts(optional))]
        kind: Option<StoreErrorKind>,
        /// The reason in English, which names the file.
        reason: String,
    },
    /// Anything else.
    Other {
        /// The reason in English.
        reason: String,
    },
}
