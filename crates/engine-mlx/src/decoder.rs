//! The loop: prefill in chunks, then decode with one step always queued ahead.
//!
//! Token ids in, token ids out; text is `model`'s business. The order in [`Decoder::step`] is the
//! point of this file: step n+1 is queued before token n is waited for, so that the device works
//! while the token is turned into text and shown (as mlx-lm's `generate_step` does).
//!
//! Rule: the session never keeps an array of a step that failed.

mod session;

use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::transforms::{async_eval, eval};
use transom_engine::generation::{Decode, NextToken, TokenCounts};
use transom_engine::{EngineError, JobControl};

pub(crate) use session::Session;

use self::session::OPENING_TOKENS;
use crate::error::{Context, MlxResult};
use crate::memory::release_spare_memory;
use crate::nn::{Transformer, Wanted};
use crate::ops::synchronize;
use crate::sampler::Sampler;

/// One answer in progress. Dropping it settles the device and leaves the session consistent.
pub(crate) struct Decoder<'a> {
    transformer: &'a Transformer,
    session: &'a mut Session,
    sampler: Sampler,
    n_cached: usize,
    pending: Pending,
}

/// The token that comes next.
enum Pending {
    /// Prefill has not finished.
    Nothing,
    /// Prefill gave it: it is known, and no step has been queued after it.
    First(Array),
    /// Handed out; the step that follows it has yet to be queued.
    Passed(Array),
    /// The device is at work on it.
    Queued(Array),
}

impl<'a> Decoder<'a> {
    /// Prepares to answer `prompt`, reusing what the session has of it.
    pub(crate) fn new(
        transformer: &'a Transformer,
        session: &'a mut Session,
        sampler: Sampler,
        prompt: &[u32],
    ) -> Self {
        let n_cached = session.reuse(prompt);
        // Whoever edits the message that comes now comes back to here. Another answer to the same
        // question brings no message, so what was pinned before stays.
        if prompt.len() - n_cached > OPENING_TOKENS {
            session.pin();
        }
        Self {
            transformer,
            session,
            sampler,
            n_cached,
            pending: Pending::Nothing,
        }
    }

    fn prefill_chunk(&mut self, tokens: &[u32], is_last: bool) -> MlxResult<()> {
        let tokens = Array::from_slice(tokens, &[tokens.len() as i32]);
        let logits =
            self.transformer
                .forward(&tokens, self.session.cache_mut(), Wanted::LastLogits)?;
        if is_last {
            let token = self.sampler.sample(&logits)?;
            eval([&token])?;
            self.pending = Pending::First(token);
        } else {
            // Only the cache is evaluated: logits of a chunk in the middle are never computed.
            eval(self.session.arrays())?;
        }
        Ok(())
    }

    /// The next token. `more` says whether another will be wanted after it.
    fn step(&mut self, more: bool) -> MlxResult<u32> {
        let token = match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Nothing => return Err(Exception::custom("nothing was prefilled")),
            // The first token is not kept waiting for the step after it.
            Pending::First(token) => {
                let value = known(&token)?;
                self.pending = Pending::Passed(token);
                return Ok(value);
            }
            Pending::Passed(previous) => {
                let token = self.queue_after(&previous)?;
                self.session.processed(&[known(&previous)?]);
                token
            }
            Pending::Queued(token) => token,
        };
        if !more {
            return known(&token);
        }
        self.pending = Pending::Queued(self.queue_after(&token)?);
        let value = known(&token)?;
        self.session.processed(&[value]);
        Ok(value)
    }

    /// Forgets the conversation after a step that failed: the cache consists of arrays that were never
    /// computed, and whoever uses one would run the failed step again.
    fn forget(&mut self) {
        *self.session = Session::new(self.transformer);
    }

    /// Queues the step that processes `token`, and returns the token that it will give.
    fn queue_after(&mut self, token: &Array) -> MlxResult<Array> {
        let logits =
            self.transformer
                .forward(token, self.session.cache_mut(), Wanted::LastLogits)?;
        let next = self.sampler.sample(&logits)?;
        async_eval([&next])?;
        Ok(next)
    }
}

impl Decode for Decoder<'_> {
    fn n_cached(&self) -> usize {
        self.n_cached
    }

    fn prefill(
        &mut self,
        prompt: &[u32],
        chunk: usize,
        control: &JobControl,
        mut on_progress: impl FnMut(usize),
    ) -> Result<(), EngineError> {
        let mut done = self.n_cached;
        // Where the question ends: whoever wants another answer, or goes on without what was
        // thought, comes back to here. A state is lost with the next token, so a chunk ends there.
        let pinned = if self.session.has_states() {
            prompt.len().saturating_sub(OPENING_TOKENS)
        } else {
            prompt.len()
        };
        while done < prompt.len() {
            // Checked before the chunk, because a queued chunk has to be waited for.
            if control.is_stopped() {
                return Ok(());
            }
            let mut end = prompt.len().min(done + chunk.max(1));
            if done < pinned {
                end = end.min(pinned);
            }
            self.prefill_chunk(&prompt[done..end], end == prompt.len())
                .inspect_err(|_| self.forget())
                .during("prefill")?;
            self.session.processed(&prompt[done..end]);
            if end == pinned {
                self.session.pin();
            }
            done = end;
            on_progress(done);
        }
        Ok(())
    }

    fn next(&mut self, room: usize, _: &JobControl) -> Result<NextToken, EngineError> {
        let token = self.step(room > 1).inspect_err(|_| self.forget());
        token.map(NextToken::Token).during("decode")
    }

    fn counts(&self) -> TokenCounts {
        TokenCounts::default()
    }

    fn release_spare_memory() {
        release_spare_memory();
    }
}

/// The value of a token `[1]`, waiting for it if need be.
fn known(token: &Array) -> MlxResult<u32> {
    token
        .try_item_exact::<u32>()
        .map_err(|error| Exception::custom(error.to_string()))
}

impl Drop for Decoder<'_> {
    fn drop(&mut self) {
        // Settle: nothing may be freed or reused while the device still works on it.
        self.pending = Pending::Nothing;
        if let Err(error) = synchronize() {
            tracing::error!(%error, "waiting for the device after an answer failed");
        }
        self.session.settle();
    }
}
