//! The interface of an inference engine. `engine-mlx` and `engine-llama` implement [`Engine`] and
//! [`LoadedModel`]; all other code uses a model only through them.
//!
//! Rule: engines block. A loaded model is used and dropped on the thread that loaded it
//! ([`LoadedModel`] is deliberately not `Send`).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use transom_fit::{DEFAULT_CONTEXT, KvCacheChoice, MemoryNeed};

use crate::embedding::{EmbedInput, Embedding, not_an_embedding_model};
use crate::error::EngineError;
use crate::event::{FinishReason, Stats, TokenEvent};
use crate::job_control::JobControl;
use crate::model_info::ModelInfo;
use crate::request::{GenerationParams, PreparedPrompt, Prompt};
use crate::responses::ResponseId;
use crate::saved::SavableCache;
use crate::token_pieces::{TokenInput, TokenPiece};

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

    /// Returns the tokens of `input`, in order.
    ///
    /// # Errors
    /// [`EngineError::InvalidParameter`] for ids outside the vocabulary; [`EngineError::Backend`] for a
    /// model without a tokenizer, as by default.
    fn pieces(&self, _: &TokenInput) -> Result<Vec<TokenPiece>, EngineError> {
        let during = "converting tokens";
        Err(EngineError::backend(during, "the model has no tokenizer"))
    }

    /// Generates a response alone, and reports to `sink` on the calling thread. By default takes all steps
    /// of a response that [`LoadedModel::begin`] began.
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
    ) -> Result<(FinishReason, Stats), EngineError> {
        let Some(id) = self.begin(prompt, params, control)? else {
            let reason = "this model begins no responses";
            return Err(EngineError::backend("generating", reason));
        };
        loop {
            if let Some(end) = self.step(id, sink)? {
                return Ok(end);
            }
        }
    }

    /// Begins a response that is generated in steps, in turns with other responses of this model; each
    /// has a KV cache of its own. `None` if the model generates one response at a time, with
    /// [`LoadedModel::generate`], as by default.
    ///
    /// While responses are in progress, only [`LoadedModel::info`], [`LoadedModel::prepare`],
    /// [`LoadedModel::count_tokens`], [`LoadedModel::memory`], the restoring of a saved conversation,
    /// this method, [`LoadedModel::set_queued`], [`LoadedModel::step`] and [`LoadedModel::next_step`] may be
    /// called. Dropping the model ends all of them.
    ///
    /// # Errors
    /// [`EngineError::InvalidParameter`], and [`EngineError::Backend`] if there is not enough memory.
    /// Responses in progress go on.
    fn begin(
        &mut self,
        _: &PreparedPrompt,
        _: &GenerationParams,
        _: &JobControl,
    ) -> Result<Option<ResponseId>, EngineError> {
        Ok(None)
    }

    /// Computes the next step of a response, a part of its prompt or a token, and reports to `sink`
    /// the events of [`LoadedModel::generate`]. Returns the end of the response, if this step was the
    /// last one. An engine may compute the tokens of several responses at once, so that they are ready
    /// when it is their turn.
    ///
    /// # Errors
    /// Those of [`LoadedModel::generate`]; the response has ended then.
    fn step(
        &mut self,
        _: ResponseId,
        _: &mut dyn TokenSink,
    ) -> Result<Option<(FinishReason, Stats)>, EngineError> {
        let reason = "this model generates one response at a time";
        Err(EngineError::backend("generating", reason))
    }

    /// Tells how many more responses are about to begin, so that the model can make room for all of them at
    /// once.
    fn set_queued(&mut self, _: usize) {}

    /// Returns what the next step of a response has to do.
    fn next_step(&self, _: ResponseId) -> NextStep {
        NextStep::Compute
    }

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

/// What the next step of a response has to do, in the order in which responses have their turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextStep {
    /// To take a token that an earlier step, also of another response, has computed, which is done at once.
    Take,
    /// To compute.
    Compute,
    /// Nothing until its constraint is compiled, for which it waits for a moment.
    Wait,
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
