//! What the model remembers of a conversation: its tokens, and their keys and values.
//!
//! Rule: `tokens` are exactly the tokens in the cache, at positions from 0 on. Every method leaves
//! it so, whatever fails.
//!
//! Rule: the first `n_exact` of them are in the cache as a fresh reading would leave them. Those
//! behind were computed after text that has been forgotten since, and serve only the conversation
//! that forgot it.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use transom_catalog::KvType;
use transom_catalog::fit::llama::{MAX_CHECKPOINTS, MAX_DRAFT, room_made_for};
use transom_engine::{ConversationId, EngineError, JobControl};

use self::contents::Contents;
use self::search::last_longest_prefix;
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

/// A prompt to be read, and what the cache may be changed into for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) prompt: &'a [u32],
    /// The conversation that the prompt belongs to, if the caller said.
    pub(crate) conversation: Option<ConversationId>,
    /// Messages that were left out of it.
    pub(crate) dropped_messages: usize,
    /// Whether keys and values may be used that keep a trace of what was forgotten.
    pub(crate) may_shift: bool,
}

/// A place that a model with recurrent states can go back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) n_tokens: usize,
    /// The states after so many tokens.
    pub(crate) states: Vec<u8>,
}

/// A conversation in the cache: what is kept on disk beside the cache itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversation {
    pub(crate) tokens: Vec<u32>,
    /// See the head of this file.
    pub(crate) n_exact: usize,
    /// Of the last prompt.
    pub(crate) id: Option<ConversationId>,
    /// Messages that were left out of the last prompt.
    pub(crate) dropped_messages: usize,
    /// Oldest first. Only of models with recurrent states.
    pub(crate) checkpoints: Vec<Checkpoint>,
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Session {
    model: Rc<Model>,
    threads: Rc<Threads>,
    plan: Plan,
    /// Made when it is first needed, and again after it was given back.
    context: Option<Context>,
    conversation: Conversation,
    /// Keys were moved, and the step that rotates them has yet to come.
    shift_is_pending: bool,
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
            conversation: Conversation::default(),
            shift_is_pending: false,
            batch: Batch::default(),
        }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Tokens in the cache.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.conversation.tokens
    }

    /// The conversation in the cache.
    pub(crate) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Bytes of the cache that is there now, used or not, and of the checkpoints.
    pub(crate) fn cache_bytes(&self) -> u64 {
        let bytes = |context: &Context| {
            context.capacity() as u64 * self.plan.token_bytes + self.plan.fixed_bytes
        };
        let checkpoints = self.conversation.checkpoints.iter();
        let states: usize = checkpoints.map(|checkpoint| checkpoint.states.len()).sum();
        self.context.as_ref().map_or(0, bytes) + states as u64
    }

    /// Whether the model has states that cannot be cut: it goes back only to a checkpoint.
    pub(crate) fn has_states(&self) -> bool {
        self.model.has_running_state()
    }

    /// Makes the cache hold `n_tokens`, keeping what is in it.
    ///
    /// # Errors
    /// [`EngineError::Backend`] when there is no memory for it; the session is empty then.
    pub(crate) fn reserve(&mut self, n_tokens: usize) -> Result<(), EngineError> {
        let n_tokens = n_tokens.min(self.plan.context_length);
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
        // Keys that are still to be rotated would be copied as they are, under their new positions.
        debug_assert!(
            !self.shift_is_pending,
            "a step comes before the cache grows"
        );
        let contents = Contents::of(context);
        // Freed before the larger one is made.
        self.context = None;
        self.make_context(n_tokens)?;
        let is_whole = |context: &mut Context| contents.put(context);
        if self.context.as_mut().is_some_and(is_whole) {
            return Ok(());
        }
        self.give_back();
        Err(failed("growing the KV cache", "its contents were lost"))
    }

    /// Makes an empty context for `n_tokens`.
    fn make_context(&mut self, n_tokens: usize) -> Result<(), EngineError> {
        let capacity = capacity(n_tokens, self.plan.context_length);
        let Plan {
            device,
            prefill_chunk,
            cache_type,
            ..
        } = self.plan;
        let params = device.context_params(capacity, prefill_chunk, cache_type);
        self.context = Context::new(self.model.clone(), self.threads.clone(), params);
        if self.context.is_none() {
            self.give_back();
            let during = format!("making a KV cache for {capacity} tokens");
            return Err(failed(&during, "no memory"));
        }
        Ok(())
    }

    /// Keeps what the prompt shares with the conversation so far, forgets the rest, and makes the
    /// cache hold the prompt and the first tokens of its answer. Returns the tokens kept, at least
    /// one fewer than the prompt has: the last must be processed for its logits.
    ///
    /// Where messages of this same conversation were left out since its last prompt, the tokens
    /// behind them are moved down to where the prompt has them.
    ///
    /// # Errors
    /// As [`Session::reserve`].
    pub(crate) fn reuse(&mut self, reading: Reading<'_>) -> Result<usize, EngineError> {
        let Reading { prompt, .. } = reading;
        let wanted = &prompt[..prompt.len().saturating_sub(1)];
        let last = &self.conversation;
        let goes_on = reading.conversation.is_some() && reading.conversation == last.id;
        let may_shift = goes_on && reading.may_shift;
        let may_move = may_shift && reading.dropped_messages > last.dropped_messages;
        if !may_shift {
            self.truncate(last.n_exact);
        }
        let start = n_shared(self.tokens(), wanted);
        let moved = may_move.then(|| self.find_later(start, &wanted[start..]));
        let moved = moved.flatten();
        self.truncate(moved.as_ref().map_or(start, |moved| moved.end));
        // Before anything is moved: the cache cannot grow while keys are still to be rotated.
        self.reserve(prompt.len() + MAX_DRAFT)?;
        if let Some(moved) = moved
            && !(self.forget(start..moved.start) && self.has_window())
        {
            self.truncate(start);
        }
        self.conversation.id = reading.conversation;
        self.conversation.dropped_messages = reading.dropped_messages;
        Ok(self.tokens().len())
    }

    /// The tokens after `start` with which `wanted` begins; `None` if they are too few to be worth
    /// moving, or cannot be moved.
    fn find_later(&self, start: usize, wanted: &[u32]) -> Option<Range<usize>> {
        let can_move = |context: &Context| context.can_shift() && !self.has_states();
        self.context.as_ref().filter(|context| can_move(context))?;
        let first = start + 1;
        let found = last_longest_prefix(wanted, self.tokens().get(first..)?);
        (found.len() >= LEAST_MOVED).then(|| found.start + first..found.end + first)
    }

    /// Forgets the older half of what follows the first `n_kept` tokens, and moves the rest down.
    /// Returns the places of the tokens forgotten; `None` if this cache cannot.
    pub(crate) fn shift(&mut self, n_kept: usize) -> Option<Range<usize>> {
        if !self.context.as_ref().is_some_and(Context::can_shift) {
            return None;
        }
        let n_tokens = self.tokens().len();
        // A system prompt that fills the context would leave nothing to forget.
        let n_kept = n_kept.min(n_tokens / 2);
        let forgotten = n_kept..n_kept + (n_tokens - n_kept) / 2;
        self.forget(forgotten.clone()).then_some(forgotten)
    }

    /// Takes tokens out of the middle and moves those behind down. Returns whether the model can do
    /// that.
    fn forget(&mut self, range: Range<usize>) -> bool {
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

    /// Whether layers with a window have what the next token sees.
    fn has_window(&self) -> bool {
        let n_tokens = self.tokens().len();
        let context = self.context.as_ref();
        context.is_some_and(|context| context.has_window_before(n_tokens))
    }

    /// Forgets all but the first `n` tokens. A model with states goes back to the last checkpoint
    /// before that. Everything is forgotten where there is none, or where a window has lost what
    /// token `n` would see.
    pub(crate) fn truncate(&mut self, n: usize) {
        let end = self.tokens().len();
        if n >= end {
            return;
        }
        let conversation = &mut self.conversation;
        conversation.drop_checkpoints_after(n);
        let reached = self.context.as_mut().map_or(0, |context| {
            if context.remove(n..end) && context.has_window_before(n) {
                n
            } else {
                conversation.go_back_to_checkpoint(context)
            }
        });
        conversation.tokens.truncate(reached);
        conversation.n_exact = conversation.n_exact.min(reached);
        // What is left of a shift starts at `n_exact`.
        self.shift_is_pending &= reached > conversation.n_exact;
    }

    /// Makes this a place to go back to, if the model needs such places.
    pub(crate) fn set_checkpoint(&mut self) {
        let n_tokens = self.tokens().len();
        let Some(context) = self.context.as_ref().filter(|_| self.has_states()) else {
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
        let n_before = self.tokens().len();
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
                // What is left of the batch could be any part of it.
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

    /// Forgets tokens whose keys were moved and perhaps not rotated, or in some layers only.
    fn drop_pending_shift(&mut self) {
        if self.shift_is_pending {
            self.truncate(self.conversation.n_exact);
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

    /// Waits until nothing runs, at the end of an answer. From then on the cache can be saved.
    pub(crate) fn settle(&mut self) {
        if let Some(context) = &self.context {
            context.settle();
        }
        self.drop_pending_shift();
    }

    /// Gives the cache and the step's buffers back.
    pub(crate) fn give_back(&mut self) {
        self.conversation = Conversation::default();
        self.shift_is_pending = false;
        self.context = None;
        memory::trim_heap();
    }

    /// Writes `words` and the cache to a file.
    ///
    /// # Errors
    /// As [`Context::save_file`].
    pub(crate) fn save_file(&self, path: &Path, words: &[u32]) -> io::Result<()> {
        let context = self.context.as_ref();
        context.map_or(Ok(()), |context| context.save_file(path, words))
    }

    /// Takes up `conversation`, whose cache is in a file that [`Session::save_file`] wrote with
    /// `n_words` words. Returns whether it could; if not, the session is empty.
    ///
    /// # Errors
    /// As [`Session::reserve`].
    pub(crate) fn load_file(
        &mut self,
        conversation: Conversation,
        path: &Path,
        n_words: usize,
    ) -> Result<bool, EngineError> {
        self.give_back();
        self.make_context(conversation.tokens.len())?;
        let load = |context: &mut Context| context.load_file(path, n_words);
        let is_whole = self.context.as_mut().is_some_and(load);
        if is_whole {
            self.conversation = conversation;
        }
        Ok(is_whole)
    }
}

impl Conversation {
    fn drop_checkpoints_after(&mut self, n_tokens: usize) {
        let is_before = |checkpoint: &Checkpoint| checkpoint.n_tokens <= n_tokens;
        self.checkpoints.retain(is_before);
    }

    /// Takes `context` to the last checkpoint. Returns the tokens in it then; 0 when there is no
    /// checkpoint that it can go back to.
    fn go_back_to_checkpoint(&mut self, context: &mut Context) -> usize {
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

/// Tokens to make room for, so that `n_tokens` fit.
fn capacity(n_tokens: usize, context_length: usize) -> usize {
    let room = room_made_for(n_tokens as u64);
    usize::try_from(room).map_or(context_length, |room| room.min(context_length))
}

/// Tokens with which both begin.
pub(crate) fn n_shared(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// An error with llama.cpp's own reason, if it logged one.
fn failed(during: &str, otherwise: &str) -> EngineError {
    EngineError::Backend {
        during: during.to_owned(),
        message: native::first_error().unwrap_or_else(|| otherwise.to_owned()),
    }
}

mod contents;
mod search;

#[cfg(test)]
mod tests;
