//! A draft model: a small model with the vocabulary of the main one, which proposes the tokens that
//! may follow a text.
//!
//! Rule: it never fails a response or a load. Without it, responses only take longer.

use std::rc::Rc;

use transom_catalog::fit::llama;
use transom_engine::generation::common_prefix_len;
use transom_engine::speculation::Drafter;
use transom_engine::{EngineError, JobControl, Limits, MemoryNeed, ModelSource};

use crate::files::ModelFiles;
use crate::memory;
use crate::native::{self, Model, ThreadPool};
use crate::session::{CacheConfig, Session};
use crate::weights::load_weights;

#[derive(Debug)]
pub(crate) struct DraftModel {
    /// The KV cache, which also contains the last draft but for its last token.
    session: Session,
    /// A step has failed.
    is_broken: bool,
}

/// A draft model and what is shown about it.
#[derive(Debug)]
pub(crate) struct LoadedDraft {
    pub(crate) name: String,
    pub(crate) weight_bytes: u64,
    pub(crate) model: DraftModel,
}

/// Returns the memory that the draft model of `limits` needs, if it has one whose files can be read.
pub(crate) fn memory_need(limits: &Limits) -> Option<MemoryNeed> {
    let source = limits.draft.as_ref()?;
    let files = ModelFiles::open(&source.path);
    let files = files.inspect_err(|error| warn(source, error)).ok()?;
    Some(llama::need(
        &files.facts,
        native::supports_gpu(),
        limits.kv_cache,
        limits.prefill_chunk as u64,
        memory::context_length(&files.facts, limits) as u64,
    ))
}

/// Loads the draft model of `limits` for `model`, if it has one that can draft.
///
/// # Errors
/// [`EngineError::Canceled`].
pub(crate) fn load(
    model: &Model,
    threads: &Rc<ThreadPool>,
    limits: &Limits,
    control: &JobControl,
) -> Result<Option<LoadedDraft>, EngineError> {
    let Some(source) = &limits.draft else {
        return Ok(None);
    };
    match try_load(source, model, threads, limits, control) {
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
    source: &ModelSource,
    model: &Model,
    threads: &Rc<ThreadPool>,
    limits: &Limits,
    control: &JobControl,
) -> Result<LoadedDraft, EngineError> {
    let files = ModelFiles::open(&source.path)?;
    let has_gpu = native::supports_gpu();
    let draft = Rc::new(load_weights(&files, limits, has_gpu, control, &mut |_| {})?);
    let problem = if model.has_recurrent_state() || draft.has_recurrent_state() {
        "models with recurrent layers have no draft model, because they cannot remove wrong tokens"
    } else if !draft.vocab().has_same_tokens(model.vocab()) {
        "it has another vocabulary than the model; choose a smaller model of the same family"
    } else {
        let weight_bytes = draft.n_bytes();
        let config = CacheConfig::new(&files, &draft, has_gpu, limits);
        let config = CacheConfig {
            parked_bytes: 0,
            ..config
        };
        let mut session = Session::new(draft, threads.clone(), config);
        session.keep_in_memory();
        session.reserve(1)?;
        return Ok(LoadedDraft {
            name: files.name(),
            weight_bytes,
            model: DraftModel {
                session,
                is_broken: false,
            },
        });
    };
    Err(EngineError::bad_file(&source.path, problem))
}

impl DraftModel {
    fn n_cached(&self, tokens: &[u32]) -> usize {
        common_prefix_len(self.session.tokens(), tokens).min(tokens.len().saturating_sub(1))
    }

    /// Removes what is cached but not in `tokens`. Returns the tokens that are not cached, or fewer:
    /// at most `n`.
    fn rewind<'a>(&mut self, tokens: &'a [u32], n: usize) -> &'a [u32] {
        let n_cached = self.n_cached(tokens);
        self.session.truncate(n_cached);
        // A sliding window may have lost tokens.
        let unread = &tokens[self.session.tokens().len()..];
        &unread[..n.min(unread.len())]
    }

    /// Processes `tokens`. Returns the likeliest next token if `wants_next`.
    fn step(&mut self, tokens: &[u32], wants_next: bool) -> Result<Option<u32>, EngineError> {
        let n_logits = usize::from(wants_next);
        // A step is short; the job is stopped after it.
        let control = JobControl::new();
        self.session.append(tokens, n_logits, &control)?;
        if !wants_next {
            self.session.finish();
            return Ok(None);
        }
        let logits = self.session.logits(tokens.len() - 1)?;
        Ok(likeliest(logits))
    }

    fn run<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, EngineError>) -> Option<T> {
        match run(self) {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::warn!(%error, "the draft model is no longer used");
                self.is_broken = true;
                self.session.release();
                None
            }
        }
    }
}

impl Drafter for DraftModel {
    fn n_unread(&self, tokens: &[u32]) -> Option<usize> {
        let has_space = tokens.len() + llama::MAX_DRAFT <= self.session.config().context_length;
        let can_draft = has_space && !self.is_broken && !tokens.is_empty();
        can_draft.then(|| tokens.len() - self.n_cached(tokens))
    }

    fn read(&mut self, tokens: &[u32], n: usize) -> usize {
        let n = n.min(self.session.config().prefill_chunk);
        let read = self.run(|this| {
            let unread = this.rewind(tokens, n);
            this.step(unread, false)?;
            Ok(unread.len())
        });
        read.unwrap_or(0)
    }

    fn propose(&mut self, tokens: &[u32], n: usize, draft: &mut Vec<u32>) {
        let n_max = self.session.config().prefill_chunk.max(llama::MAX_DRAFT);
        let proposed = self.run(|this| {
            let mut next = this.rewind(tokens, usize::MAX).to_vec();
            let mut proposed = Vec::new();
            // More are left only after a sliding window has lost tokens. They are read later.
            while next.len() <= n_max && proposed.len() < n {
                let Some(token) = this.step(&next, true)? else {
                    break;
                };
                proposed.push(token);
                next = vec![token];
            }
            Ok(proposed)
        });
        draft.extend(proposed.unwrap_or_default());
    }

    fn release(&mut self) -> u64 {
        let n_bytes = self.session.cache_bytes();
        self.session.release();
        n_bytes
    }

    fn kv_cache_bytes(&self) -> u64 {
        self.session.cache_bytes()
    }
}

/// Returns the token with the highest logit.
fn likeliest(logits: &[f32]) -> Option<u32> {
    let all = logits.iter().enumerate();
    let (token, _) = all.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    u32::try_from(token).ok()
}
