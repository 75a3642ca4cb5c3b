//! Loads a GGUF file as a [`LlamaModel`].

use std::rc::Rc;

use transom_catalog::Pooling;
use transom_catalog::fit::llama;
use transom_engine::speculation::Speculation;
use transom_engine::{
    Constraints, Engine, EngineError, JobControl, Limits, LoadProgress, LoadedModel, MemoryNeed,
    ModelInfo, ModelSource, OnDrop, Responses, SamplingParams, UnsupportedFeature, trim_heap,
};

use crate::device;
use crate::draft::{self, LoadedDraft};
use crate::embedder::{Encoder, EncoderConfig, LlamaEmbedder};
use crate::files::ModelFiles;
use crate::memory;
use crate::model::LlamaModel;
use crate::native::{self, Model, ThreadPool};
use crate::session::{CacheConfig, Session};
use crate::text;
use crate::weights::load_weights;

/// Tokens per step of speculative decoding: llama.cpp's kernels for CPUs and GPUs process that many
/// rows together, and other numbers cost as much as the next of these.
const STEP_WIDTHS: [usize; 4] = [2, 4, 8, 16];

/// Loads GGUF files and runs them with llama.cpp.
#[derive(Debug, Clone)]
pub struct LlamaEngine {
    n_threads: usize,
    /// `None` if the device decides.
    min_sharing: Option<usize>,
}

impl LlamaEngine {
    /// Creates an engine with one thread per core that is available to this process.
    pub fn new() -> Self {
        Self {
            n_threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
            min_sharing: None,
        }
    }

    /// Sets the number of threads for computing on the CPU. Best is the number of performance
    /// cores, because a step waits for its slowest thread.
    #[must_use]
    pub fn with_threads(mut self, n_threads: usize) -> Self {
        self.n_threads = n_threads.max(1);
        self
    }

    /// Sets how many responses must decode at the same time to share steps; `usize::MAX` if none do.
    /// The default is the number from which on it pays on the device.
    #[must_use]
    pub fn with_min_sharing(mut self, n_responses: usize) -> Self {
        self.min_sharing = Some(n_responses);
        self
    }
}

impl Default for LlamaEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for LlamaEngine {
    fn name(&self) -> &'static str {
        "llama.cpp"
    }

    fn memory_need(
        &self,
        source: &ModelSource,
        limits: &Limits,
    ) -> Result<MemoryNeed, EngineError> {
        let files = ModelFiles::open(&source.path)?;
        native::init();
        // The estimate that users see before a load. `tests/memory_need.rs` compares it with the
        // memory of a process.
        let need = MemoryNeed {
            // An embedding model has no conversations.
            parked_bytes: files.facts.embedding.map_or(limits.parked_bytes, |_| 0),
            ..llama::need(
                &files.facts,
                native::supports_gpu(),
                limits.kv_cache,
                limits.prefill_chunk as u64,
                memory::context_length(&files.facts, limits) as u64,
            )
        };
        // An embedding model drafts nothing.
        let can_draft = files.facts.embedding.is_none();
        let draft = draft::memory_need(limits).filter(|_| can_draft);
        Ok(draft.map_or(need, |draft| need.with_draft(&draft)))
    }

    fn load(
        &self,
        source: &ModelSource,
        limits: &Limits,
        control: &JobControl,
        on_progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Box<dyn LoadedModel>, EngineError> {
        let files = ModelFiles::open(&source.path)?;
        native::init();
        memory::return_large_blocks();
        let has_gpu = native::supports_gpu();
        let model = Rc::new(load_weights(&files, limits, has_gpu, control, on_progress)?);
        check_use(&files, &model)?;
        let threads = ThreadPool::new(self.n_threads).ok_or_else(|| {
            let during = format!("starting {} threads", self.n_threads);
            EngineError::backend(during, "the system refused")
        })?;
        let threads = Rc::new(threads);
        if files.facts.embedding.is_some() {
            return self.load_embedder(&files, model, threads, limits);
        }
        let template = text::chat_template(&files, model.vocab())?;
        let draft = draft::load(&model, &threads, limits, control)?;
        let mut config = CacheConfig::new(&files, &model, has_gpu, limits);
        if let Some(n) = self.min_sharing.filter(|_| model.attends_to_all()) {
            config.min_sharing = n;
        }
        let info = ModelInfo {
            name: files.name(),
            architecture: files.facts.architecture.clone(),
            engine: self.name().to_owned(),
            n_parameters: files.facts.n_parameters,
            stored_as: files.stored_as(),
            computed_as: device::describe(has_gpu, threads.len(), config.cache_type),
            context_length: config.context_length,
            vocab_size: model.vocab().len(),
            has_chat_template: template.is_some(),
            recommended_sampling: files.recommended_sampling(model.vocab().len()),
            draft: draft.as_ref().map(|draft| draft.name.clone()),
        };
        let mut session = Session::new(model.clone(), threads, config);
        // Fails before the load is reported as complete if no context can be created.
        session.reserve(1)?;
        info.log_loaded();
        let draft_weight_bytes = draft.as_ref().map_or(0, |draft| draft.weight_bytes);
        Ok(Box::new(LlamaModel {
            info,
            model,
            draft_weight_bytes,
            template,
            session,
            responses: Responses::default(),
            n_queued: 0,
            speculation: Some(Box::new(speculation(draft))),
            constraints: Constraints::default(),
            _trim_heap: OnDrop(trim_heap),
        }))
    }
}

impl LlamaEngine {
    fn load_embedder(
        &self,
        files: &ModelFiles,
        model: Rc<Model>,
        threads: Rc<ThreadPool>,
        limits: &Limits,
    ) -> Result<Box<dyn LoadedModel>, EngineError> {
        if !model.vocab().has_added_tokens() {
            let reason = "the file does not name the tokens that its tokenizer puts around a text";
            let feature = UnsupportedFeature::Tokenizer;
            return Err(EngineError::unsupported(
                files.first_path(),
                feature,
                reason,
            ));
        }
        let has_gpu = native::supports_gpu();
        let info = ModelInfo {
            name: files.name(),
            architecture: files.facts.architecture.clone(),
            engine: self.name().to_owned(),
            n_parameters: files.facts.n_parameters,
            stored_as: files.stored_as(),
            computed_as: device::describe_weights(has_gpu, threads.len()),
            context_length: memory::context_length(&files.facts, limits),
            vocab_size: model.vocab().len(),
            has_chat_template: false,
            recommended_sampling: SamplingParams::default(),
            draft: None,
        };
        let config = EncoderConfig::new(&files.facts, &info, has_gpu, limits.prefill_chunk);
        let mut encoder = Encoder::new(model, threads, config);
        // Fails before the load is reported as complete if no context can be created.
        encoder.reserve(1)?;
        info.log_loaded();
        Ok(Box::new(LlamaEmbedder {
            info,
            path: files.first_path().to_owned(),
            encoder,
            _trim_heap: OnDrop(trim_heap),
        }))
    }
}

fn speculation(draft: Option<LoadedDraft>) -> Speculation {
    let speculation = Speculation::new(&STEP_WIDTHS);
    match draft {
        Some(draft) => speculation.with_drafter(Box::new(draft.model), llama::MAX_DRAFT),
        None => speculation,
    }
}

/// Refuses models that load but can neither generate nor embed text.
fn check_use(files: &ModelFiles, model: &Model) -> Result<(), EngineError> {
    let refuse = |feature, reason| {
        let path = files.first_path();
        Err(EngineError::unsupported(path, feature, reason))
    };
    let facts = &files.facts;
    let pooling = facts.embedding.map(|embedding| embedding.pooling);
    if pooling == Some(Pooling::Rank) {
        let reason = "this model ranks texts; it neither generates text nor makes vectors";
        return refuse(UnsupportedFeature::Purpose, reason);
    }
    let only_encodes = !llama::has_kv_cache(&facts.architecture);
    if !model.is_decoder_only() || (only_encodes && pooling.is_none()) {
        let reason = "this model encodes text, and its file does not say how to make one vector of \
                      it";
        return refuse(UnsupportedFeature::Purpose, reason);
    }
    if !model.vocab().has_tokenizer() || model.vocab().len() == 0 {
        return refuse(UnsupportedFeature::Tokenizer, "the file has no tokenizer");
    }
    Ok(())
}
