//! What the model remembers of a conversation: its tokens, and their keys and values.
//!
//! Rule: `tokens` are exactly the tokens in the cache, at positions from 0 on. Every method leaves
//! it so, whatever fails.

use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;

use transom_catalog::KvType;
use transom_catalog::fit::llama::room_made_for;
use transom_engine::{EngineError, JobControl};

use crate::crew::Crew;
use crate::device::Device;
use crate::memory;
use crate::native::{self, Batch, Context, Model, StepError, Threads};

/// Runs of tokens shorter than this are not worth moving.
const LEAST_MOVED: usize = 32;

/// How the cache is made.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) device: Device,
    pub(crate) cache_type: KvType,
    pub(crate) prefill_chunk: usize,
    /// Most tokens of a conversation.
    pub(crate) context_length: usize,
    /// Bytes of keys and values of a token.
    pub(crate) token_bytes: u64,
    /// Bytes of states, however many tokens there are.
    pub(crate) fixed_bytes: u64,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Session {
    model: Rc<Model>,
    threads: Rc<Threads>,
    plan: Plan,
    /// Made when it is first needed, and again after it was given back.
    context: Option<Context>,
    tokens: Vec<u32>,
    batch: Batch,
    crew: Crew,
}

impl Session {
    /// An empty session.
    pub(crate) fn new(model: Rc<Model>, threads: Rc<Threads>, plan: Plan) -> Self {
        Self {
            crew: Crew::new(threads.len()),
            model,
            threads,
            plan,
            context: None,
            tokens: Vec::new(),
            batch: Batch::default(),
        }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Tokens in the cache.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Bytes of the cache that is there now, used or not.
    pub(crate) fn cache_bytes(&self) -> u64 {
        let bytes = |context: &Context| {
            context.capacity() as u64 * self.plan.token_bytes + self.plan.fixed_bytes
        };
        self.context.as_ref().map_or(0, bytes)
    }

    /// Whether parts of a conversation can be taken back, as checking guessed tokens needs.
    pub(crate) fn can_take_back(&self) -> bool {
        !self.model.has_running_state()
    }

    /// Makes the cache hold `n_tokens`, keeping what is in it.
    ///
    /// # Errors
    /// [`EngineError::Backend`] when there is no memory for it; the session is empty then.
    pub(crate) fn reserve(&mut self, n_tokens: usize) -> Result<(), EngineError> {
        let n_tokens = n_tokens.min(self.plan.context_length);
        let is_enough = |context: &Context| context.capacity() >= n_tokens;
        if self.context.as_ref().is_some_and(is_enough) {
            return Ok(());
        }
        let state = self.state();
        // Given back before the larger one is made.
        self.context = None;
        self.make_context(n_tokens, state.as_deref())
    }

    fn make_context(&mut self, n_tokens: usize, state: Option<&[u8]>) -> Result<(), EngineError> {
        let capacity = capacity(n_tokens, self.plan.context_length);
        let Plan {
            device,
            prefill_chunk,
            cache_type,
            ..
        } = self.plan;
        let params = device.context_params(capacity, prefill_chunk, cache_type);
        let context = Context::new(self.model.clone(), self.threads.clone(), params);
        let Some(mut context) = context else {
            self.tokens.clear();
            return Err(EngineError::Backend {
                during: format!("making a KV cache for {capacity} tokens"),
                message: native::first_error().unwrap_or_else(|| "no memory".to_owned()),
            });
        };
        if !state.is_some_and(|state| context.set_state(state)) {
            self.tokens.clear();
        }
        self.context = Some(context);
        Ok(())
    }

    /// Keeps what `prompt` shares with the conversation so far and forgets the rest. Returns the
    /// tokens kept, at least one fewer than `prompt` has: the last must be processed for its logits.
    ///
    /// With `may_move`, tokens that come later in the conversation than in the prompt, because
    /// something between was left out, are moved down to where the prompt has them.
    pub(crate) fn reuse(&mut self, prompt: &[u32], may_move: bool) -> usize {
        let most = prompt.len().saturating_sub(1);
        let shared = n_shared(&self.tokens, &prompt[..most]);
        if may_move {
            self.move_down(shared, &prompt[shared..most]);
        }
        let kept = n_shared(&self.tokens, &prompt[..most]);
        self.truncate(kept);
        self.tokens.len()
    }

    /// Moves the longest run of tokens after `start` that `wanted` begins with down to `start`.
    fn move_down(&mut self, start: usize, wanted: &[u32]) {
        if !self.context.as_ref().is_some_and(Context::can_shift) {
            return;
        }
        let later = (start + 1)..self.tokens.len();
        let runs = later.map(|from| (n_shared(&self.tokens[from..], wanted), from));
        let Some((length, from)) = runs.max() else {
            return;
        };
        if length >= LEAST_MOVED {
            self.truncate(from + length);
            self.forget(start..from);
        }
    }

    /// Forgets the older half of what follows the first `n_kept` tokens, and moves the rest down.
    /// Returns the places of the tokens forgotten; `None` if this cache cannot.
    pub(crate) fn shift(&mut self, n_kept: usize) -> Option<Range<usize>> {
        if !self.context.as_ref().is_some_and(Context::can_shift) {
            return None;
        }
        // A system prompt that fills the context would leave nothing to forget.
        let n_kept = n_kept.min(self.tokens.len() / 2);
        let forgotten = n_kept..n_kept + (self.tokens.len() - n_kept) / 2;
        self.forget(forgotten.clone()).then_some(forgotten)
    }

    /// Takes tokens out of the middle. Returns whether the model can do that.
    fn forget(&mut self, range: Range<usize>) -> bool {
        let Some(context) = &mut self.context else {
            return false;
        };
        if range.is_empty() || !context.remove(range.clone()) {
            return false;
        }
        context.shift_down(range.end..self.tokens.len(), range.len());
        self.tokens.drain(range);
        true
    }

    /// Forgets all but the first `n` tokens; everything where the model cannot take a part back.
    pub(crate) fn truncate(&mut self, n: usize) {
        if n >= self.tokens.len() {
            return;
        }
        let end = self.tokens.len();
        self.tokens.truncate(n);
        if let Some(context) = &mut self.context
            && !context.remove(n..end)
        {
            context.clear();
            self.tokens.clear();
        }
    }

    /// Processes `tokens`, of which the last `n_logits` give logits. Not more than a step's worth,
    /// and within the context length.
    ///
    /// # Errors
    /// `Ok(false)` when `job` was asked to end; then, as after an error, none of them is in the cache.
    pub(crate) fn append(
        &mut self,
        tokens: &[u32],
        n_logits: usize,
        job: &JobControl,
    ) -> Result<bool, EngineError> {
        let n_before = self.tokens.len();
        self.reserve(n_before + tokens.len())?;
        let Some(context) = &mut self.context else {
            return Ok(false);
        };
        self.batch.fill(tokens, n_before, n_logits);
        context.set_n_threads(self.crew.len());
        let began = Instant::now();
        let result = context.step(&mut self.batch, job);
        if tokens.len() == 1 {
            self.crew.stepped(began.elapsed());
        }
        self.tokens.extend_from_slice(tokens);
        match result {
            Ok(()) => Ok(true),
            Err(error) => {
                // What is left of the batch could be any part of it.
                self.truncate(n_before);
                match error {
                    StepError::Stopped => Ok(false),
                    StepError::Failed(code) => Err(step_failed(code)),
                }
            }
        }
    }

    /// The logits of the `index`-th token that was last appended.
    ///
    /// # Errors
    /// [`EngineError::Backend`] if it was not asked for any.
    pub(crate) fn logits(&self, index: usize) -> Result<&[f32], EngineError> {
        let logits = self.context.as_ref().and_then(|all| all.logits(index));
        logits.ok_or_else(|| EngineError::Backend {
            during: "decode".to_owned(),
            message: "llama.cpp has no logits for the last token".to_owned(),
        })
    }

    /// Waits until nothing runs.
    pub(crate) fn settle(&self) {
        if let Some(context) = &self.context {
            context.settle();
        }
    }

    /// Gives the cache and the step's buffers back.
    pub(crate) fn give_back(&mut self) {
        self.tokens.clear();
        self.context = None;
        memory::trim_heap();
    }

    /// The cache's contents in llama.cpp's own form; `None` when it is empty.
    pub(crate) fn state(&self) -> Option<Vec<u8>> {
        let context = self.context.as_ref().filter(|_| !self.tokens.is_empty())?;
        Some(context.state())
    }

    /// Takes up `tokens` whose [`Session::state`] is `state`. Returns whether it could; if not, the
    /// session is empty.
    pub(crate) fn set_state(
        &mut self,
        tokens: Vec<u32>,
        state: &[u8],
    ) -> Result<bool, EngineError> {
        self.give_back();
        self.tokens = tokens;
        self.make_context(self.tokens.len(), Some(state))?;
        Ok(!self.tokens.is_empty())
    }
}

/// Tokens to make room for, so that `n_tokens` fit.
fn capacity(n_tokens: usize, context_length: usize) -> usize {
    let room = room_made_for(n_tokens as u64);
    usize::try_from(room).map_or(context_length, |room| room.min(context_length))
}

/// Tokens with which both begin.
pub(crate) fn n_shared(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn step_failed(code: i32) -> EngineError {
    EngineError::Backend {
        during: "computing a step".to_owned(),
        message: native::first_error().unwrap_or_else(|| format!("llama.cpp's code {code}")),
    }
}

#[cfg(test)]
mod tests;
