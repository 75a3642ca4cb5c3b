//! The interface of an inference engine. `engine-mlx` and `engine-llama` implement [`Engine`] and
//! [`LoadedModel`]; all other code uses a model only through them.
//!
//! Rule: engines block. A loaded model is used and dropped on the thread that loaded it
//! ([`LoadedModel`] is deliberately not `Send`).

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use transom_fit::{DEFAULT_CONTEXT, KvCacheChoice, MemoryNeed};

use crate::chat::ChatPrompt;
use crate::constraint::Constraint;
use crate::embedding::{EmbedInput, Embedding, not_an_embedding_model};
use crate::error::EngineError;
use crate::event::{FinishReason, Stats, TokenEvent};
use crate::logprobs::MAX_TOP_LOGPROBS;
use crate::sampling::SamplingParams;
use crate::saved::SavableCache;
use crate::scoring::{MAX_SCORED_TOKENS, ScorePrompt};
use crate::template::{ChatTemplate, RenderedPrompt};
use crate::text::OpenReasoning;
use crate::tools::{self, PreparedTools};

pub use crate::job_control::JobControl;

/// The files of a model: a folder in the Hugging Face layout, or a GGUF file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelSource {
    /// The folder or the file.
    pub path: PathBuf,
}

/// The limits within which a model is loaded and used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum context length in tokens. The model's own limit applies as well.
    pub context_length: usize,
    /// Maximum number of tokens per prefill step. Between steps, engines report progress and check
    /// for cancellation. Engines use smaller steps on slow devices.
    pub prefill_chunk: usize,
    /// The data type of keys and values.
    #[serde(default)]
    pub kv_cache: KvCacheChoice,
    /// Maximum bytes of KV caches of other conversations that stay in memory.
    #[serde(default)]
    pub parked_bytes: u64,
    /// The draft model to load beside the model, for speculative decoding. If it cannot be loaded or
    /// has another vocabulary, the model is loaded without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<ModelSource>,
}

impl Default for Limits {
    /// 8,192 tokens of context, 2,048 tokens per prefill step, one conversation, no draft model.
    fn default() -> Self {
        Self {
            context_length: DEFAULT_CONTEXT as usize,
            prefill_chunk: 2048,
            kv_cache: KvCacheChoice::Automatic,
            parked_bytes: 0,
            draft: None,
        }
    }
}

/// The progress of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadProgress {
    /// Weight bytes that are loaded.
    pub done_bytes: u64,
    /// All weight bytes.
    pub total_bytes: u64,
}

/// Loads and runs models of one format.
pub trait Engine {
    /// Returns a short lower-case name for logs and status, such as `mlx`.
    fn name(&self) -> &'static str;

    /// Returns the memory that the model needs while it is used within `limits`, together with the draft
    /// model that would be loaded. Reads only the headers of their files. The engine must not use more than that.
    ///
    /// # Errors
    /// Those of [`Engine::load`].
    fn memory_need(&self, source: &ModelSource, limits: &Limits)
    -> Result<MemoryNeed, EngineError>;

    /// Loads a model on the calling thread, which must also use and drop it.
    ///
    /// Calls `on_progress` on this thread, at least once at the start and once at the end.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] if another engine might be able to load it; any other error is
    /// final for these files. [`EngineError::Canceled`] if the load was canceled.
    fn load(
        &self,
        source: &ModelSource,
        limits: &Limits,
        control: &JobControl,
        on_progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Box<dyn LoadedModel>, EngineError>;
}

/// A model in memory, ready to generate. Dropping it unloads it.
pub trait LoadedModel {
    /// Returns what was loaded and how it runs.
    fn info(&self) -> &ModelInfo;

    /// Renders the chat template, tokenizes the result and checks its length.
    ///
    /// # Errors
    /// [`EngineError::EmptyPrompt`], [`EngineError::PromptTooLong`], and errors of the template.
    fn prepare(&self, prompt: &Prompt) -> Result<PreparedPrompt, EngineError>;

    /// Returns the number of tokens of `prompt`, even if they do not fit the context.
    ///
    /// # Errors
    /// Those of [`LoadedModel::prepare`], but not [`EngineError::PromptTooLong`].
    fn count_tokens(&self, prompt: &Prompt) -> Result<usize, EngineError> {
        match self.prepare(prompt) {
            Ok(prepared) => Ok(prepared.tokens.len()),
            Err(EngineError::PromptTooLong { prompt_tokens, .. }) => Ok(prompt_tokens),
            Err(error) => Err(error),
        }
    }

    /// Generates a response, and reports to `sink` on the calling thread.
    ///
    /// The order of events is `Started`, `Prefill`*, `Text`* and `ToolCall`*, `Finished`. `Finished` comes once, as
    /// the last event, and only if the result is `Ok`. A job that was stopped returns `Ok` with
    /// [`JobControl::stop_reason`]; none of its work is running then.
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

    /// Embeds each input, in order, and reports to `sink` on the calling thread. A job that was
    /// stopped returns `Ok` with [`JobControl::stop_reason`]; the remaining inputs have no vector.
    ///
    /// # Errors
    /// Those of [`crate::embedding::run`]; [`EngineError::InvalidParameter`] for a model that
    /// generates text, as by default.
    fn embed(
        &mut self,
        _: &[EmbedInput],
        _: &JobControl,
        _: &mut dyn FnMut(Embedding),
    ) -> Result<(FinishReason, Stats), EngineError> {
        Err(not_an_embedding_model(self.info()))
    }

    /// Releases memory that can be rebuilt. Returns the number of bytes released.
    fn trim(&mut self, trim: Trim) -> u64;

    /// Returns the memory in use, by part.
    fn memory(&self) -> MemoryUse;

    /// Returns the KV caches, to be saved or restored; `None` for a model that keeps none.
    fn savable_cache(&mut self) -> Option<&mut dyn SavableCache> {
        None
    }
}

/// What a loaded model releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trim {
    /// Unused buffers and all caches, except the KV cache of the last conversation. The KV caches of
    /// all other conversations are dropped.
    KeepConversation,
    /// Everything but the weights. The next request of a conversation needs a full prefill.
    Everything,
}

/// Receives the events of a job on the engine's thread. Must return quickly and never wait for the
/// reader.
pub trait TokenSink {
    /// Receives one event.
    fn on_event(&mut self, event: TokenEvent);

    /// Receives each generated token, including end-of-text tokens, before its text.
    fn on_token(&mut self, _: u32) {}
}

impl<F: FnMut(TokenEvent)> TokenSink for F {
    fn on_event(&mut self, event: TokenEvent) {
        self(event);
    }
}

/// The input of a generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Prompt {
    /// A conversation, rendered with the model's chat template.
    Chat(ChatPrompt),
    /// Text to continue as it is, after the leading special tokens that the tokenizer adds.
    Text(String),
    /// Token ids to continue as they are, for benchmarks and parity tests.
    Tokens(Vec<u32>),
}

/// A tokenized prompt that fits the loaded model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedPrompt {
    /// Token ids; never empty, always fewer than the context length.
    pub tokens: Vec<u32>,
    /// The reasoning section that the template opened and did not close (`<think>`), if any. The
    /// response starts inside it.
    pub starts_in_reasoning: Option<OpenReasoning>,
    /// The prompt ends inside a message, whose text the response continues.
    pub continues_message: bool,
    /// Number of messages after the system prompt that were dropped because they do not fit (see
    /// [`crate::truncation`]).
    pub dropped_messages: usize,
    /// Number of tokens at the start that hold the system prompt. A context shift keeps them.
    pub system_tokens: usize,
    /// The tools that the response may call, if any.
    pub tools: Option<PreparedTools>,
}

/// Parameters of a generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerationParams {
    /// How tokens are sampled.
    pub sampling: SamplingParams,
    /// Maximum number of generated tokens; `None` means until the context is full.
    pub max_tokens: Option<usize>,
    /// Strings that end the response. The response does not contain them.
    pub stop: Vec<String>,
    /// What the response must match. End-of-text tokens are allowed only where it is complete.
    pub constraint: Option<Constraint>,
    /// Continues after end-of-text tokens, for benchmarks.
    pub ignore_end_of_text: bool,
    /// Maximum number of tokens per prefill step, if it is less than that of [`Limits`].
    pub prefill_chunk: Option<usize>,
    /// Allows speculative decoding where it is faster. The distribution of responses stays the
    /// same, but rounding may differ. Responses with a seed must be reproducible, so they never use
    /// it.
    pub speculate: bool,
    /// Reports the model's log probability of each token, with this number of most likely tokens at
    /// its place, from 0 to [`MAX_TOP_LOGPROBS`]; see [`crate::logprobs`]. Such a response is
    /// generated one token after another.
    pub logprobs: Option<u8>,
    /// Scores the prompt instead of generating a response. Needs [`Self::logprobs`], which may then be
    /// up to [`MAX_SCORED_TOKENS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<ScorePrompt>,
    /// If the context is full before the response is complete: drops the older half of the tokens
    /// after the system prompt and continues, instead of ending with [`FinishReason::Length`].
    /// Engines and models that cannot shift their cache end anyway. Also allows the engine to move
    /// cached tokens if messages before them were dropped since the last request of the same
    /// [`Self::conversation`].
    pub shift_context: bool,
    /// The conversation that the prompt belongs to. Cached tokens that were computed after text
    /// that is no longer in the prompt are reused only within one conversation; without an id they
    /// never are.
    pub conversation: Option<ConversationId>,
    /// The conversation must not be written to the disk. The engine keeps its KV cache in memory,
    /// and the supervisor does not save it.
    pub is_private: bool,
}

impl GenerationParams {
    /// Returns true if speculative decoding is allowed: it was not turned off, log probabilities are
    /// not reported, and there is no seed. The draft length depends on the duration of steps, and
    /// steps over several tokens round differently, but a response with a seed must be reproducible.
    pub fn may_speculate(&self) -> bool {
        self.speculate && self.sampling.seed.is_none() && self.logprobs.is_none()
    }

    /// Returns true if a step may compute several tokens that a constraint forces. It depends only on
    /// the constraint and on the tokens before, so a response with a seed stays reproducible.
    pub fn may_draft_forced(&self) -> bool {
        self.speculate && self.logprobs.is_none()
    }

    /// Checks every parameter, including those of sampling.
    ///
    /// # Errors
    /// [`EngineError::InvalidParameter`], which names the parameter as the command line does.
    pub fn validate(&self, vocab_size: usize) -> Result<(), EngineError> {
        self.sampling.validate(vocab_size)?;
        for (name, value) in [
            ("max-tokens", self.max_tokens),
            ("prefill-chunk", self.prefill_chunk),
        ] {
            if value == Some(0) {
                return Err(EngineError::invalid_parameter(name, 0, "at least 1"));
            }
        }
        if self.stop.iter().any(String::is_empty) {
            let expected = "a text that is not empty";
            return Err(EngineError::invalid_parameter("stop", "\"\"", expected));
        }
        if self.constraint.is_some() && (self.ignore_end_of_text || self.score.is_some()) {
            let name = match self.score {
                Some(_) => "score",
                None => "ignore-end-of-text",
            };
            let expected = "left out where the response is constrained";
            return Err(EngineError::invalid_parameter(name, true, expected));
        }
        let most = match self.score {
            Some(_) => MAX_SCORED_TOKENS,
            None => MAX_TOP_LOGPROBS,
        };
        match self.logprobs {
            None if self.score.is_some() => Err(EngineError::invalid_parameter(
                "logprobs",
                "not given",
                "a number, because the prompt is to be scored",
            )),
            Some(n) if n > most => Err(EngineError::invalid_parameter(
                "logprobs",
                n,
                "from 0 to 20",
            )),
            _ => Ok(()),
        }
    }
}

impl Default for GenerationParams {
    /// Default sampling, no limits, speculative decoding allowed, no context shift, no
    /// conversation.
    fn default() -> Self {
        Self {
            sampling: SamplingParams::default(),
            max_tokens: None,
            stop: Vec::new(),
            constraint: None,
            ignore_end_of_text: false,
            prefill_chunk: None,
            speculate: true,
            logprobs: None,
            score: None,
            shift_context: false,
            conversation: None,
            is_private: false,
        }
    }
}

/// Identifies a conversation in all its requests. Never reused for another conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConversationId(pub u64);

impl ConversationId {
    /// Returns an id for a conversation that is not stored.
    pub fn random() -> Self {
        // Every hasher of the standard library starts with random keys.
        Self(RandomState::new().build_hasher().finish())
    }
}

/// A loaded model, and how it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Display name: the name of the folder or file.
    pub name: String,
    /// The architecture as its files spell it: `qwen3`, `llama`, ….
    pub architecture: String,
    /// The engine that runs the model, such as `mlx`.
    pub engine: String,
    /// Number of parameters, counted from the weights.
    pub n_parameters: u64,
    /// The format of the weights in the files, such as `4-bit, group 64`.
    pub stored_as: String,
    /// How the engine computes with the weights, such as `dense f32 on the CPU`.
    pub computed_as: String,
    /// Context length in tokens: the smaller one of the model's limit and the caller's.
    pub context_length: usize,
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// True if the model has a chat template.
    pub has_chat_template: bool,
    /// Sampling parameters that the model's authors recommend (`generation_config.json`), else our
    /// defaults.
    pub recommended_sampling: SamplingParams,
    /// Display name of the draft model that is loaded beside the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
}

impl ModelInfo {
    /// Checks that `tokens` are in the vocabulary.
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
            Some(token) => Err(EngineError::invalid_parameter(
                "token",
                token,
                "below the model's vocabulary size",
            )),
        }
    }

    /// Checks that `tokens` are in the vocabulary and leave space for a response.
    ///
    /// # Errors
    /// Those of [`ModelInfo::check_tokens`], and [`EngineError::PromptTooLong`].
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

    /// Logs that the model was loaded.
    pub fn log_loaded(&self) {
        tracing::info!(
            model = self.name,
            architecture = self.architecture,
            stored = self.stored_as,
            computed = self.computed_as,
            context_length = self.context_length,
            draft = self.draft,
            "model loaded"
        );
    }

    /// Renders a conversation with `template`, the model's chat template, if it has one. Tools that
    /// the template does not know are declared by a standard prompt.
    ///
    /// # Errors
    /// [`EngineError::EmptyPrompt`]; [`EngineError::Template`] if the model has no template; the
    /// errors of [`ChatTemplate::render`].
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
        tools::render(template, chat, now)
    }
}

/// Memory in use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Weights.
    pub weight_bytes: u64,
    /// KV cache of the last conversation, cached for the next request.
    pub kv_cache_bytes: u64,
    /// KV caches of other conversations, at most [`Limits::parked_bytes`].
    #[serde(default)]
    pub parked_bytes: u64,
    /// Freed buffers that the allocator caches for reuse.
    pub allocator_cache_bytes: u64,
    /// Peak of the total since the start of the load.
    pub peak_bytes: u64,
}

impl MemoryUse {
    /// Returns the sum of all parts in use.
    pub fn total_bytes(&self) -> u64 {
        self.weight_bytes + self.kv_cache_bytes + self.parked_bytes + self.allocator_cache_bytes
    }
}
