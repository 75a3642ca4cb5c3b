//! What a backend is. `engine-mlx` and `engine-llama` implement [`Engine`] and [`LoadedModel`];
//! every shell reaches a model only through them.
//!
//! Rule: engines block, and a loaded model lives and dies on the thread that loaded it
//! ([`LoadedModel`] is deliberately not `Send`).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::chat::ChatPrompt;
use crate::error::EngineError;
use crate::event::{FinishReason, Stats, TokenEvent};
use crate::sampling::SamplingParams;

/// Where a model's files lie: a folder in the Hugging Face layout, or a single GGUF file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSource {
    /// Folder or file.
    pub path: PathBuf,
}

/// Bounds within which a model must be loaded and used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Upper bound on the context length in tokens. The model's own limit applies as well.
    pub context_length: usize,
    /// Upper bound on the tokens that a prefill step processes before progress is reported and
    /// cancellation is checked. Engines take fewer where the device is slow.
    pub prefill_chunk: usize,
}

impl Default for Limits {
    /// 8,192 tokens of context, 2,048 tokens a prefill step.
    fn default() -> Self {
        Self {
            context_length: 8192,
            prefill_chunk: 2048,
        }
    }
}

/// How far a load has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadProgress {
    /// Weight bytes that are in place.
    pub done_bytes: u64,
    /// Weight bytes in all.
    pub total_bytes: u64,
}

/// The caller's hold on a running load or generation. Cloned handles share one flag.
#[derive(Debug, Clone, Default)]
pub struct JobControl {
    cancelled: Arc<AtomicBool>,
}

impl JobControl {
    /// A control whose job has not been cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the job to end. It does so after the running step: one token, or one prefill chunk.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Whether [`JobControl::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
}

/// A family of models that can be loaded and run in one way.
pub trait Engine {
    /// Short lower-case name for logs and status, such as `mlx`.
    fn name(&self) -> &'static str;

    /// Loads a model on the calling thread, which must also use and drop it.
    ///
    /// `on_progress` is called from this thread, at least once at the start and once at the end.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] when another engine might succeed; any other error is final for
    /// these files. A cancelled load returns [`EngineError::Cancelled`].
    fn load(
        &self,
        source: &ModelSource,
        limits: &Limits,
        control: &JobControl,
        on_progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Box<dyn LoadedModel>, EngineError>;
}

/// Weights in memory, ready to generate. Dropping it is unloading it.
pub trait LoadedModel {
    /// What was loaded, and how it runs here.
    fn info(&self) -> &ModelInfo;

    /// Renders the chat template, tokenises, and checks the result against the context length.
    ///
    /// # Errors
    /// [`EngineError::EmptyPrompt`], [`EngineError::PromptTooLong`], and the template's own errors.
    fn prepare(&self, prompt: &Prompt) -> Result<PreparedPrompt, EngineError>;

    /// Answers a prompt, reporting to `sink` from the calling thread.
    ///
    /// Events come in the order `Started`, `Prefill`*, `Text`*, `Finished`; `Finished` comes once,
    /// last, and only when the result is `Ok`. A cancelled job is an `Ok` that ends with
    /// [`FinishReason::Cancelled`]; by then no work of it is left running.
    ///
    /// # Errors
    /// [`EngineError::InvalidParameter`] before any work; [`EngineError::Backend`] if a step fails.
    fn generate(
        &mut self,
        prompt: &PreparedPrompt,
        params: &GenerationParams,
        control: &JobControl,
        sink: &mut dyn TokenSink,
    ) -> Result<(FinishReason, Stats), EngineError>;

    /// Drops what can be rebuilt (prompt cache, allocator cache) and returns the bytes let go.
    fn trim(&mut self) -> u64;

    /// Memory in use now, by part.
    fn memory(&self) -> MemoryUse;
}

/// Receives a job's events, on the engine's thread: return quickly, never block on the reader.
pub trait TokenSink {
    /// Takes one event.
    fn on_event(&mut self, event: TokenEvent);
}

impl<F: FnMut(TokenEvent)> TokenSink for F {
    fn on_event(&mut self, event: TokenEvent) {
        self(event);
    }
}

/// What to answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Prompt {
    /// A conversation, rendered by the model's chat template.
    Chat(ChatPrompt),
    /// Text to continue as it is, with the tokenizer's own leading special tokens.
    Text(String),
    /// Token ids to continue as they are; for benchmarks and parity tests.
    Tokens(Vec<u32>),
}

/// A prompt that fits the loaded model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedPrompt {
    /// Token ids, in order; never empty, and always shorter than the context length.
    pub tokens: Vec<u32>,
    /// The template ended inside a reasoning section (`<think>` with no end), so the answer starts
    /// there.
    pub starts_in_reasoning: bool,
}

/// How to answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerationParams {
    /// How the next token is chosen.
    pub sampling: SamplingParams,
    /// Upper bound on generated tokens; `None` means until the context is full.
    pub max_tokens: Option<usize>,
    /// Text at which the answer ends. The stop string itself is not part of the answer.
    pub stop: Vec<String>,
    /// Goes on past end-of-text tokens; for benchmarks.
    pub ignore_end_of_text: bool,
}

/// What was loaded, and how it runs here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Name for people: the folder's or file's own.
    pub name: String,
    /// The architecture, in the field's spelling: `qwen3`, `llama`, ….
    pub architecture: String,
    /// Engine that runs it, such as `mlx`.
    pub engine: String,
    /// Parameters, counted from the weights.
    pub n_parameters: u64,
    /// How the weights are stored in the files, such as `4-bit, group 64`.
    pub stored_as: String,
    /// How they are computed with here, such as `dense f32 on the CPU`.
    pub computed_as: String,
    /// Tokens the model can attend to here: the least of the model's own limit and the caller's.
    pub context_length: usize,
    /// Tokens in the vocabulary.
    pub vocab_size: usize,
    /// Whether the model came with a chat template.
    pub has_chat_template: bool,
    /// Sampling that the model's authors recommend (`generation_config.json`), else our defaults.
    pub recommended_sampling: SamplingParams,
}

/// Bytes in use, by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Weights.
    pub weight_bytes: u64,
    /// KV cache of the conversation that is kept for the next turn.
    pub kv_cache_bytes: u64,
    /// Freed buffers that the allocator keeps for reuse.
    pub allocator_cache_bytes: u64,
    /// Highest total since the model began to load.
    pub peak_bytes: u64,
}
