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
        /// The kind of feature, for windows, which translate it.
        #[serde(default)]
        feature: UnsupportedFeature,
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

    /// No grammar can hold the constraint of the request in full.
    #[error(
        "the response can't be constrained{}: {message}",
        place(.path, .keyword)
    )]
    InvalidConstraint {
        /// Where in the schema or the grammar, as a JSON pointer such as `/properties/age`; empty
        /// for all of it.
        path: String,
        /// The keyword that cannot be held, such as `not`; empty if it is not about one.
        keyword: String,
        /// The problem, and what to do.
        message: String,
    },

    /// The constraint allows no further token in the middle of a response.
    #[error("the response ended before it matched its constraint: {message}")]
    ConstraintFailed {
        /// Why.
        message: String,
    },

    /// The model does not fit into memory.
    #[error(
        "{path} needs {} of memory, but {} is available; \
         choose a smaller model or close other apps",
        transom_files::memory_text(*.needed_bytes),
        transom_files::memory_text(*.available_bytes)
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

/// A kind of feature that an engine does not support.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum UnsupportedFeature {
    /// The architecture.
    Architecture {
        /// Its name in the model's files.
        name: String,
    },
    /// The quantization of the weights.
    Quantization {
        /// Its name in the model's files.
        name: String,
    },
    /// The format of the files, which another engine may run.
    Format,
    /// The tokenizer.
    Tokenizer,
    /// Special tokens in a message, which this tokenizer cannot read as text.
    SpecialTokens,
    /// The purpose: the model does not generate text.
    Purpose,
    /// Anything else, such as a value of the configuration.
    #[default]
    Other,
}

impl EngineError {
    /// Returns [`EngineError::NotFound`].
    pub fn not_found(path: impl Into<PathBuf>, what: &str, hint: &str) -> Self {
        Self::NotFound {
            path: path.into(),
            what: what.to_owned(),
            hint: hint.to_owned(),
        }
    }

    /// Returns [`EngineError::BadFile`].
    pub fn bad_file(path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Self::BadFile {
            path: path.into(),
            reason: reason.to_string(),
        }
    }

    /// Returns [`EngineError::Unsupported`].
    pub fn unsupported(
        path: impl Into<PathBuf>,
        feature: UnsupportedFeature,
        reason: impl Into<String>,
    ) -> Self {
        Self::Unsupported {
            path: path.into(),
            feature,
            reason: reason.into(),
        }
    }

    /// Returns [`EngineError::InvalidParameter`].
    pub fn invalid_parameter(
        name: &'static str,
        value: impl ToString,
        expected: &'static str,
    ) -> Self {
        Self::InvalidParameter {
            name: name.into(),
            value: value.to_string(),
            expected: expected.into(),
        }
    }

    /// Returns [`EngineError::Backend`].
    pub fn backend(during: impl Into<String>, message: impl ToString) -> Self {
        Self::Backend {
            during: during.into(),
            message: message.to_string(),
        }
    }
}

/// Returns where a constraint is wrong, for a message.
fn place(path: &str, keyword: &str) -> String {
    match (path, keyword) {
        ("", "") => String::new(),
        ("", keyword) => format!(" (`{keyword}`)"),
        (path, "") => format!(" (at {path})"),
        (path, keyword) => format!(" (`{keyword}` at {path})"),
    }
}
