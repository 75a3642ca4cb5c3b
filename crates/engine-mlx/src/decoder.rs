//! Generates token ids: prefill in chunks, then decode with one step queued ahead, or with
//! speculative decoding where it pays.
//!
//! [`Decoder::read`] queues step n+1 before it waits for token n, so that the device works while
//! the token is converted to text and shown (like mlx-lm's `generate_step`). A draft continues a
//! known token. So where a draft is expected, the decoder waits for the token first, and one step
//! then verifies the token and its draft. A response with log probabilities uses neither, because
//! the logits of each token must be read.
//!
//! A token of a constrained response is sampled from what may follow the token before it, which the
//! CPU must know. So there the decoder queues the step after a token without its sampling, before it
//! waits for the token, and computes the mask while the device works. Tokens of text that the
//! constraint forces are not sampled: steps read them like a prompt.
//!
//! Rule: each token is sampled once, in order, from the logits at its position. Draft tokens only
//! decide how many positions a step computes.
//!
//! Rule: no session keeps an array of a failed step.

mod constrained;
mod parts;
mod shared;

use std::ops::DerefMut;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlx_rs::error::Exception;
use mlx_rs::transforms::{async_eval, eval};
use mlx_rs::{Array, Dtype};
use transom_engine::generation::{Decode, NextToken, PendingTokens};
use transom_engine::speculation::{Speculation, verify};
use transom_engine::{
    EngineError, JobControl, ParkedState, ResponseConstraint, Scorer, Scores, Stats,
};

use crate::error::{MlxResult, StepError};
use crate::memory::{end_phase, release_unused_memory};
use crate::nn::{Positions, Transformer};
use crate::ops::{slice_axis, synchronize};
use crate::sampler::Sampler;
use crate::session::Session;
use crate::sessions::Sessions;
pub(crate) use parts::ResponseOptions;

/// A response in progress. It owns or borrows its sessions and the state of speculative decoding.
pub(crate) struct Decoder<S, P> {
    transformer: Rc<Transformer>,
    sessions: S,
    sampler: Sampler,
    /// `None` if speculative decoding is not allowed, or the model cannot remove wrong draft
    /// tokens.
    speculation: Option<P>,
    scorer: Scorer,
    constraint: ResponseConstraint,
    /// How many tokens that the constraint forces a step reads at most; 0 samples them like others.
    forced_step: usize,
    /// The logits of the newest token, if its log probability is reported.
    logits: Option<Array>,
    /// The scores of the newest known token.
    scores: Option<Scores>,
    n_cached: usize,
    /// The peak of the memory until the first token, in bytes; 0 before.
    prefill_peak_bytes: u64,
    newest: Newest,
    pending: PendingTokens,
    /// How many more tokens the caller needs; 0 before it has the first one.
    n_left: usize,
    /// When the newest known token became known, in the last call of [`Self::take_time`].
    known_at: Instant,
}

/// The newest token. The caches contain the tokens before it.
enum Newest {
    /// Prefill has not finished.
    Nothing,
    /// The logits after the prompt, from which the first token of a constrained response is sampled.
    Prefilled(Array),
    /// The first token, which prefill computed. No step is queued after it.
    First(u32),
    /// A later token that is known. No step is queued after it.
    Known(u32),
    /// A token that the device computes.
    Queued(Array),
    /// A token that the device computes, and the token or the logits after it, whose step is shared with
    /// other responses.
    Shared { token: Array, next: Array },
    /// A shared step failed for this reason.
    Failed(String),
    /// The logits that the device computes for the next token of a constrained response. It is
    /// sampled when the constraint is known.
    Logits(Array),
    /// The same, after a step over forced tokens, whose time is not that of one token.
    LogitsAfterForced(Array),
}

impl<S, P> Decoder<S, P>
where
    S: DerefMut<Target = Sessions>,
    P: DerefMut<Target = Speculation>,
{
    /// Prepares the response to `prompt`, of which the longest cached prefix is reused.
    pub(crate) fn new(
        transformer: Rc<Transformer>,
        mut sessions: S,
        speculation: Option<P>,
        prompt: &[u32],
        options: ResponseOptions,
    ) -> Self {
        let ResponseOptions {
            sampler,
            constraint,
            forced_step,
            conversation,
            scorer,
        } = options;
        let n_cached = sessions.reuse(prompt, conversation, &transformer);
        // Wrong draft tokens must be removed from the caches.
        let can_remove = !sessions.current.has_states();
        let mut speculation = speculation.filter(|_| can_remove);
        if let Some(speculation) = &mut speculation {
            speculation.start(prompt);
        }
        Self {
            transformer,
            sessions,
            sampler,
            speculation,
            scorer,
            constraint,
            forced_step,
            logits: None,
            scores: None,
            n_cached,
            prefill_peak_bytes: 0,
            newest: Newest::Nothing,
            pending: PendingTokens::default(),
            n_left: 0,
            known_at: Instant::now(),
        }
    }

    fn prefill_chunk(&mut self, tokens: &[u32], is_last: bool) -> Result<(), StepError> {
        let ids = Array::from_slice(tokens, &[tokens.len() as i32]);
        let caches = self.sessions.current.caches_mut();
        let logits = self
            .transformer
            .logits(&ids, &mut [caches], Positions::Last)?;
        self.sessions.current.processed(tokens);
        if !is_last {
            // Only the caches are evaluated, so the logits of this chunk are never computed.
            return Ok(eval(self.sessions.current.arrays())?);
        }
        if self.constraint.is_some() {
            // Other responses take their turns while the constraint is compiled.
            eval([&logits])?;
            self.newest = Newest::Prefilled(logits);
        } else {
            self.sample_first(&logits)?;
        }
        self.prefill_peak_bytes = end_phase()?;
        let took = self.take_time();
        if let Some(speculation) = &mut self.speculation {
            speculation.record_prefill(took);
        }
        Ok(())
    }

    /// Samples the first token from the logits after the prompt. Queues no step, so that the token is
    /// returned at once.
    fn sample_first(&mut self, logits: &Array) -> Result<(), StepError> {
        let token = token_id(&self.sample(logits)?)?;
        self.score(token)?;
        self.newest = Newest::First(token);
        Ok(self.accept(token)?)
    }

    /// Lets the draft model read what it has to read before a draft of at most `max_tokens` tokens.
    fn read_with_drafter(&mut self, max_tokens: usize, control: &JobControl) {
        while !control.is_stopped() {
            let speculation = self.speculation.as_mut();
            let n_read = speculation.map_or(0, |speculation| speculation.read(max_tokens));
            if n_read == 0 {
                return;
            }
            let took = self.take_time();
            if let Some(speculation) = &mut self.speculation {
                speculation.record_read(n_read, took);
            }
        }
    }

    /// Computes at least one token. The caller needs at most `n_left` more, at least one.
    fn step(&mut self, n_left: usize, control: &JobControl) -> Result<(), StepError> {
        let is_constrained = self.constraint.is_some();
        // The others have no token yet, or one that the constraint does not know.
        let is_known = !matches!(
            self.newest,
            Newest::Nothing | Newest::Prefilled(_) | Newest::Shared { .. } | Newest::Failed(_)
        );
        if self.forced_step > 0 && is_known {
            let forced = self.constraint.forced(n_left);
            if !forced.is_empty() {
                return self.write_forced(&forced);
            }
        }
        match std::mem::replace(&mut self.newest, Newest::Nothing) {
            Newest::Nothing => Err(Exception::custom("nothing was prefilled").into()),
            Newest::Failed(reason) => Err(Exception::custom(reason).into()),
            Newest::Shared { token, next } => self.read_shared(&token, next),
            Newest::Prefilled(logits) => {
                if self.constraint.resolve(control)? {
                    self.sample_first(&logits)?;
                }
                self.take_time();
                Ok(())
            }
            Newest::Logits(logits) => {
                let took = self.sample_queued(&logits, n_left)?;
                if let Some(speculation) = &mut self.speculation {
                    speculation.record_step(took);
                }
                Ok(())
            }
            Newest::LogitsAfterForced(logits) => {
                self.sample_queued(&logits, n_left)?;
                if let Some(speculation) = &mut self.speculation {
                    speculation.skip_step();
                }
                Ok(())
            }
            Newest::First(last) if is_constrained => {
                let logits = self.queue_known_logits(last)?;
                self.sample_queued(&logits, n_left)?;
                Ok(())
            }
            Newest::First(last) => {
                let token = self.queue_known(last)?;
                self.read(&token, self.queues_next(n_left))?;
                Ok(())
            }
            Newest::Known(last) => {
                let max_tokens = n_left.saturating_sub(1);
                self.read_with_drafter(max_tokens, control);
                let drafted = match &mut self.speculation {
                    Some(speculation) => speculation.draft(max_tokens).to_vec(),
                    None => Vec::new(),
                };
                if !drafted.is_empty() {
                    return self.verify_draft(last, &drafted);
                }
                let took = if is_constrained {
                    let logits = self.queue_known_logits(last)?;
                    self.sample_queued(&logits, n_left)?
                } else {
                    let token = self.queue_known(last)?;
                    self.read(&token, self.queues_next(n_left))?
                };
                if let Some(speculation) = &mut self.speculation {
                    speculation.record_unqueued_step(took);
                }
                Ok(())
            }
            Newest::Queued(token) => {
                // The draft would follow this token, and another token follows the draft.
                let waits = self.expects_draft(n_left.saturating_sub(2));
                let queues_next = self.queues_next(n_left) && !waits;
                let took = self.read(&token, queues_next)?;
                if let Some(speculation) = &mut self.speculation
                    && queues_next
                {
                    speculation.record_step(took);
                }
                Ok(())
            }
        }
    }

    /// Returns true if a draft of at most `max_tokens` after the next known token is likely to pay.
    fn expects_draft(&self, max_tokens: usize) -> bool {
        let speculation = self.speculation.as_ref();
        speculation.is_some_and(|speculation| speculation.expects_draft(max_tokens))
    }

    /// Returns true if the next step may be queued before the token of this one is known.
    fn queues_next(&self, n_left: usize) -> bool {
        n_left > 1 && !self.scorer.needs_logits()
    }

    /// Waits for `token`, which the device computes, and first queues the step after it if
    /// `queues_next`. Returns the time since the token before it was known.
    fn read(&mut self, token: &Array, queues_next: bool) -> Result<Duration, StepError> {
        if queues_next {
            self.newest = Newest::Queued(self.queue_after(token)?);
        }
        let value = token_id(token)?;
        self.score(value)?;
        if queues_next {
            self.sessions.current.processed(&[value]);
        } else {
            self.newest = Newest::Known(value);
        }
        self.accept(value)?;
        Ok(self.take_time())
    }

    /// Computes a step for `last` and its draft, and samples from it up to the first token that
    /// differs from the draft.
    fn verify_draft(&mut self, last: u32, drafted: &[u32]) -> Result<(), StepError> {
        let n_before = self.sessions.current.tokens().len();
        let tokens = [&[last][..], drafted].concat();
        let ids = Array::from_slice(&tokens, &[tokens.len() as i32]);
        let caches = self.sessions.current.caches_mut();
        let logits = self
            .transformer
            .logits(&ids, &mut [caches], Positions::All)?;
        self.sessions.current.processed(&tokens);
        // Sampled one by one, because penalties depend on the tokens before.
        let mut newest = last;
        let n_accepted = verify(drafted, |index| {
            if self.constraint.is_complete() {
                return Ok(None);
            }
            let row = index as i32;
            let logits = slice_axis(&logits, 0, row, row + 1)?;
            newest = token_id(&self.sample(&logits)?)?;
            self.accept(newest)?;
            Ok::<_, StepError>(Some(newest))
        })?;
        let n_kept = n_before + 1 + n_accepted;
        self.sessions.current.rewind(n_kept);
        debug_assert_eq!(
            self.sessions.current.tokens().len(),
            n_kept,
            "every layer rewinds"
        );
        self.newest = Newest::Known(newest);
        self.pending.record_draft(drafted.len(), n_accepted);
        let took = self.take_time();
        if let Some(speculation) = &mut self.speculation {
            speculation.record_step(took);
        }
        Ok(())
    }

    /// Adds a known token to the response.
    fn accept(&mut self, token: u32) -> Result<(), EngineError> {
        self.constraint.accept(token)?;
        self.pending.push(token);
        if let Some(speculation) = &mut self.speculation {
            speculation.accept(token);
        }
        Ok(())
    }

    /// Returns the error of a failed step. After one of the device, the session starts empty.
    fn failure(&mut self, error: StepError, during: &str) -> EngineError {
        match error {
            StepError::Device(exception) => {
                self.reset_session();
                EngineError::backend(during, exception.what())
            }
            StepError::Constraint(error) => error,
        }
    }

    /// Returns the time since the last call, which was when the token before became known. It
    /// includes what the caller did with the tokens that it got.
    fn take_time(&mut self) -> Duration {
        let now = Instant::now();
        let before = std::mem::replace(&mut self.known_at, now);
        now.duration_since(before)
    }

    /// Replaces the current session after a failed step: its caches consist of arrays that were
    /// never computed, and using one would run the failed step again.
    fn reset_session(&mut self) {
        self.sessions.current = Session::new(&self.transformer);
    }

    /// Queues the step that processes the known token `last`, and returns the token that it samples.
    fn queue_known(&mut self, last: u32) -> Result<Array, StepError> {
        let token = self.queue_after(&Array::from_slice(&[last], &[1]))?;
        self.sessions.current.processed(&[last]);
        Ok(token)
    }

    /// Queues the step that processes `token`, and returns the token that it samples.
    fn queue_after(&mut self, token: &Array) -> Result<Array, StepError> {
        let caches = self.sessions.current.caches_mut();
        let logits = self
            .transformer
            .logits(token, &mut [caches], Positions::Last)?;
        let next = self.sample(&logits)?;
        async_eval([&next])?;
        Ok(next)
    }

    /// Samples the newest token from logits `[1, vocab_size]`.
    fn sample(&mut self, logits: &Array) -> Result<Array, StepError> {
        self.logits = self.scorer.needs_logits().then(|| logits.clone());
        if let Some(token) = self.scorer.known() {
            return Ok(Array::from_slice(&[token], &[1]));
        }
        let allowed = self.constraint.mask()?;
        Ok(self.sampler.sample_from(logits, allowed)?)
    }

    /// Scores the newest token, which is now known, if its log probability is reported.
    fn score(&mut self, token: u32) -> MlxResult<()> {
        if let Some(logits) = self.logits.take() {
            let logits = logits.as_dtype(Dtype::Float32)?.contiguous()?;
            let values = logits.try_as_slice::<f32>();
            let values = values.map_err(|error| Exception::custom(error.to_string()))?;
            self.scores = self.scorer.score(values, token);
        }
        Ok(())
    }
}

impl<S, P> Decode for Decoder<S, P>
where
    S: DerefMut<Target = Sessions>,
    P: DerefMut<Target = Speculation>,
{
    fn n_cached(&self) -> usize {
        self.n_cached
    }

    fn add_counts(&self, stats: &mut Stats) {
        self.pending.add_counts(stats);
        stats.mask_time = self.constraint.mask_time();
        stats.prefill_peak_bytes = self.prefill_peak_bytes;
    }

    fn is_recurrent(&self) -> bool {
        self.sessions.current.has_states()
    }

    fn add_checkpoint(&mut self) {
        self.sessions.current.add_checkpoint();
    }

    fn prefill_step(
        &mut self,
        tokens: &[u32],
        is_last: bool,
        _: &JobControl,
    ) -> Result<bool, EngineError> {
        let prefilled = self.prefill_chunk(tokens, is_last);
        prefilled.map_err(|error| self.failure(error, "prefill"))?;
        Ok(true)
    }

    fn next(&mut self, n_left: usize, control: &JobControl) -> Result<NextToken, EngineError> {
        // The first token is returned before the next step is queued.
        if self.pending.is_empty() {
            if self.constraint.is_complete() {
                return Ok(NextToken::Complete);
            }
            let computed = self.step(n_left, control);
            computed.map_err(|error| self.failure(error, "decode"))?;
        }
        let token = self.pending.pop();
        self.n_left = n_left.saturating_sub(1);
        Ok(token.map_or(NextToken::Stopped, NextToken::Token))
    }

    fn take_scores(&mut self) -> Option<Scores> {
        self.scores.take()
    }

    fn release_spare_memory(&mut self) {
        self.sessions.clear_parked();
        if let Some(speculation) = &mut self.speculation {
            speculation.release_drafter();
        }
        release_unused_memory();
    }

    fn finish(&mut self) {
        // Nothing may be freed or reused while the device works on it.
        self.newest = Newest::Nothing;
        if let Err(error) = synchronize() {
            tracing::error!(%error, "waiting for the device after a response failed");
            self.reset_session();
        }
        self.sessions.current.drop_unrecorded();
    }
}

/// Waits for a token `[1]` and returns its id.
pub(crate) fn token_id(token: &Array) -> MlxResult<u32> {
    token
        .try_item_exact::<u32>()
        .map_err(|error| Exception::custom(error.to_string()))
}

#[cfg(test)]
mod tests;
