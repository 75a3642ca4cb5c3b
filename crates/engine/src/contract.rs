//! What a backend is. `engine-mlx` and `engine-llama` implement [`Engine`] and [`LoadedModel`];
//! every shell reaches a model only through them.
//!
//! Rule: engines block, and a loaded model lives and dies on the thread that loaded it
//! ([`LoadedModel`] is deliberately not `Send`).

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use transom_fit::{DEFAULT_CONTEXT, KvCacheChoice, MemoryNeed};

use crate::chat::ChatPrompt;
use crate::error::EngineError;
use crate::event::{FinishReason, Stats, TokenEvent};
use crate::sampling::SamplingParams;
use crate::template::{ChatTemplate, RenderedPrompt};
use crate::text::OpenReasoning;

/// Where a model's files lie: a folder in the Hugging Face layout, or a single GGUF file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// How keys and values are kept.
    #[serde(default)]
    pub kv_cache: KvCacheChoice,
}

impl Default for Limits {
    /// 8,192 tokens of context, 2,048 tokens a prefill step.
    fn default() -> Self {
        Self {
            context_length: DEFAULT_CONTEXT as usize,
            prefill_chunk: 2048,
            kv_cache: KvCacheChoice::Automatic,
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

/// The caller's hold on a running load or generation. Cloned handles share one state.
#[derive(Debug, Clone, Default)]
pub struct JobControl {
    state: Arc<JobState>,
}

#[derive(Debug, Default)]
struct JobState {
    stop: AtomicU8,
    trim: AtomicBool,
    was_polled: AtomicBool,
}

const CANCELLED: u8 = 1;
const SHED: u8 = 2;

impl JobControl {
    /// A control whose job goes on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the job to end because its caller no longer wants it. It does so after the running
    /// step: one token, or one prefill chunk. The first reason to end stands.
    pub fn cancel(&self) {
        self.stop(CANCELLED);
    }

    /// As [`JobControl::cancel`], but because the machine can no longer afford the job.
    pub fn shed(&self) {
        self.stop(SHED);
    }

    fn stop(&self, reason: u8) {
        let state = &self.state.stop;
        // A failure means that another reason came first.
        let _ = state.compare_exchange(0, reason, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether the job was asked to end. Engines ask as often as they can, also within a step: each
    /// call is a sign of life.
    pub fn is_stopped(&self) -> bool {
        self.state.was_polled.store(true, Ordering::Relaxed);
        self.state.stop.load(Ordering::Acquire) != 0
    }

    /// Returns true if the engine called [`JobControl::is_stopped`] since this was last called; for
    /// watchdogs.
    pub fn take_polled(&self) -> bool {
        self.state.was_polled.swap(false, Ordering::Relaxed)
    }

    /// How a job that was asked to end must say that it did: [`FinishReason::Cancelled`] or
    /// [`FinishReason::Shed`].
    pub fn stop_reason(&self) -> Option<FinishReason> {
        match self.state.stop.load(Ordering::Acquire) {
            CANCELLED => Some(FinishReason::Cancelled),
            SHED => Some(FinishReason::Shed),
            _ => None,
        }
    }

    /// Asks the running job to give the allocator's spare buffers back between two steps.
    pub fn request_trim(&self) {
        self.state.trim.store(true, Ordering::Release);
    }

    /// Whether a trim was asked for since this was last called; for the engine.
    pub fn take_trim_request(&self) -> bool {
        self.state.trim.swap(false, Ordering::AcqRel)
    }
}

/// A family of models that can be loaded and run in one way.
pub trait Engine {
    /// Short lower-case name for logs and status, such as `mlx`.
    fn name(&self) -> &'static str;

    /// Memory that the model will take once loaded and used within `limits`, read from its files
    /// without loading it. What the engine then uses must stay within it.
    ///
    /// # Errors
    /// As [`Engine::load`].
    fn memory_need(&self, source: &ModelSource, limits: &Limits)
    -> Result<MemoryNeed, EngineError>;

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
    /// last, and only when the result is `Ok`. A job that was asked to end is an `Ok` that finishes
    /// with [`JobControl::stop_reason`]; by then no work of it is left running.
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

    /// Drops what can be rebuilt and returns the bytes let go.
    fn trim(&mut self, trim: Trim) -> u64;

    /// Memory in use now, by part.
    fn memory(&self) -> MemoryUse;

    /// Writes the conversation last answered, as tokens with their keys and values, to a new file
    /// at `path` that only this user can read. Returns the tokens written; 0, and no file, when
    /// there is nothing to keep.
    ///
    /// # Errors
    /// [`EngineError::BadFile`] when it cannot be written; no file is left then.
    fn save_state(&self, path: &Path) -> Result<usize, EngineError>;

    /// Takes up the conversation that [`LoadedModel::save_state`] wrote, so that its next turn
    /// needs no prefill of what was said. Returns its tokens.
    ///
    /// # Errors
    /// [`EngineError::BadFile`] when the file is damaged, or is of another model, engine, KV type
    /// or of more tokens than the context holds. The model is then as it was without it.
    fn restore_state(&mut self, path: &Path) -> Result<usize, EngineError>;
}

/// How much a loaded model gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trim {
    /// Spare buffers and everything cached, except the KV cache of the conversation last answered.
    KeepConversation,
    /// All but the weights; the next turn of the conversation is prefilled anew.
    Everything,
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
    /// The reasoning section that the template left open (`<think>` with no end), so the response
    /// starts inside it.
    pub starts_in_reasoning: Option<OpenReasoning>,
    /// Messages at the start of the conversation, the system's not counted, that were left out
    /// because they no longer fit (see [`crate::fit`]).
    pub dropped_messages: usize,
    /// Tokens at the start that hold the system prompt, which a context shift keeps.
    pub system_tokens: usize,
}

/// How to answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Upper bound on the tokens of a prefill step, below that of [`Limits`]; `None` adds none.
    pub prefill_chunk: Option<usize>,
    /// The engine may guess tokens ahead and check them together where that is faster. The
    /// distribution of answers stays the same; rounding may differ, so an answer with a seed, which
    /// must be the same again, is never guessed at.
    pub speculate: bool,
    /// When the context is full before the answer is complete: forget the older half of what
    /// follows the system prompt and go on, rather than end with [`FinishReason::Length`]. Engines
    /// and models that cannot shift their cache end there all the same. Also allows to move cached
    /// tokens when messages before them were left out of the same [`Self::conversation`].
    pub shift_context: bool,
    /// The conversation that the prompt belongs to. Cached tokens that keep a trace of text that was
    /// forgotten since are reused within one conversation only; without an id they never are.
    pub conversation: Option<ConversationId>,
}

impl Default for GenerationParams {
    /// Default sampling, no bounds, speculation allowed, no context shift, no conversation.
    fn default() -> Self {
        Self {
            sampling: SamplingParams::default(),
            max_tokens: None,
            stop: Vec::new(),
            ignore_end_of_text: false,
            prefill_chunk: None,
            speculate: true,
            shift_context: false,
            conversation: None,
        }
    }
}

/// Identifies a conversation over all its requests. Never reused for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConversationId(pub u64);

impl ConversationId {
    /// Returns an id for a conversation that is stored nowhere.
    pub fn random() -> Self {
        // Every hasher of the standard library starts from random keys.
        Self(RandomState::new().build_hasher().finish())
    }
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

impl ModelInfo {
    /// Whether the model can be given `tokens` at all.
    ///
    /// # Errors
    /// [`EngineError::EmptyPrompt`]; [`EngineError::InvalidParameter`] for ids outside the
    /// vocabulary.
    pub fn check_tokens(&self, tokens: &[u32]) -> Result<(), EngineError> {
        if tokens.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        let is_unknown = |token: &&u32| **token as usize >= self.vocab_size;
        match tokens.iter().find(is_unknown) {
            None => Ok(()),
            Some(token) => Err(EngineError::InvalidParameter {
                name: "token".into(),
                value: token.to_string(),
                expected: "below the model's vocabulary size".into(),
            }),
        }
    }

    /// Whether `tokens` can be answered: known ones, and with room for an answer.
    ///
    /// # Errors
    /// As [`ModelInfo::check_tokens`], and [`EngineError::PromptTooLong`].
    pub fn check_prompt(&self, tokens: &[u32]) -> Result<(), EngineError> {
        self.check_tokens(tokens)?;
        if tokens.len() < self.context_length {
            return Ok(());
        }
        Err(EngineError::PromptTooLong {
            prompt_tokens: tokens.len(),
            context_length: self.context_length,
        })
    }

    /// Renders a conversation by `template`, the model's own if it has one.
    ///
    /// # Errors
    /// [`EngineError::EmptyPrompt`]; [`EngineError::Template`] without a template, and as
    /// [`ChatTemplate::render`].
    pub fn render(
        &self,
        template: Option<&ChatTemplate>,
        chat: &ChatPrompt,
        now: SystemTime,
    ) -> Result<RenderedPrompt, EngineError> {
        if chat.messages.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        let template = template.ok_or_else(|| EngineError::Template {
            reason: format!(
                "{} has none, so it cannot chat; it only continues text",
                self.name
            ),
        })?;
        template.render(chat, now)
    }
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
