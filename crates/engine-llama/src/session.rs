//! The KV cache: the cached tokens, and their keys and values. Those of other conversations are
//! parked as copies in memory.
//!
//! Rule: `tokens` are exactly the tokens in the cache, at positions from 0. Every method keeps it
//! so, also when it fails.

use std::ops::Range;
use std::rc::Rc;

use transom_catalog::fit::llama::{MAX_CHECKPOINTS, MAX_DRAFT};
use transom_engine::parked::FEW_TOKENS;
use transom_engine::{EngineError, Parked, ParkedState};

use self::cache_contents::CacheContents;
pub(crate) use self::config::CacheConfig;
use self::conversation::{CacheRules, Reuse};
pub(crate) use self::conversation::{CachedConversation, Checkpoint, SessionPrompt};
use self::joint::Joint;
use self::parked::ParkedConversation;
use crate::native::{self, Batch, Context, Model, ThreadPool};
use crate::thread_tuner::ThreadTuner;

#[derive(Debug)]
pub(crate) struct Session {
    model: Rc<Model>,
    threads: Rc<ThreadPool>,
    config: CacheConfig,
    /// Created when it is first needed, and again after it was released. `None` while the session has a
    /// seat.
    context: Option<Context>,
    /// Its sequence in the joint context, while it shares steps with others.
    seat: Option<usize>,
    conversation: CachedConversation,
    /// For how many tokens the response needs space; see [`Session::reuse`].
    n_expected: usize,
    shared: Shared,
    /// True if keys were moved and the next step has to rotate them.
    shift_is_pending: bool,
    /// The contents are private, so they are never in a file.
    is_private: bool,
    batch: Batch,
}

/// What belongs to the sessions of a model together. It is in the session that is being used, and in the
/// idle one between two steps.
#[derive(Debug)]
struct Shared {
    /// None of them has more tokens than the context has space for.
    parked: Parked<ParkedConversation>,
    /// The caches of the sessions that share steps.
    joint: Option<Joint>,
    /// Other programs take the same cores from all of them.
    thread_tuner: ThreadTuner,
    /// Steps could not be shared, such as for lack of memory. Not tried again until the model is idle.
    sharing_failed: bool,
}

impl Session {
    pub(crate) fn new(model: Rc<Model>, threads: Rc<ThreadPool>, config: CacheConfig) -> Self {
        Self {
            shared: Shared {
                thread_tuner: ThreadTuner::new(threads.len()),
                parked: Parked::new(config.parked_bytes),
                joint: None,
                sharing_failed: false,
            },
            model,
            threads,
            config,
            context: None,
            seat: None,
            conversation: CachedConversation::default(),
            n_expected: 0,
            shift_is_pending: false,
            is_private: false,
            batch: Batch::default(),
        }
    }

    /// Never writes the contents to a file while the cache grows. [`Session::reuse`] does so only for
    /// prompts that are not private.
    pub(crate) fn keep_in_memory(&mut self) {
        self.is_private = true;
    }

    pub(crate) fn config(&self) -> &CacheConfig {
        &self.config
    }

    pub(crate) fn tokens(&self) -> &[u32] {
        &self.conversation.tokens
    }

    /// Returns the bytes of the allocated cache, used or not, of the checkpoints, and of the joint context
    /// if this session has it.
    pub(crate) fn cache_bytes(&self) -> u64 {
        let bytes = |context: &Context| {
            context.capacity() as u64 * self.config.bytes_per_token + self.config.state_bytes
        };
        let context = self.context.as_ref().map_or(0, bytes);
        let joint = self.shared.joint.as_ref();
        let joint = joint.map_or(0, |joint| {
            joint.n_tokens() as u64 * self.config.bytes_per_token
        });
        context + joint + self.conversation.checkpoint_bytes()
    }

    pub(crate) fn parked_bytes(&self) -> u64 {
        self.shared.parked.bytes()
    }

    /// Returns the number of tokens that the allocated cache has space for.
    fn capacity(&self) -> usize {
        self.context.as_ref().map_or(0, Context::capacity)
    }

    /// Returns true if the model has recurrent states, which can only rewind to a checkpoint.
    pub(crate) fn has_recurrent_state(&self) -> bool {
        self.model.has_recurrent_state()
    }

    /// Returns how many tokens the cache has or will have at least.
    fn n_expected(&self) -> usize {
        self.tokens().len().max(self.n_expected)
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
        if let (Some(context), Some(contents)) = (&mut self.context, contents)
            && contents.restore(context)
        {
            return Ok(());
        }
        self.release();
        Err(failed("growing the KV cache", "its contents were lost"))
    }

    /// Returns the context with the cache, and its sequence there.
    fn cache(&self) -> Option<(&Context, usize)> {
        self.cache_of(self)
    }

    /// The same of a sibling, while what belongs to the model is in this session.
    fn cache_of<'a>(&'a self, sibling: &'a Self) -> Option<(&'a Context, usize)> {
        match sibling.seat {
            Some(seat) => Some((self.shared.joint.as_ref()?.context(), seat)),
            None => Some((sibling.context.as_ref()?, 0)),
        }
    }

    fn make_context(&mut self, n_tokens: usize) -> Result<(), EngineError> {
        let capacity = self.config.capacity(n_tokens);
        let params = self.config.context(1, capacity);
        self.context = Context::new(self.model.clone(), self.threads.clone(), params);
        if self.context.is_none() && self.release_parked() > 0 {
            // Clears the error, so that it is not reported if there is enough memory now.
            let _ = native::take_first_error();
            self.context = Context::new(self.model.clone(), self.threads.clone(), params);
        }
        if self.context.is_none() {
            self.release();
            let during = format!("allocating a KV cache for {capacity} tokens");
            return Err(failed(&during, "not enough memory"));
        }
        Ok(())
    }

    /// Continues the conversation, the current or a parked one, of which the prompt reuses the most
    /// tokens, and removes its other tokens. The response needs space for the prompt and its first tokens,
    /// or the whole context if it is private; see [`Session::reserve_expected`]. Returns the number of
    /// cached prompt tokens; see [`CachedConversation::reusable`].
    ///
    /// # Errors
    /// [`EngineError::Backend`] if there is not enough memory; the session is empty then.
    pub(crate) fn reuse(&mut self, prompt: SessionPrompt<'_>) -> Result<usize, EngineError> {
        let n_needed = match prompt.is_private {
            true => self.config.context_length,
            false => prompt.tokens.len() + MAX_DRAFT,
        };
        self.n_expected = n_needed;
        let Reuse { n_kept, moved } = self.select(&prompt, n_needed);
        self.truncate(moved.as_ref().map_or(n_kept, |moved| moved.end));
        // Before tokens are moved: the cache cannot grow while their rotation is pending. What a
        // private prompt shares with one that is not is not private.
        if !self.tokens().is_empty() {
            self.reserve(n_needed)?;
        }
        self.is_private = prompt.is_private;
        if let Some(moved) = moved
            && !(self.remove_and_shift(n_kept..moved.start) && self.has_window())
        {
            self.truncate(n_kept);
        }
        self.conversation.id = prompt.conversation;
        self.conversation.dropped_messages = prompt.dropped_messages;
        Ok(self.tokens().len())
    }

    /// Lets the threads of the CPU sleep until the next step of any session.
    pub(crate) fn pause_threads(&self) {
        self.threads.pause();
    }

    /// Allocates the space that the response needs. Without this, that happens when its first token is
    /// appended, unless the session has a seat by then.
    ///
    /// # Errors
    /// As for [`Session::reserve`].
    pub(crate) fn reserve_expected(&mut self) -> Result<(), EngineError> {
        self.reserve(self.n_expected)
    }

    /// Makes the conversation current of which `prompt` reuses the most tokens, and returns these
    /// tokens. Parks a copy of what the prompt would remove of another conversation.
    fn select(&mut self, prompt: &SessionPrompt<'_>, n_needed: usize) -> Reuse {
        let reuse = self.conversation.reusable(prompt, self.rules());
        let n_reused = reuse.n_tokens();
        let reusable = |parked: &ParkedConversation| parked.reusable_by(prompt);
        // For a few tokens the copies take longer than reading them again.
        let n_worse = n_reused + FEW_TOKENS;
        let Some(better) = self.shared.parked.take_better(n_worse, reusable) else {
            if !prompt.continues(&self.conversation) {
                self.park(self.tokens().len() - n_reused, 0);
            }
            return reuse;
        };
        // Both copies are in memory until one is restored. Meanwhile they may also take the memory of
        // a full context that is not allocated.
        let capacity = self.config.capacity(n_needed).max(self.capacity());
        let spare_bytes = self.config.unallocated_bytes(capacity);
        let more_bytes = better.bytes().saturating_sub(spare_bytes);
        self.park(self.tokens().len(), more_bytes);
        if self.restore(&better, n_needed) {
            let n_removed = better.tokens().len() - better.reusable_by(prompt);
            let is_needed = !prompt.continues(&better.conversation) && !better.is_spare;
            if !is_needed || n_removed <= FEW_TOKENS {
                self.conversation = better.conversation;
            } else {
                self.conversation = better.conversation.clone();
                self.shared.parked.park(better);
            }
        }
        self.conversation.reusable(prompt, self.rules())
    }

    fn rules(&self) -> CacheRules {
        let needs_checkpoint = self.has_recurrent_state();
        CacheRules {
            first_rewind: self.context.as_ref().map_or(0, Context::first_rewind),
            needs_checkpoint,
            can_move: self.can_shift() && !needs_checkpoint,
        }
    }

    /// Parks a copy of the current conversation, if `n_removed` of its tokens are to be removed and
    /// reading them again would take longer than copying. `more_bytes` of other copies are in memory
    /// too and count in the limit.
    fn park(&mut self, n_removed: usize, more_bytes: u64) {
        // Keys whose rotation is pending would be restored at wrong positions.
        debug_assert!(!self.shift_is_pending, "a response has ended");
        let Some(cache) = self.cache().filter(|_| n_removed > FEW_TOKENS) else {
            return;
        };
        let n_bytes = ParkedConversation::copy_bytes(&self.conversation, cache);
        if !self
            .shared
            .parked
            .make_room(n_bytes.saturating_add(more_bytes))
        {
            return;
        }
        let copy = self
            .cache()
            .and_then(|cache| ParkedConversation::copy(&self.conversation, cache, self.rules()));
        match copy {
            Some(copy) => {
                self.shared.parked.park(copy);
            }
            None => warn("a KV cache was not kept for later"),
        }
    }

    /// Replaces the contents of the cache by those of `parked`, and reserves space for `n_needed`
    /// tokens. The caller sets the conversation. Returns false if that failed; then the session is
    /// empty.
    fn restore(&mut self, parked: &ParkedConversation, n_needed: usize) -> bool {
        // An empty cache grows without a copy.
        self.truncate(0);
        if let Err(error) = self.reserve(n_needed) {
            tracing::warn!(%error, "a conversation is read again");
            return false;
        }
        let restore = |context: &mut Context| parked.restore(context);
        let is_whole = self.context.as_mut().is_some_and(restore);
        if !is_whole {
            warn("a conversation is read again");
        }
        is_whole
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
        let cache = self.cache();
        self.config.can_shift && cache.is_some_and(|(context, _)| context.can_shift())
    }

    /// Removes tokens and moves the later ones down. Returns false if the model cannot do that.
    fn remove_and_shift(&mut self, range: Range<usize>) -> bool {
        let Some(context) = &mut self.context else {
            return false;
        };
        let conversation = &mut self.conversation;
        let n_tokens = conversation.tokens.len();
        if range.is_empty() || range.end > n_tokens || !context.remove(0, range.clone()) {
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
        let cache = match self.seat {
            Some(seat) => self
                .shared
                .joint
                .as_mut()
                .map(|joint| (joint.context_mut(), seat)),
            None => self.context.as_mut().map(|context| (context, 0)),
        };
        let n_left = cache.map_or(0, |(context, sequence)| {
            if context.remove(sequence, n..end) && context.has_window_before(n) {
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

    /// Drops the parked conversations. Returns their bytes.
    pub(crate) fn release_parked(&mut self) -> u64 {
        let n_bytes = self.parked_bytes();
        self.shared.parked.clear();
        transom_engine::trim_heap();
        n_bytes
    }

    /// Releases the cache, the parked conversations and the buffers of steps.
    pub(crate) fn release(&mut self) {
        self.shared.parked.clear();
        self.conversation = CachedConversation::default();
        self.n_expected = 0;
        self.shift_is_pending = false;
        self.context = None;
        transom_engine::trim_heap();
    }
}

/// Returns an error with llama.cpp's own reason, if it logged one.
fn failed(during: &str, otherwise: &str) -> EngineError {
    let logged = native::take_first_error();
    EngineError::backend(during, logged.as_deref().unwrap_or(otherwise))
}

/// Logs a failure that only costs time, with llama.cpp's own reason, which no later error may report.
fn warn(consequence: &str) {
    let reason = native::take_first_error();
    tracing::warn!(reason, "{consequence}");
}

mod cache_contents;
mod config;
mod conversation;
mod joint;
mod parked;
mod saved;
mod search;
mod seats;
mod steps;
mod together;

#[cfg(test)]
mod tests;
