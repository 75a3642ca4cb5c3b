//! Reasons why a turn failed, as a window can act on them.

use serde::{Deserialize, Serialize};
use transom_engine::Route;
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
        /// The model's name; missing in failures of the engine and in those of earlier versions.
        model: Option<String>,
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
    /// The attached text is longer than its route allows. Attach less, send it as plain chat, or allow more in
    /// the settings of the route.
    AttachedTooLong {
        /// The route.
        route: Route,
        /// About the tokens of the attached text.
        attached_tokens: u32,
        /// The tokens that it may have.
        max_tokens: u32,
    },
    /// The conversation is longer than the context, and the user chose to shorten none. Choose a
    /// longer context, drop the oldest messages, or start a new conversation.
    ConversationTooLong {
        /// Tokens in the prompt.
        prompt_tokens: u32,
        /// Tokens in the context.
        context_length: u32,
    },
    /// No model is installed. Download one.
    NoModel,
    /// The model's files are missing or damaged, or no engine runs them. Choose another model.
    ModelUnusable {
        /// What is wrong with it; missing in failures that earlier versions stored.
        problem: Option<ModelProblem>,
        /// The engine's error message in English.
        reason: String,
    },
    /// The engine refused a parameter of the request. Change the setting.
    InvalidParameter {
        /// The parameter as the command line names it, such as `top-p`.
        name: String,
        /// The value.
        value: String,
        /// The engine's error message in English.
        reason: String,
    },
    /// The engine's library failed, and the model was unloaded. Try again.
    Backend {
        /// The library's own message, in English.
        reason: String,
    },
    /// Memory became critically short twice while the model was loading. Close other apps or choose
    /// a smaller model.
    Shed,
    /// A process that the system cannot end uses the memory. Choose a smaller model or restart the
    /// computer.
    Stuck {
        /// Id of the process.
        process_id: u32,
        /// Bytes that it uses.
        held_bytes: u64,
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

/// What is wrong with a model. Windows translate it by its code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "problem", rename_all = "snake_case")]
pub enum ModelProblem {
    /// No engine runs its architecture.
    Architecture {
        /// The architecture's name in the files.
        name: String,
    },
    /// No engine runs its quantization.
    Quantization {
        /// The quantization's name in the files.
        name: String,
    },
    /// No engine runs files of this format.
    Format,
    /// Its tokenizer is not supported.
    Tokenizer,
    /// The conversation contains special tokens, which its tokenizer cannot read as text.
    SpecialTokens,
    /// It does not generate text.
    Purpose,
    /// It uses another feature that no engine supports.
    Feature,
    /// It has several variants, and none of them runs on this machine.
    Variants,
    /// A file or folder does not exist.
    Missing {
        /// The name of the file or folder.
        file: String,
    },
    /// A file is damaged.
    Damaged {
        /// The name of the file or folder.
        file: String,
    },
    /// Its chat template failed or refused the conversation.
    Template,
}
