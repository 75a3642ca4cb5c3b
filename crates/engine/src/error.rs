//! Everything that can go wrong in an engine. Each case carries what its message needs: the file,
//! the value, and what to do. Endings of an answer (cancelled, length, shed) are not errors.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A failure of loading or generating.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", rename_all = "snake_case")]
pub enum EngineError {
    /// A file or folder that must be there is not.
    #[error("{path}: {what} not found; {hint}")]
    NotFound {
        /// Where it was looked for.
        path: PathBuf,
        /// What was looked for, in words.
        what: String,
        /// What to do about it.
        hint: String,
    },

    /// A file is there but cannot be used.
    #[error("{path}: {reason}")]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, with the value found and what was expected.
        reason: String,
    },

    /// The files are sound, but this engine cannot run them. Another engine might.
    #[error("{path}: {reason}")]
    Unsupported {
        /// The file that says so.
        path: PathBuf,
        /// What is not supported, and what is.
        reason: String,
    },

    /// The chat template failed or refused the conversation.
    #[error("chat template: {reason}")]
    Template {
        /// The template's own message, or where it went wrong.
        reason: String,
    },

    /// There is nothing to answer.
    #[error("the prompt is empty; say something first")]
    EmptyPrompt,

    /// The prompt leaves no room for an answer.
    #[error(
        "the prompt has {prompt_tokens} tokens, but the context holds {context_length}; \
         shorten it or raise the context length"
    )]
    PromptTooLong {
        /// Tokens in the prompt.
        prompt_tokens: usize,
        /// Tokens that the context holds.
        context_length: usize,
    },

    /// A parameter is outside its range.
    #[error("{name} is {value}, but must be {expected}")]
    InvalidParameter {
        /// The parameter, as the user knows it.
        name: Cow<'static, str>,
        /// The value given.
        value: String,
        /// The range in words, such as `at least 0`.
        expected: Cow<'static, str>,
    },

    /// The model does not fit into memory.
    #[error(
        "{path} needs {} of memory, but {} is available; \
         choose a smaller model or close other apps",
        gigabytes(*.needed_bytes),
        gigabytes(*.available_bytes)
    )]
    OutOfMemory {
        /// The model.
        path: PathBuf,
        /// Bytes that it needs.
        needed_bytes: u64,
        /// Bytes that can be had.
        available_bytes: u64,
    },

    /// The caller cancelled before there was anything to keep.
    #[error("cancelled")]
    Cancelled,

    /// The native library failed.
    #[error("{during}: {message}")]
    Backend {
        /// What was being done.
        during: String,
        /// The library's own message.
        message: String,
    },
}

/// Of memory, so in powers of two, as it is sold.
fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / (1u64 << 30) as f64)
}
