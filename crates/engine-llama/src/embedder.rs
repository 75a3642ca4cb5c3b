//! A loaded embedding model: reads texts one after the other, and pools as the file says.
//!
//! A model with causal attention that pools the last token reads a long text in steps, like a prompt,
//! and only its last token has an output. Any other model reads a text in one step.

use std::path::PathBuf;
use std::rc::Rc;

use transom_catalog::fit::llama;
use transom_catalog::{KvType, ModelFacts};
use transom_engine::{
    EmbedInput, Embedding, EngineError, FinishReason, GenerationParams, JobControl, LoadedModel,
    MemoryUse, ModelInfo, OnDrop, PreparedPrompt, Prompt, Stats, TokenInput, TokenPiece, TokenSink,
    Trim, UnsupportedFeature, embedding,
};

use crate::memory;
use crate::native::{self, Batch, Context, ContextParams, Model, StepError, ThreadPool};
use crate::text;

/// Tokens for which the first context has space. It grows with the longest text.
const FIRST_CAPACITY: usize = 256;

/// An embedding model in memory. Created, used and dropped on one thread.
#[derive(Debug)]
pub(crate) struct LlamaEmbedder {
    pub(crate) info: ModelInfo,
    pub(crate) path: PathBuf,
    pub(crate) encoder: Encoder,
    /// The last field, so that it is dropped after everything else is freed.
    pub(crate) _trim_heap: OnDrop,
}

/// How an [`Encoder`] reads a text.
#[derive(Debug, Clone)]
pub(crate) struct EncoderConfig {
    /// Maximum number of tokens of a text.
    context_length: usize,
    /// Maximum number of tokens per step; `None` if a text is one step.
    chunk: Option<usize>,
    /// True if the vector is that of the last token, which must be the one that ends a text.
    ends_with_token: bool,
    flash_attention: bool,
    /// Bytes of keys and values per token.
    bytes_per_token: u64,
}

impl EncoderConfig {
    /// Returns the configuration of a model of `info.context_length` tokens.
    pub(crate) fn new(
        facts: &ModelFacts,
        info: &ModelInfo,
        has_gpu: bool,
        prefill_chunk: usize,
    ) -> Self {
        let in_steps = facts.embeds_in_steps();
        let max_chunk = llama::max_prefill(has_gpu) as usize;
        let kv_bytes = |n_tokens| llama::kv_cache_bytes(facts, n_tokens, KvType::F16);
        let has_kv_cache = llama::has_kv_cache(&facts.architecture);
        Self {
            context_length: info.context_length,
            chunk: in_steps.then(|| prefill_chunk.clamp(1, max_chunk)),
            ends_with_token: in_steps,
            // Without it, the scores of a long text would take gigabytes.
            flash_attention: has_gpu || !in_steps,
            bytes_per_token: match has_kv_cache {
                true => kv_bytes(1) - kv_bytes(0),
                false => 0,
            },
        }
    }
}

/// Computes vectors.
#[derive(Debug)]
pub(crate) struct Encoder {
    model: Rc<Model>,
    threads: Rc<ThreadPool>,
    config: EncoderConfig,
    /// Created when it is first needed, and again after it was released.
    context: Option<Context>,
    batch: Batch,
}

impl Encoder {
    pub(crate) fn new(model: Rc<Model>, threads: Rc<ThreadPool>, config: EncoderConfig) -> Self {
        Self {
            model,
            threads,
            config,
            context: None,
            batch: Batch::default(),
        }
    }

    /// Ensures that the context has space for a text of `n_tokens`.
    ///
    /// # Errors
    /// [`EngineError::Backend`] if there is not enough memory, or if llama.cpp does not read the file
    /// as its metadata says.
    pub(crate) fn reserve(&mut self, n_tokens: usize) -> Result<(), EngineError> {
        let has_space = |context: &Context| context.capacity() >= n_tokens;
        if self.context.as_ref().is_some_and(has_space) {
            return Ok(());
        }
        // Freed before the larger one is allocated.
        self.context = None;
        let capacity = n_tokens.max(FIRST_CAPACITY).next_power_of_two();
        let capacity = capacity.min(self.config.context_length);
        let params = ContextParams {
            n_sequences: 1,
            n_tokens: capacity,
            n_batch: self.config.chunk.unwrap_or(capacity),
            n_logits: self.config.chunk.map_or(capacity, |_| 1),
            cache_type: KvType::F16,
            flash_attention: self.config.flash_attention,
            embeds: true,
        };
        let context = Context::new(self.model.clone(), self.threads.clone(), params);
        let context = context.ok_or_else(|| {
            let during = format!("allocating a context for {capacity} tokens");
            failed(&during, "not enough memory")
        })?;
        if self.config.chunk.is_some() && !context.is_causal() {
            let reason = "its attention is not causal, but the file does not say so";
            return Err(EngineError::backend("loading an embedding model", reason));
        }
        self.context = Some(context);
        Ok(())
    }

    /// Returns the tokens of an input; `None` for texts of 2 GB and more.
    fn tokenize(&self, input: &EmbedInput) -> Option<Vec<u32>> {
        let text = match input {
            EmbedInput::Tokens(tokens) => return Some(tokens.clone()),
            EmbedInput::Text(text) => text,
        };
        let vocab = self.model.vocab();
        let mut tokens = vocab.tokenize(text, true)?;
        // Not every file says that its tokenizer adds this token.
        if self.config.ends_with_token
            && let Some(end) = vocab.end()
            && tokens.last() != Some(&end)
        {
            tokens.push(end);
        }
        Some(tokens)
    }

    /// Returns the pooled vector of `tokens`, at least one; `None` if the job was stopped.
    fn encode(
        &mut self,
        tokens: &[u32],
        control: &JobControl,
    ) -> Result<Option<Vec<f32>>, EngineError> {
        self.reserve(tokens.len())?;
        let Some(context) = &mut self.context else {
            return Ok(None);
        };
        context.clear();
        let n_threads = self.threads.len();
        context.set_n_threads(n_threads);
        // All tokens of a step that embeds have an output, so only the last one takes such a step.
        let n_before = self.config.chunk.map_or(0, |_| tokens.len() - 1);
        let (before, rest) = tokens.split_at(n_before);
        context.set_embeds(false);
        let chunk_len = self.config.chunk.unwrap_or(1);
        for (index, chunk) in before.chunks(chunk_len).enumerate() {
            self.batch.fill(chunk, index * chunk_len, 0);
            if control.is_stopped() || !step(context, &mut self.batch, control)? {
                return Ok(None);
            }
        }
        context.set_embeds(true);
        self.batch.fill(rest, n_before, rest.len());
        if !step(context, &mut self.batch, control)? {
            return Ok(None);
        }
        let vector = context.embedding().map(<[f32]>::to_vec);
        let vector = vector.ok_or_else(|| failed("embedding", "llama.cpp has no vector"))?;
        Ok(Some(vector))
    }

    fn cache_bytes(&self) -> u64 {
        let n_tokens = self.context.as_ref().map_or(0, Context::capacity);
        n_tokens as u64 * self.config.bytes_per_token
    }

    fn release(&mut self) {
        self.context = None;
        transom_engine::trim_heap();
    }
}

/// Computes a step. Returns false if `job` was stopped.
fn step(context: &mut Context, batch: &mut Batch, job: &JobControl) -> Result<bool, EngineError> {
    match context.step(batch, job) {
        Ok(()) => Ok(true),
        Err(StepError::Stopped) => Ok(false),
        Err(StepError::Failed(code)) => {
            let code = format!("llama.cpp's code {code}");
            Err(failed("computing a step", &code))
        }
    }
}

/// Returns an error with llama.cpp's own reason, if it logged one.
fn failed(during: &str, otherwise: &str) -> EngineError {
    let logged = native::take_first_error();
    EngineError::backend(during, logged.as_deref().unwrap_or(otherwise))
}

impl LlamaEmbedder {
    fn no_text(&self) -> EngineError {
        let reason = "this model makes embedding vectors; it does not generate text";
        EngineError::unsupported(&self.path, UnsupportedFeature::Purpose, reason)
    }
}

impl LoadedModel for LlamaEmbedder {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn prepare(&self, _: &Prompt) -> Result<PreparedPrompt, EngineError> {
        Err(self.no_text())
    }

    fn pieces(&self, input: &TokenInput) -> Result<Vec<TokenPiece>, EngineError> {
        text::pieces(&self.info, self.encoder.model.vocab(), input)
    }

    fn generate(
        &mut self,
        _: &PreparedPrompt,
        _: &GenerationParams,
        _: &JobControl,
        _: &mut dyn TokenSink,
    ) -> Result<(FinishReason, Stats), EngineError> {
        Err(self.no_text())
    }

    fn embed(
        &mut self,
        inputs: &[EmbedInput],
        control: &JobControl,
        sink: &mut dyn FnMut(Embedding),
    ) -> Result<(FinishReason, Stats), EngineError> {
        let tokens: Option<Vec<Vec<u32>>> = inputs
            .iter()
            .map(|input| self.encoder.tokenize(input))
            .collect();
        let tokens = tokens.ok_or_else(|| {
            EngineError::invalid_parameter("input", "2 GB or more", "less than 2 GB")
        })?;
        let Self { info, encoder, .. } = self;
        let run = embedding::run(info, &tokens, control, sink, |tokens| {
            encoder.encode(tokens, control)
        });
        encoder.threads.pause();
        let (reason, stats) = run?;
        let stats = Stats {
            peak_memory_bytes: self.memory().peak_bytes,
            ..stats
        };
        Ok((reason, stats))
    }

    fn trim(&mut self, trim: Trim) -> u64 {
        match trim {
            Trim::KeepConversation => 0,
            Trim::Everything => {
                let n_bytes = self.encoder.cache_bytes();
                self.encoder.release();
                n_bytes
            }
        }
    }

    fn memory(&self) -> MemoryUse {
        let in_use = MemoryUse {
            weight_bytes: self.encoder.model.n_bytes(),
            kv_cache_bytes: self.encoder.cache_bytes(),
            ..MemoryUse::default()
        };
        MemoryUse {
            // The memory of a GPU is not part of the process's own count.
            peak_bytes: memory::peak_process_bytes().max(in_use.total_bytes()),
            ..in_use
        }
    }
}
