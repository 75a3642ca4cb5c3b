//! Embeds texts with the hidden states after the last norm, one text after the other.
//!
//! Attention is causal, so a long text is read in chunks, like a prompt. The vector of its last token
//! is the result, or the sum of all, which has the direction of their mean.

use std::path::{Path, PathBuf};

use mlx_rs::transforms::eval;
use mlx_rs::{Array, Dtype};
use transom_catalog::{ModelFacts, Pooling};
use transom_engine::{EmbedInput, EngineError, JobControl, Tokenizer, UnsupportedFeature};

use crate::error::Context;
use crate::kv_cache::LayerCache;
use crate::memory::release_unused_memory;
use crate::nn::{Positions, Transformer};

/// The operation in error messages.
const EMBEDDING: &str = "embedding";

/// How a model embeds.
#[derive(Debug)]
pub(crate) struct Embedder {
    folder: PathBuf,
    /// Which tokens are in the result: all, or only the last one.
    positions: Positions,
}

impl Embedder {
    /// Returns how the model in `folder` embeds; `None` if it generates text.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] for what only llama.cpp can do: attention in both directions,
    /// another pooling, and a matrix after it.
    pub(crate) fn of(folder: &Path, facts: &ModelFacts) -> Result<Option<Self>, EngineError> {
        let Some(embedding) = &facts.embedding else {
            return Ok(None);
        };
        let refuse = |reason: &str| {
            let reason = format!("{reason}; use the model's GGUF file");
            Err(EngineError::unsupported(
                folder,
                UnsupportedFeature::Other,
                reason,
            ))
        };
        if !embedding.is_causal {
            return refuse("this engine does not run attention in both directions");
        }
        if embedding.has_dense {
            return refuse("this engine runs no matrix after the pooling");
        }
        let positions = match embedding.pooling {
            Pooling::Last => Positions::Last,
            Pooling::Mean => Positions::All,
            Pooling::Cls | Pooling::Rank => {
                return refuse("this engine pools the last token or the mean of all");
            }
        };
        Ok(Some(Self {
            folder: folder.to_owned(),
            positions,
        }))
    }

    /// Returns the error of a request for text.
    pub(crate) fn no_text(&self) -> EngineError {
        let reason = "this model makes embedding vectors; it does not generate text";
        EngineError::unsupported(&self.folder, UnsupportedFeature::Purpose, reason)
    }

    /// Returns the tokens of an input. A text ends with one of `end_tokens`, which not every
    /// conversion of a tokenizer adds.
    pub(crate) fn tokenize(
        &self,
        input: &EmbedInput,
        tokenizer: &Tokenizer,
        end_tokens: &[u32],
    ) -> Result<Vec<u32>, EngineError> {
        let text = match input {
            EmbedInput::Tokens(tokens) => return Ok(tokens.clone()),
            EmbedInput::Text(text) => text,
        };
        let mut tokens = tokenizer.encode(text, true)?;
        let is_ended = tokens.last().is_some_and(|last| end_tokens.contains(last));
        if self.positions == Positions::Last && !is_ended {
            tokens.extend(end_tokens.first());
        }
        Ok(tokens)
    }

    /// Returns the pooled vector of `tokens`, which are read in steps of at most `chunk` tokens;
    /// `None` if the job was stopped.
    pub(crate) fn embed(
        &self,
        transformer: &Transformer,
        tokens: &[u32],
        chunk: usize,
        control: &JobControl,
    ) -> Result<Option<Vec<f32>>, EngineError> {
        if control.take_trim_request() {
            release_unused_memory();
        }
        let mut caches = transformer.new_caches();
        let mut sum = Vec::new();
        let mut n_left = tokens.len();
        for chunk in tokens.chunks(chunk.max(1)) {
            if control.is_stopped() {
                return Ok(None);
            }
            n_left -= chunk.len();
            let ids = Array::from_slice(chunk, &[chunk.len() as i32]);
            let hidden = transformer
                .hidden_states(&ids, &mut [&mut caches], self.positions)
                .during(EMBEDDING)?;
            if n_left == 0 || self.positions == Positions::All {
                add_rows(&mut sum, &hidden)?;
            } else {
                // Only the caches are evaluated, so the last norm of this chunk is never computed.
                eval(caches.iter().flat_map(LayerCache::arrays)).during(EMBEDDING)?;
            }
        }
        Ok(Some(sum))
    }
}

/// Adds the rows of `hidden` `[1, rows, hidden_size]` to `sum`, which is empty at first.
fn add_rows(sum: &mut Vec<f32>, hidden: &Array) -> Result<(), EngineError> {
    let rows = hidden
        .as_dtype(Dtype::Float32)
        .and_then(|hidden| hidden.contiguous())
        .during(EMBEDDING)?;
    let values = rows
        .try_as_slice::<f32>()
        .map_err(|error| EngineError::backend(EMBEDDING, error))?;
    let hidden_size = usize::try_from(hidden.dim(2)).unwrap_or(0).max(1);
    sum.resize(hidden_size, 0.0);
    for row in values.chunks_exact(hidden_size) {
        for (sum, value) in sum.iter_mut().zip(row) {
            *sum += value;
        }
    }
    Ok(())
}
