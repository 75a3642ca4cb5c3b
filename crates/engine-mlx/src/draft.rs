//! A draft model: a small model with the vocabulary of the main one, which proposes the tokens that
//! may follow a text.
//!
//! Rule: it never fails a response or a load. Without it, responses only take longer.

use std::fmt;
use std::path::Path;

use mlx_rs::Array;
use mlx_rs::ops::indexing::argmax_axis;
use mlx_rs::transforms::eval;
use transom_catalog::fit::mlx;
use transom_engine::speculation::Drafter;
use transom_engine::{
    EngineError, JobControl, Limits, LoadProgress, MemoryNeed, ModelSource, ParkedState, Tokenizer,
};

use crate::config::ModelConfig;
use crate::decoder::token_id;
use crate::device::Compute;
use crate::error::{Context, MlxResult};
use crate::memory::{context_length, facts};
use crate::models;
use crate::nn::{Positions, Transformer};
use crate::session::Session;
use crate::weights::{Loader, WeightFiles};

pub(crate) struct DraftModel {
    transformer: Transformer,
    /// The KV cache, which also contains the last draft but for its last token.
    session: Session,
    context_length: usize,
    prefill_chunk: usize,
    /// A step has failed.
    is_broken: bool,
}

/// A draft model and its display name.
#[derive(Debug)]
pub(crate) struct LoadedDraft {
    pub(crate) name: String,
    pub(crate) model: DraftModel,
}

/// Returns the memory that the draft model of `limits` needs, if it has one whose files can be read.
pub(crate) fn memory_need(limits: &Limits, dense_limit_bytes: u64) -> Option<MemoryNeed> {
    let source = limits.draft.as_ref()?;
    let need = try_memory_need(&source.path, limits, dense_limit_bytes);
    need.inspect_err(|error| warn(source, error)).ok()
}

fn try_memory_need(
    folder: &Path,
    limits: &Limits,
    dense_limit_bytes: u64,
) -> Result<MemoryNeed, EngineError> {
    let config = ModelConfig::from_folder(folder, limits.context_length)?;
    let size = models::parse(&config)?.size();
    let facts = facts(folder)?;
    let compute = Compute::choose(&facts, dense_limit_bytes).during("device")?;
    let prefill_chunk = compute.prefill_chunk(&facts);
    Ok(mlx::need(
        &facts,
        compute.weights(),
        limits.prefill_chunk.min(prefill_chunk) as u64,
        context_length(&size, limits) as u64,
    ))
}

/// Loads the draft model of `limits` for the model with `tokenizer` and logits of `vocab_size` tokens,
/// if it has one that can draft.
///
/// # Errors
/// [`EngineError::Canceled`].
pub(crate) fn load(
    (tokenizer, vocab_size): (&Tokenizer, usize),
    limits: &Limits,
    dense_limit_bytes: u64,
    control: &JobControl,
) -> Result<Option<LoadedDraft>, EngineError> {
    let Some(source) = &limits.draft else {
        return Ok(None);
    };
    let folder = &source.path;
    match try_load(
        folder,
        (tokenizer, vocab_size),
        limits,
        dense_limit_bytes,
        control,
    ) {
        Ok(draft) => Ok(Some(draft)),
        Err(EngineError::Canceled) => Err(EngineError::Canceled),
        Err(error) => {
            warn(source, &error);
            Ok(None)
        }
    }
}

fn warn(source: &ModelSource, error: &EngineError) {
    let path = source.path.display();
    tracing::warn!(%path, %error, "the model is used without its draft model");
}

fn try_load(
    folder: &Path,
    (tokenizer, vocab_size): (&Tokenizer, usize),
    limits: &Limits,
    dense_limit_bytes: u64,
    control: &JobControl,
) -> Result<LoadedDraft, EngineError> {
    let config = ModelConfig::from_folder(folder, limits.context_length)?;
    let architecture = models::parse(&config)?;
    let size = architecture.size();
    // Before the weights are read.
    let own = Tokenizer::from_folder(folder)?;
    if size.vocab_size != vocab_size || !own.has_same_tokens(tokenizer) {
        let problem =
            "it has another vocabulary than the model; choose a smaller model of the same family";
        return Err(EngineError::bad_file(folder, problem));
    }
    let files = WeightFiles::open(folder)?;
    let facts = facts(folder)?;
    let compute = Compute::choose(&facts, dense_limit_bytes).during("device")?;
    let prefill_chunk = compute.prefill_chunk(&facts);
    let quantization = config.quantization.as_ref();
    let mut ignore_progress = |_: LoadProgress| {};
    let mut loader = Loader::new(&files, quantization, compute, control, &mut ignore_progress);
    let transformer = architecture.load(&mut loader)?;
    let session = Session::new(&transformer);
    if session.has_states() {
        let problem =
            "models with recurrent layers cannot draft, because they cannot remove wrong tokens";
        return Err(EngineError::bad_file(folder, problem));
    }
    Ok(LoadedDraft {
        name: facts.name.clone().unwrap_or_default(),
        model: DraftModel {
            transformer,
            session,
            context_length: context_length(&size, limits),
            prefill_chunk: limits.prefill_chunk.min(prefill_chunk),
            is_broken: false,
        },
    })
}

impl DraftModel {
    /// Removes what is cached but not in `tokens`. Returns the number of cached tokens.
    fn rewind(&mut self, tokens: &[u32]) -> usize {
        let n_cached = self.session.reusable_tokens(tokens);
        self.session.rewind(n_cached);
        n_cached
    }

    fn try_read(&mut self, tokens: &[u32], n: usize) -> MlxResult<usize> {
        let n_cached = self.rewind(tokens);
        let unread = &tokens[n_cached..];
        let part = &unread[..n.min(self.prefill_chunk).min(unread.len())];
        if part.is_empty() {
            return Ok(0);
        }
        let ids = Array::from_slice(part, &[part.len() as i32]);
        let caches = self.session.caches_mut();
        // Only the caches are evaluated, so the logits are never computed.
        self.transformer
            .logits(&ids, &mut [caches], Positions::Last)?;
        eval(self.session.arrays())?;
        self.session.processed(part);
        Ok(part.len())
    }

    fn try_propose(&mut self, tokens: &[u32], n: usize) -> MlxResult<Vec<u32>> {
        let n_cached = self.rewind(tokens);
        let unread = &tokens[n_cached..];
        let mut next = Array::from_slice(unread, &[unread.len() as i32]);
        let mut proposed = Vec::with_capacity(n);
        // All steps are queued before the first token is known.
        for _ in 0..n {
            let caches = self.session.caches_mut();
            let logits = self
                .transformer
                .logits(&next, &mut [caches], Positions::Last)?;
            next = argmax_axis(&logits, -1, false)?;
            proposed.push(next.clone());
        }
        eval(&proposed)?;
        let proposed: Vec<u32> = proposed.iter().map(token_id).collect::<MlxResult<_>>()?;
        if let Some((_, processed)) = proposed.split_last() {
            self.session.processed(unread);
            self.session.processed(processed);
        }
        Ok(proposed)
    }

    /// Returns the result of a step. After a failed one, the draft model is no longer used.
    fn check<T: Default>(&mut self, result: MlxResult<T>) -> T {
        result.unwrap_or_else(|error| {
            tracing::warn!(%error, "the draft model is no longer used");
            self.is_broken = true;
            // Its arrays were never computed; using one would run the failed step again.
            self.session = Session::new(&self.transformer);
            T::default()
        })
    }
}

impl Drafter for DraftModel {
    fn n_unread(&self, tokens: &[u32]) -> Option<usize> {
        let has_space = tokens.len() + mlx::MAX_STEP_WIDTH as usize <= self.context_length;
        let can_draft = has_space && !self.is_broken && !tokens.is_empty();
        can_draft.then(|| tokens.len() - self.session.reusable_tokens(tokens))
    }

    fn read(&mut self, tokens: &[u32], n: usize) -> usize {
        let result = self.try_read(tokens, n);
        self.check(result)
    }

    fn propose(&mut self, tokens: &[u32], n: usize, draft: &mut Vec<u32>) {
        let result = self.try_propose(tokens, n);
        draft.extend(self.check(result));
    }

    fn release(&mut self) -> u64 {
        let n_bytes = self.session.bytes();
        self.session.clear();
        n_bytes
    }

    fn kv_cache_bytes(&self) -> u64 {
        self.session.bytes()
    }
}

impl fmt::Debug for DraftModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DraftModel")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
