//! The interface of an inference engine, and everything about text that engines share.
//!
//! [`Engine`] and [`LoadedModel`] define an engine, [`TokenEvent`] what it reports. Chat templates,
//! tokenizers, incremental detokenization, stop strings and the meaning of every sampling parameter
//! are here, so they are the same in all engines. This crate uses only `files` and `fit` of the
//! workspace and contains no async code. It starts a thread only to compile a constraint.

pub mod attachment;
pub mod chat;
pub mod checked_response;
pub mod constraint;
pub mod contract;
pub mod embedding;
pub mod error;
pub mod event;
pub mod fill_in;
pub mod generation;
pub mod heap;
pub mod job_control;
pub mod logprobs;
pub mod model_info;
pub mod parked;
pub mod request;
pub mod responses;
pub mod route;
pub mod sampling;
pub mod saved;
pub mod scoring;
pub mod serde_seconds;
pub mod speculation;
pub mod summary;
pub mod template;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
pub mod text;
pub mod text_stream;
pub mod title;
pub mod token_pieces;
pub mod tokenizer;
pub mod tokenizer_config;
pub mod tools;
pub mod truncation;

pub use attachment::{Attachment, with_attachments};
pub use chat::{ChatPrompt, FunctionCall, Message, Role, ToolCall, ToolChoice};
pub use checked_response::{CheckedResponse, ResponseCheck};
pub use constraint::{
    Constraint, ConstraintStart, Constraints, Grammar, ResponseConstraint, TokenMask, TokenTable,
    TokenText,
};
pub use contract::{
    Engine, Limits, LoadProgress, LoadedModel, MemoryUse, ModelSource, NextStep, TokenSink, Trim,
};
pub use embedding::{EmbedInput, Embedding};
pub use error::{EngineError, UnsupportedFeature};
pub use event::{FinishReason, Section, Stats, TokenEvent, ToolCallDelta};
pub use fill_in::{FillIn, FillInTokens};
pub use heap::{OnDrop, trim_heap};
pub use job_control::JobControl;
pub use logprobs::{Logprob, Scores, TokenLogprobs};
pub use model_info::ModelInfo;
pub use parked::{Parked, ParkedState};
pub use request::{ConversationId, GenerationParams, PreparedPrompt, Prompt, ScorePrompt};
pub use responses::{ResponseId, Responses};
pub use route::{Route, RouteSettings};
pub use sampling::{Sampler, SamplingParams};
pub use saved::{CachedConversation, SavableCache, SavedConversation};
pub use scoring::Scorer;
pub use speculation::Speculation;
pub use template::{ChatTemplate, ControlTokens, RenderedPrompt, set_memory_watch};
pub use text::OpenReasoning;
pub use text_stream::TextStream;
pub use token_pieces::{TokenInput, TokenPiece};
pub use tokenizer::{Detokenizer, Tokenizer};
pub use tokenizer_config::TokenizerConfig;
pub use tools::PreparedTools;
pub use transom_fit::{KvCacheChoice, MemoryNeed};
pub use truncation::Truncation;
