//! Loads a model folder as an [`MlxModel`].

use std::path::Path;
use std::rc::{Rc, Weak};

use transom_catalog::fit::mlx;
use transom_engine::fill_in::END_MARKERS;
use transom_engine::speculation::Speculation;
use transom_engine::{
    ChatTemplate, Constraints, Engine, EngineError, JobControl, Limits, LoadProgress, LoadedModel,
    MemoryNeed, ModelInfo, ModelSource, OnDrop, Responses, Tokenizer, UnsupportedFeature,
};

use crate::config::ModelConfig;
use crate::device::{Compute, dense_limit_bytes, metallib};
use crate::draft::{self, LoadedDraft};
use crate::embedder::Embedder;
use crate::error::Context;
use crate::memory::{context_length, facts, release_unused_memory, reset_peak};
use crate::model::MlxModel;
use crate::models;
use crate::sessions::Sessions;
use crate::shared_steps::{SharedSteps, StepSharing};
use crate::weights::{Loader, WeightFiles};

/// Loads safetensors folders and runs them with MLX.
#[derive(Debug, Clone)]
pub struct MlxEngine {
    dense_limit_bytes: u64,
}

impl MlxEngine {
    /// Returns an engine for the device of this machine's MLX: Metal, CUDA or CPU. Nothing may use MLX
    /// before.
    pub fn new() -> Self {
        metallib::use_bundled();
        Self {
            dense_limit_bytes: dense_limit_bytes(),
        }
    }

    /// Sets the size in bytes up to which a CPU uses dense f32 copies of quantized weights. The
    /// default is a quarter of the machine's memory.
    #[must_use]
    pub fn with_dense_limit_bytes(mut self, bytes: u64) -> Self {
        self.dense_limit_bytes = bytes;
        self
    }

    /// Loads a model like [`Engine::load`], but returns the model itself and not a trait object.
    ///
    /// # Errors
    /// Those of [`Engine::load`].
    pub fn load_model(
        &self,
        source: &ModelSource,
        limits: &Limits,
        control: &JobControl,
        on_progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<MlxModel, EngineError> {
        let folder = &source.path;
        check_folder(folder)?;
        let config = ModelConfig::from_folder(folder, limits.context_length)?;
        let architecture = models::parse(&config)?;
        let size = architecture.size();
        let tokenizer = Tokenizer::from_folder(folder)?;
        let control_tokens = tokenizer.control_tokens();
        let template = ChatTemplate::from_folder(folder, tokenizer.config(), control_tokens)?;
        let files = WeightFiles::open(folder)?;
        let facts = facts(folder)?;
        let embedder = Embedder::of(folder, &facts)?;
        let compute = Compute::choose(&facts, self.dense_limit_bytes).during("device")?;
        let prefill_chunk = compute.prefill_chunk(&facts);
        mlx_rs::memory::set_cache_limit(mlx::ALLOCATOR_CACHE_BYTES as usize)
            .and_then(|_| reset_peak())
            .during("allocator")?;
        let quantization = config.quantization.as_ref();
        let mut loader = Loader::new(&files, quantization, compute, control, on_progress);
        let mut transformer = architecture.load(&mut loader)?;
        transformer.quantizes_parked = mlx::quantizes_parked(!compute.is_cpu(), limits.kv_cache);
        let sessions = Sessions::new(&transformer, limits.parked_bytes);
        let step_widths = compute.step_widths(&facts);
        // Without drafts in its steps, a model has no use for a draft model.
        let can_draft =
            embedder.is_none() && !step_widths.is_empty() && !sessions.current.has_states();
        let draft = if can_draft {
            let vocabulary = (&tokenizer, size.vocab_size);
            draft::load(vocabulary, limits, self.dense_limit_bytes, control)?
        } else {
            None
        };
        let info = ModelInfo {
            name: facts.name.clone().unwrap_or_default(),
            architecture: config.model_type.clone(),
            engine: self.name().to_owned(),
            n_parameters: facts.n_parameters,
            stored_as: stored_as(&files, &config),
            computed_as: compute.describe().to_owned(),
            context_length: context_length(&size, limits),
            vocab_size: size.vocab_size,
            has_chat_template: template.is_some() && embedder.is_none(),
            recommended_sampling: config.sampling.clone(),
            draft: draft.as_ref().map(|draft| draft.name.clone()),
        };
        info.log_loaded();
        let mut sharing = StepSharing::default();
        if compute == Compute::CpuQuantized {
            // There a product takes its time for each row, and measuring a large model takes long.
            sharing.mode = SharedSteps::Never;
        }
        Ok(MlxModel {
            sessions,
            responses: Responses::default(),
            sharing,
            wired: Weak::new(),
            speculation: speculation(&step_widths, draft).map(Box::new),
            constraints: Constraints::default(),
            forced_step: compute.forced_step(),
            end_tokens: end_tokens(&config, &tokenizer),
            tokenizer,
            template,
            transformer: Rc::new(transformer),
            embedder,
            prefill_chunk: limits.prefill_chunk.min(prefill_chunk),
            wired_limit: compute.wired_limit(),
            weight_bytes: mlx_rs::memory::active_memory().during("memory")? as u64,
            info,
            _release: OnDrop(release_unused_memory),
        })
    }
}

impl Default for MlxEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for MlxEngine {
    fn name(&self) -> &'static str {
        "mlx"
    }

    fn memory_need(
        &self,
        source: &ModelSource,
        limits: &Limits,
    ) -> Result<MemoryNeed, EngineError> {
        let folder = &source.path;
        check_folder(folder)?;
        let config = ModelConfig::from_folder(folder, limits.context_length)?;
        let size = models::parse(&config)?.size();
        // Returns the errors that a load would return.
        WeightFiles::open(folder)?;
        let facts = facts(folder)?;
        Embedder::of(folder, &facts)?;
        let compute = Compute::choose(&facts, self.dense_limit_bytes).during("device")?;
        let prefill_chunk = compute.prefill_chunk(&facts);
        // The estimate that users see before a load. `tests/memory_need.rs` compares it with the
        // memory that MLX uses.
        let need = MemoryNeed {
            // An embedding model has no conversations.
            parked_bytes: facts.embedding.map_or(limits.parked_bytes, |_| 0),
            ..mlx::need(
                &facts,
                compute.weights(),
                limits.prefill_chunk.min(prefill_chunk) as u64,
                context_length(&size, limits) as u64,
            )
        };
        let can_draft = !compute.step_widths(&facts).is_empty();
        let draft = draft::memory_need(limits, self.dense_limit_bytes);
        let draft = draft.filter(|_| can_draft && facts.embedding.is_none());
        Ok(draft.map_or(need, |draft| need.with_draft(&draft)))
    }

    fn load(
        &self,
        source: &ModelSource,
        limits: &Limits,
        control: &JobControl,
        on_progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Box<dyn LoadedModel>, EngineError> {
        let model = self.load_model(source, limits, control, on_progress)?;
        Ok(Box::new(model))
    }
}

/// Returns `None` if no step width pays on this device.
fn speculation(step_widths: &[usize], draft: Option<LoadedDraft>) -> Option<Speculation> {
    let max_width = *step_widths.last()?;
    let speculation = Speculation::pipelined(step_widths);
    Some(match draft {
        Some(draft) => speculation.with_drafter(Box::new(draft.model), max_width),
        None => speculation,
    })
}

fn check_folder(folder: &Path) -> Result<(), EngineError> {
    if folder.is_dir() {
        return Ok(());
    }
    if folder.exists() {
        return Err(EngineError::unsupported(
            folder,
            UnsupportedFeature::Format,
            "not a model folder; this engine runs folders with config.json and *.safetensors files",
        ));
    }
    Err(EngineError::not_found(
        folder,
        "model folder",
        "check the path",
    ))
}

fn stored_as(files: &WeightFiles, config: &ModelConfig) -> String {
    match &config.quantization {
        Some(quantization) => quantization.describe(),
        None => files
            .usable()
            .max_by_key(|tensor| tensor.n_bytes())
            .map(|tensor| format!("{:?}", tensor.dtype).to_lowercase())
            .unwrap_or_default(),
    }
}

fn end_tokens(config: &ModelConfig, tokenizer: &Tokenizer) -> Vec<u32> {
    let mut tokens = config.end_tokens.clone();
    let own = tokenizer.config().eos_token.as_deref();
    let names = own.into_iter().chain(END_MARKERS);
    tokens.extend(names.filter_map(|token| tokenizer.token_to_id(token)));
    tokens
}
