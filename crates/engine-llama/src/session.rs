//! The KV cache: the cached tokens, and their keys and values.
//!
//! Rule: `tokens` are exactly the tokens in the cache, at positions from 0. Every method keeps it
//! so, also when it fails.
//!
//! Rule: the first `n_exact` of them are in the cache as a fresh prefill would compute them. The
//! others were computed after text that has since been removed, so only the same conversation may
//! reuse them.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use transom_catalog::KvType;
use transom_catalog::fit::llama::{MAX_CHECKPOINTS, MAX_DRAFT, context_capacity};
use transom_engine::generation::common_prefix_len;
use transom_engine::{ConversationId, EngineError, JobControl};

use self::cache_contents::CacheContents;
use self::search::last_longest_prefix;
use crate::native::{self, Batch, Context, ContextParams, Model, StepError, ThreadPool};
use crate::thread_tuner::ThreadTuner;

/// Minimum number of tokens that are worth moving.
const MIN_MOVED: usize = 32;

#[derive(Debug, Clone)]
pub(crate) struct CacheConfig {
    pub(crate) cache_type: KvType,
    /// Computes attention without storing the matrix of scores.
    pub(crate) flash_attention: bool,
    pub(crate) prefill_chunk: usize,
    /// Maximum number of tokens.
    pub(crate) context_length: usize,
    /// Bytes of keys and values per token.
    pub(crate) bytes_per_token: u64,
    /// Bytes of recurrent states, which do not depend on the number of tokens.
    pub(crate) state_bytes: u64,
    /// See [`crate::files::ModelFiles::can_shift`].
    pub(crate) can_shift: bool,
}

/// A prompt to process, and how it may reuse the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionPrompt<'a> {
    pub(crate) tokens: &'a [u32],
    /// The conversation that the prompt belongs to, if known.
    pub(crate) conversation: Option<ConversationId>,
    /// Number of messages that were dropped from the prompt.
    pub(crate) dropped_messages: usize,
    /// True if cached tokens may be reused that were computed after text that is no longer in the
    /// prompt.
    pub(crate) may_shift: bool,
    /// See [`transom_engine::GenerationParams::is_private`].
    pub(crate) is_private: bool,
}

/// A position that a model with recurrent states can rewind to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) n_tokens: usize,
    /// The recurrent states after `n_tokens` tokens.
    pub(crate) states: Vec<u8>,
}

/// Describes the contents of the cache. Saved together with the cache.
#[derive(Debug, Clone, Default)]
pub(crate) struct CachedConversation {
    pub(crate) tokens: Vec<u32>,
    /// See the rule at the top of this file.
    pub(crate) n_exact: usize,
    /// The conversation of the last prompt.
    pub(crate) id: Option<ConversationId>,
    /// Number of messages that were dropped from the last prompt.
    pub(crate) dropped_messages: usize,
    /// Oldest first. Only for models with recurrent states.
    pub(crate) checkpoints: Vec<Checkpoint>,
}

#[derive(Debug)]
pub(crate) struct Session {
    model: Rc<Model>,
    threads: Rc<ThreadPool>,
    config: CacheConfig,
    /// Created when it is first needed, and again after it was released.
    context: Option<Context>,
    conversation: CachedConversation,
    /// True if keys were moved and the next step has to rotate them.
    shift_is_pending: bool,
    /// The last prompt is private, so the cache grows in memory.
    is_private: bool,
    batch: Batch,
    thread_tuner: ThreadTuner,
}

impl Session {
    pub(crate) fn new(model: Rc<Model>, threads: Rc<ThreadPool>, config: CacheConfig) -> Self {
        Self {
            thread_tuner: ThreadTuner::new(threads.len()),
            model,
            threads,
            config,
            context: None,
            conversation: CachedConversation::default(),
            shift_is_pending: false,
            is_private: false,
            batch: Batch::default(),
        }
    }

    pub(crate) fn config(&self) -> &CacheConfig {
        &self.config
    }

    pub(crate) fn tokens(&self) -> &[u32] {
        &self.conversation.tokens
    }

    pub(crate) fn conversation(&self) -> &CachedConversation {
        &self.conversation
    }

    /// Returns the bytes of the allocated cache, used or not, and of the checkpoints.
    pub(crate) fn cache_bytes(&self) -> u64 {
        let bytes = |context: &Context| {
            context.capacity() as u64 * self.config.bytes_per_token + self.config.state_bytes
        };
        let checkpoints = self.conversation.checkpoints.iter();
        let states: usize = checkpoints.map(|checkpoint| checkpoint.states.len()).sum();
        self.context.as_ref().map_or(0, bytes) + states as u64
    }

    /// Returns true if the model has recurrent states, which can only rewind to a checkpoint.
    pub(crate) fn has_recurrent_state(&self) -> bool {
        self.model.has_recurrent_state()
    }

    /// Grows the cache to at least `n_tokens`, and keeps its contents.
    ///
    /// # Errors
    /// [`EngineError::Backend`] if there is not enough memory; the session is empty then.
    pub(crate) fn reserve(&mut self, n_tokens: usize) -> Result<(), EngineError> {
        let n_tokens = n_tokens.min(self.config.context_length);
        let Some(context) = &self.context else {
            return self.make_context(n_tokens);
        };
        if context.capacity() >= n_tokens {
            return Ok(());
        }
        if self.tokens().is_empty() {
            self.context = None;
            return self.make_context(n_tokens);
        }
        // Keys whose rotation is pending would be copied unchanged to their new positions.
        debug_assert!(
            !self.shift_is_pending,
            "a step comes before the cache grows"
        );
        let contents = CacheContents::take(context, self.is_private);
        // Freed before the larger one is allocated.
        self.context = None;
        self.make_context(n_tokens)?;
        let is_whole = |context: &mut Context| contents.restore(context);
        if self.context.as_mut().is_some_and(is_whole) {
            return Ok(());
        }
        self.release();
        Err(failed("growing the KV cache", "its contents were lost"))
    }

    fn make_context(&mut self, n_tokens: usize) -> Result<(), EngineError> {
        let capacity = capacity(n_tokens, self.config.context_length);
        let params = ContextParams {
            n_tokens: capacity,
            n_batch: self.config.prefill_chunk.max(MAX_DRAFT + 1),
            n_logits: MAX_DRAFT + 1,
            cache_type: self.config.cache_type,
            flash_attention: self.config.flash_attention,
        };
        self.context = Context::new(self.model.clone(), self.threads.clone(), params);
        if self.context.is_none() {
            self.release();
            let during = format!("allocating a KV cache for {capacity} tokens");
            return Err(failed(&during, "not enough memory"));
        }
        Ok(())
    }

    /// Keeps the prefix that the prompt shares with the cache, removes the other tokens, and
    /// reserves space for the prompt and the first tokens of the response. Returns the number of
    /// cached prompt tokens, at most one fewer than the prompt has: the last one must be processed
    /// for its logits.
    ///
    /// If messages of the same conversation were dropped since its last prompt, the tokens after
    /// them are moved down to their position in the prompt.
    pub(crate) fn reuse(&mut self, prompt: SessionPrompt<'_>) -> Result<usize, EngineError> {
        let n_prompt = prompt.tokens.len();
        let wanted = &prompt.tokens[..n_prompt.saturating_sub(1)];
        let last = &self.conversation;
        let is_same_conversation = prompt.conversation.is_some() && prompt.conversation == last.id;
        let may_shift = is_same_conversation && prompt.may_shift;
        let may_move = may_shift && prompt.dropped_messages > last.dropped_messages;
        if !may_shift {
            self.truncate(last.n_exact);
        }
        let start = common_prefix_len(self.tokens(), wanted);
        let moved = may_move.then(|| self.find_movable(start, &wanted[start..]));
        let moved = moved.flatten();
        self.truncate(moved.as_ref().map_or(start, |moved| moved.end));
        self.is_private = prompt.is_private;
        // Before tokens are moved: the cache cannot grow while their rotation is pending.
        self.reserve(n_prompt + MAX_DRAFT)?;
        if let Some(moved) = moved
            && !(self.remove_and_shift(start..moved.start) && self.has_window())
        {
            self.truncate(start);
        }
        self.conversation.id = prompt.conversation;
        self.conversation.dropped_messages = prompt.dropped_messages;
        Ok(self.tokens().len())
    }

    /// Returns the tokens after `start` that equal the beginning of `wanted`; `None` if they are
    /// too few or cannot be moved.
    fn find_movable(&self, start: usize, wanted: &[u32]) -> Option<Range<usize>> {
        if !self.can_shift() || self.has_recurrent_state() {
            return None;
        }
        let first = start + 1;
        let found = last_longest_prefix(wanted, self.tokens().get(first..)?);
        (found.len() >= MIN_MOVED).then(|| found.start + first..found.end + first)
    }

    /// Removes the older half of the tokens after the first `n_kept`, and moves the others down.
    /// Returns the positions of the removed tokens; `None` if this cache cannot be shifted.
    pub(crate) fn shift(&mut self, n_kept: usize) -> Option<Range<usize>> {
        if !self.can_shift() {
            return None;
        }
        let n_tokens = self.tokens().len();
        // A system prompt that fills the context would leave nothing to remove.
        let n_kept = n_kept.min(n_tokens / 2);
        let removed = n_kept..n_kept + (n_tokens - n_kept) / 2;
        self.remove_and_shift(removed.clone()).then_some(removed)
    }

    fn can_shift(&self) -> bool {
        self.config.can_shift && self.context.as_ref().is_some_and(Context::can_shift)
    }

    /// Removes tokens and moves the later ones down. Returns false if the model cannot do that.
    fn remove_and_shift(&mut self, range: Range<usize>) -> bool {
        let Some(context) = &mut self.context else {
            return false;
        };
        let conversation = &mut self.conversation;
        let n_tokens = conversation.tokens.len();
        if range.is_empty() || range.end > n_tokens || !context.remove(range.clone()) {
            return false;
        }
        context.shift_down(range.end..n_tokens, range.len());
        self.shift_is_pending = range.end < n_tokens;
        conversation.n_exact = conversation.n_exact.min(range.start);
        conversation.drop_checkpoints_after(range.start);
        conversation.tokens.drain(range);
        true
    }

    /// Returns true if layers with a sliding window have the tokens that the next token sees.
    fn has_window(&self) -> bool {
        let n_tokens = self.tokens().len();
        let context = self.context.as_ref();
        context.is_some_and(|context| context.has_window_before(n_tokens))
    }

    /// Keeps the first `n` tokens. A model with recurrent states rewinds to the last checkpoint at
    /// or before `n`. Removes everything if there is no checkpoint, or if a sliding window has lost
    /// tokens that token `n` would see.
    pub(crate) fn truncate(&mut self, n: usize) {
        let end = self.tokens().len();
        if n >= end {
            return;
        }
        let conversation = &mut self.conversation;
        conversation.drop_checkpoints_after(n);
        let n_left = self.context.as_mut().map_or(0, |context| {
            if context.remove(n..end) && context.has_window_before(n) {
                n
            } else {
                conversation.rewind_to_checkpoint(context)
            }
        });
        conversation.tokens.truncate(n_left);
        conversation.n_exact = conversation.n_exact.min(n_left);
        // Moved tokens start at `n_exact`.
        self.shift_is_pending &= n_left > conversation.n_exact;
    }

    /// Saves a checkpoint at the current position, if the model has recurrent states.
    pub(crate) fn set_checkpoint(&mut self) {
        let n_tokens = self.tokens().len();
        let Some(context) = self.context.as_ref().filter(|_| self.has_recurrent_state()) else {
            return;
        };
        let checkpoints = &mut self.conversation.checkpoints;
        if n_tokens == 0
            || checkpoints
                .last()
                .is_some_and(|last| last.n_tokens == n_tokens)
        {
            return;
        }
        if checkpoints.len() == MAX_CHECKPOINTS {
            checkpoints.remove(0);
        }
        checkpoints.push(Checkpoint {
            n_tokens,
            states: context.recurrent_state(),
        });
    }

    /// Processes `tokens`; the last `n_logits` of them return logits. They must fit in one step and
    /// in the context.
    ///
    /// # Errors
    /// Returns `Ok(false)` if `job` was stopped; then, as after an error, none of the tokens is in
    /// the cache.
    pub(crate) fn append(
        &mut self,
        tokens: &[u32],
        n_logits: usize,
        job: &JobControl,
    ) -> Result<bool, EngineError> {
        let n_before = self.tokens().len();
        self.reserve(n_before + tokens.len())?;
        let Some(context) = &mut self.context else {
            return Ok(false);
        };
        self.batch.fill(tokens, n_before, n_logits);
        context.set_n_threads(self.thread_tuner.n_threads());
        let began = Instant::now();
        let result = context.step(&mut self.batch, job);
        if tokens.len() == 1 {
            self.thread_tuner.record_step(began.elapsed());
        }
        let conversation = &mut self.conversation;
        conversation.tokens.extend_from_slice(tokens);
        if conversation.n_exact == n_before {
            conversation.n_exact += tokens.len();
        }
        match result {
            Ok(()) => {
                self.shift_is_pending = false;
                Ok(true)
            }
            Err(error) => {
                // The cache may contain any part of the batch.
                self.truncate(n_before);
                self.drop_pending_shift();
                match error {
                    StepError::Stopped => Ok(false),
                    StepError::Failed(code) => {
                        let code = format!("llama.cpp's code {code}");
                        Err(failed("computing a step", &code))
                    }
                }
            }
        }
    }

    /// Removes tokens whose keys were moved and possibly not rotated, or only in some layers.
    fn drop_pending_shift(&mut self) {
        if self.shift_is_pending {
            self.truncate(self.conversation.n_exact);
        }
    }

    /// Returns the logits of the `index`-th token of the last `append`.
    ///
    /// # Errors
    /// [`EngineError::Backend`] if they were not requested.
    pub(crate) fn logits(&self, index: usize) -> Result<&[f32], EngineError> {
        let logits = self.context.as_ref().and_then(|all| all.logits(index));
        logits.ok_or_else(|| {
            EngineError::backend("decode", "llama.cpp has no logits for the last token")
        })
    }

    /// Waits until nothing runs, at the end of a response. After that the cache can be saved.
    pub(crate) fn settle(&mut self) {
        if let Some(context) = &self.context {
            context.settle();
        }
        self.drop_pending_shift();
    }

    /// Releases the cache and the buffers of steps.
    pub(crate) fn release(&mut self) {
        self.conversation = CachedConversation::default();
        self.shift_is_pending = false;
        self.context = None;
        transom_engine::trim_heap();
    }

    /// Writes `words` and the cache to a file.
    pub(crate) fn save_file(&self, path: &Path, words: &[u32]) -> io::Result<()> {
        let context = self.context.as_ref();
        context.map_or(Ok(()), |context| context.save_file(path, words))
    }

    /// Restores `conversation`, whose cache is in a file that [`Session::save_file`] wrote with
    /// `n_words` words. Returns false if that failed; then the session is empty.
    pub(crate) fn load_file(
        &mut self,
        conversation: CachedConversation,
        path: &Path,
        n_words: usize,
    ) -> Result<bool, EngineError> {
        self.release();
        self.make_context(conversation.tokens.len())?;
        let load = |context: &mut Context| context.load_file(path, n_words);
        let is_whole = self.context.as_mut().is_some_and(load);
        if is_whole {
            self.conversation = conversation;
        }
        Ok(is_whole)
    }
}

impl CachedConversation {
    fn drop_checkpoints_after(&mut self, n_tokens: usize) {
        let is_before = |checkpoint: &Checkpoint| checkpoint.n_tokens <= n_tokens;
        self.checkpoints.retain(is_before);
    }

    /// Rewinds `context` to the last checkpoint. Returns the number of tokens then in the cache; 0
    /// if no checkpoint can be restored.
    fn rewind_to_checkpoint(&mut self, context: &mut Context) -> usize {
        if let Some(last) = self.checkpoints.last()
            && context.set_recurrent_state(&last.states)
            && context.remove(last.n_tokens..self.tokens.len())
            && context.has_window_before(last.n_tokens)
        {
            return last.n_tokens;
        }
        context.clear();
        self.checkpoints.clear();
        0
    }
}

fn capacity(n_tokens: usize, context_length: usize) -> usize {
    let capacity = context_capacity(n_tokens as u64);
    usize::try_from(capacity).map_or(context_length, |capacity| capacity.min(context_length))
}

/// Returns an error with llama.cpp's own reason, if it logged one.
fn failed(during: &str, otherwise: &str) -> EngineError {
    let logged = native::take_first_error();
    EngineError::backend(during, logged.as_deref().unwrap_or(otherwise))
}

mod cache_contents;
mod search;

#[cfg(test)]
mod tests;
