//! Contracts and text of local inference.
//!
//! This room says what a backend is ([`Engine`], [`LoadedModel`]), what it reports
//! ([`TokenEvent`]), and owns everything about text that backends share: chat templates,
//! tokenizers, incremental detokenisation, stop strings and the meaning of every sampling
//! parameter. It imports no other room, starts no thread, and knows nothing of async.

pub mod chat;
pub mod contract;
pub mod error;
pub mod event;
pub mod fit;
pub mod generation;
pub mod sampling;
pub mod seconds;
pub mod speculation;
pub mod template;
#[cfg(feature = "test-support")]
pub mod test_support;
pub mod text;
pub mod tokenizer;

pub use chat::{ChatPrompt, Message, Role};
pub use contract::{
    ConversationId, Engine, GenerationParams, JobControl, Limits, LoadProgress, LoadedModel,
    MemoryUse, ModelInfo, ModelSource, PreparedPrompt, Prompt, TokenSink, Trim,
};
pub use error::EngineError;
pub use event::{FinishReason, Section, Stats, TokenEvent};
pub use fit::Fit;
pub use sampling::{Sampler, SamplingParams};
pub use speculation::Speculation;
pub use template::{ChatTemplate, ControlTokens, RenderedPrompt};
pub use text::{OpenReasoning, TextStream};
pub use tokenizer::{Detokenizer, Tokenizer, TokenizerConfig};
pub use transom_fit::{KvCacheChoice, MemoryNeed};
