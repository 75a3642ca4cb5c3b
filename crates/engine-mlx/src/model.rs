//! A loaded model. This file has its memory and the trait implementation, `model/generate.rs` the
//! generation of responses, `state.rs` saving and restoring.

mod generate;

use std::path::Path;

use transom_engine::{
    ChatTemplate, EngineError, FinishReason, GenerationParams, JobControl, LoadedModel, MemoryUse,
    ModelInfo, PreparedPrompt, Prompt, Stats, TokenSink, Tokenizer, Trim,
};

use crate::error::Context;
use crate::memory::release_unused_memory;
use crate::nn::{Positions, Transformer};
use crate::session::Session;
use crate::state;

/// A model in memory. It must be created, used and dropped on one thread.
pub struct MlxModel {
    parts: Parts,
    session: Session,
    /// The last field, so that it is dropped after the arrays.
    _release: ReleaseMemoryOnDrop,
}

struct ReleaseMemoryOnDrop;

impl Drop for ReleaseMemoryOnDrop {
    fn drop(&mut self) {
        release_unused_memory();
    }
}

pub(crate) struct Parts {
    pub(crate) info: ModelInfo,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) template: Option<ChatTemplate>,
    pub(crate) end_tokens: Vec<u32>,
    pub(crate) transformer: Transformer,
    pub(crate) prefill_chunk: usize,
    pub(crate) weight_bytes: u64,
}

impl MlxModel {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            session: Session::new(&parts.transformer),
            parts,
            _release: ReleaseMemoryOnDrop,
        }
    }

    /// Returns the logits that follow each of `tokens`, one row of `vocab_size` per token. They are
    /// computed with an empty KV cache, to compare numerics.
    ///
    /// # Errors
    /// [`EngineError::EmptyPrompt`], [`EngineError::InvalidParameter`] for ids outside the
    /// vocabulary, [`EngineError::Backend`].
    pub fn logits(&self, tokens: &[u32]) -> Result<Vec<Vec<f32>>, EngineError> {
        let Parts {
            info, transformer, ..
        } = &self.parts;
        info.check_tokens(tokens)?;
        let ids = mlx_rs::Array::from_slice(tokens, &[tokens.len() as i32]);
        let logits = transformer
            .logits(&ids, &mut transformer.new_caches(), Positions::All)
            .and_then(|logits| logits.as_dtype(mlx_rs::Dtype::Float32)?.contiguous())
            .during("logits")?;
        let values = logits
            .try_as_slice::<f32>()
            .map_err(|error| EngineError::backend("logits", error))?;
        let rows = values.chunks(info.vocab_size);
        Ok(rows.map(<[f32]>::to_vec).collect())
    }
}

impl LoadedModel for MlxModel {
    fn info(&self) -> &ModelInfo {
        &self.parts.info
    }

    fn prepare(&self, prompt: &Prompt) -> Result<PreparedPrompt, EngineError> {
        generate::prepare(&self.parts, prompt)
    }

    fn generate(
        &mut self,
        prompt: &PreparedPrompt,
        params: &GenerationParams,
        control: &JobControl,
        sink: &mut dyn TokenSink,
    ) -> Result<(FinishReason, Stats), EngineError> {
        self.generate_tokens(prompt, params, control, sink, &mut |_| {})
    }

    fn trim(&mut self, trim: Trim) -> u64 {
        let before = self.memory();
        if trim == Trim::Everything {
            self.session.clear();
        }
        release_unused_memory();
        let after = self.memory();
        let held = |memory: MemoryUse| memory.kv_cache_bytes + memory.allocator_cache_bytes;
        held(before).saturating_sub(held(after))
    }

    fn memory(&self) -> MemoryUse {
        MemoryUse {
            weight_bytes: self.parts.weight_bytes,
            kv_cache_bytes: self.session.bytes(),
            allocator_cache_bytes: mlx_rs::memory::cache_memory().unwrap_or(0) as u64,
            peak_bytes: mlx_rs::memory::peak_memory().unwrap_or(0) as u64,
        }
    }

    fn save_state(&self, path: &Path) -> Result<usize, EngineError> {
        let Parts {
            info, transformer, ..
        } = &self.parts;
        state::save(&self.session, transformer, info, path)
    }

    fn restore_state(&mut self, path: &Path) -> Result<usize, EngineError> {
        self.session = state::restore(&self.parts.transformer, &self.parts.info, path)?;
        Ok(self.session.tokens().len())
    }
}

#[cfg(test)]
mod tests;
