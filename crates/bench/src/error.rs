//! The errors of a benchmark. Each message says what to do.

use std::io;

use transom_supervisor::{InstanceError, RequestError};

/// A benchmark that could not be completed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// There is no place for the temporary folder.
    #[error("cannot create a temporary folder: {0}")]
    Folder(io::Error),
    /// The supervisor of the benchmark did not start.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A request was stopped.
    #[error("a request was stopped: this computer is short of memory or too hot; try again later")]
    Stopped,
    /// The model cannot chat.
    #[error("{model} has no chat template, so it has no conversations; choose a chat model")]
    NoTemplate {
        /// Name of the model.
        model: String,
    },
    /// The conversations do not fit.
    #[error(
        "the context holds {context_length} tokens, but the conversations need at least {needed}; \
         choose a larger context length or another model"
    )]
    ContextTooShort {
        /// Number of tokens in the context.
        context_length: usize,
        /// Number of tokens that are needed.
        needed: usize,
    },
    /// A prompt and its response do not fit.
    #[error(
        "these lengths need a context of {needed} tokens, but it holds {context_length}; choose \
         smaller --prompt-tokens or --generate-tokens"
    )]
    LengthsTooLong {
        /// Number of tokens in the context.
        context_length: usize,
        /// Number of tokens that are needed.
        needed: usize,
    },
    /// A prompt that was to be read cold was in a cache.
    #[error(
        "{cached_tokens} tokens were cached after all conversations were deleted, so there is \
         nothing to compare with; please report it"
    )]
    NotCold {
        /// Number of cached tokens.
        cached_tokens: usize,
    },
    /// No message was dropped from a conversation longer than the context.
    #[error(
        "no message was dropped in {n_turns} turns, although they fill a context of \
         {context_length} tokens; please report it"
    )]
    NeverFull {
        /// Number of turns.
        n_turns: usize,
        /// Number of tokens in the context.
        context_length: usize,
    },
}
