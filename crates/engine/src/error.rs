//! The errors of engines. Each one carries what its message needs: the file, the value, and what to
//! do. The ends of a response (canceled, length, shed) are not errors.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A failed load or generation.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", rename_all = "snake_case")]
pub enum EngineError {
    /// A required file or folder does not exist.
    #[error("{path}: {what} not found; {hint}")]
    NotFound {
        /// Where it should be.
        path: PathBuf,
        /// The name of the missing thing.
        what: String,
        /// What to do about it.
        hint: String,
    },

    /// A file exists but cannot be used.
    #[error("{path}: {reason}")]
    BadFile {
        /// The file.
        path: PathBuf,
        /// The problem, with the value found and the expected one.
        reason: String,
    },

    /// The files are valid, but this engine cannot run them. Another engine might.
    #[error("{path}: {reason}")]
    Unsupported {
        /// The file that requires the feature.
        path: PathBuf,
        /// What is not supported, and what is.
        reason: String,
    },

    /// The chat template failed or refused the conversation.
    #[error("chat template: {reason}")]
    Template {
        /// The template's own message, or where it failed.
        reason: String,
    },

    /// The prompt has no tokens.
    #[error("the prompt is empty; write a message first")]
    EmptyPrompt,

    /// The prompt leaves no space for a response.
    #[error(
        "the prompt has {prompt_tokens} tokens, but the context holds {context_length}; \
         shorten it or raise the context length"
    )]
    PromptTooLong {
        /// Number of tokens in the prompt.
        prompt_tokens: usize,
        /// Number of tokens in the context.
        context_length: usize,
    },

    /// A parameter is outside its range.
    #[error("{name} is {value}, but must be {expected}")]
    InvalidParameter {
        /// The parameter, as the user knows it.
        name: Cow<'static, str>,
        /// The invalid value.
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
        /// Bytes that are available.
        available_bytes: u64,
    },

    /// The caller canceled the job before there was a result.
    #[error("canceled")]
    #[serde(rename = "cancelled")]
    Canceled,

    /// The native library failed.
    #[error("{during}: {message}")]
    Backend {
        /// The operation that failed.
        during: String,
        /// The library's own message.
        message: String,
    },
}

/// Memory is sold in powers of two.
fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / (1u64 << 30) as f64)
}
