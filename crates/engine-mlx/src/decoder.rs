//! Generates token ids: prefill in chunks, then decode with one step queued ahead.
//!
//! [`Decoder::step`] queues step n+1 before it waits for token n, so that the device works while
//! the token is converted to text and shown (like mlx-lm's `generate_step`).
//!
//! Rule: no session keeps an array of a failed step.

use mlx_rs::Array;
use mlx_rs::error::Exception;
use mlx_rs::transforms::{async_eval, eval};
use transom_engine::generation::{Decode, NextToken};
use transom_engine::{ConversationId, EngineError, JobControl};

use crate::error::{Context, MlxResult};
use crate::memory::release_unused_memory;
use crate::nn::{Positions, Transformer};
use crate::ops::synchronize;
use crate::sampler::Sampler;
use crate::session::Session;
use crate::sessions::Sessions;

/// A response in progress. Dropping it waits for the device and leaves the sessions consistent.
pub(crate) struct Decoder<'a> {
    transformer: &'a Transformer,
    sessions: &'a mut Sessions,
    sampler: Sampler,
    n_cached: usize,
    pending: Pending,
}

/// The newest token.
enum Pending {
    /// Prefill has not finished.
    Nothing,
    /// The first token, which prefill evaluated. No step is queued after it.
    First(Array),
    /// The first token after it was returned. No step is queued after it.
    Returned(Array),
    /// A token that the device computes.
    Queued(Array),
}

impl<'a> Decoder<'a> {
    /// Prepares the response to `prompt`, of which the longest cached prefix is reused.
    pub(crate) fn new(
        transformer: &'a Transformer,
        sessions: &'a mut Sessions,
        sampler: Sampler,
        prompt: &[u32],
        conversation: Option<ConversationId>,
    ) -> Self {
        Self {
            transformer,
            n_cached: sessions.reuse(prompt, conversation, transformer),
            sessions,
            sampler,
            pending: Pending::Nothing,
        }
    }

    fn prefill_chunk(&mut self, tokens: &[u32], is_last: bool) -> MlxResult<()> {
        let tokens = Array::from_slice(tokens, &[tokens.len() as i32]);
        let caches = self.sessions.current.caches_mut();
        let logits = self.transformer.logits(&tokens, caches, Positions::Last)?;
        if is_last {
            let token = self.sampler.sample(&logits)?;
            eval([&token])?;
            self.pending = Pending::First(token);
        } else {
            // Only the caches are evaluated, so the logits of this chunk are never computed.
            eval(self.sessions.current.arrays())?;
        }
        Ok(())
    }

    /// Returns the next token. `more` tells whether another one will be needed after it.
    fn step(&mut self, more: bool) -> MlxResult<u32> {
        let token = match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Nothing => return Err(Exception::custom("nothing was prefilled")),
            // The first token is returned before the next step is queued.
            Pending::First(token) => {
                let value = token_id(&token)?;
                self.pending = Pending::Returned(token);
                return Ok(value);
            }
            Pending::Returned(previous) => {
                let token = self.queue_after(&previous)?;
                self.sessions.current.processed(&[token_id(&previous)?]);
                token
            }
            Pending::Queued(token) => token,
        };
        if !more {
            return token_id(&token);
        }
        self.pending = Pending::Queued(self.queue_after(&token)?);
        let value = token_id(&token)?;
        self.sessions.current.processed(&[value]);
        Ok(value)
    }

    /// Replaces the current session after a failed step: its caches consist of arrays that were
    /// never computed, and using one would run the failed step again.
    fn reset_session(&mut self) {
        self.sessions.current = Session::new(self.transformer);
    }

    /// Queues the step that processes `token`, and returns the token that it samples.
    fn queue_after(&mut self, token: &Array) -> MlxResult<Array> {
        let caches = self.sessions.current.caches_mut();
        let logits = self.transformer.logits(token, caches, Positions::Last)?;
        let next = self.sampler.sample(&logits)?;
        async_eval([&next])?;
        Ok(next)
    }
}

impl Decode for Decoder<'_> {
    fn n_cached(&self) -> usize {
        self.n_cached
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
        self.prefill_chunk(tokens, is_last)
            .inspect_err(|_| self.reset_session())
            .during("prefill")?;
        self.sessions.current.processed(tokens);
        Ok(true)
    }

    fn next(&mut self, n_wanted: usize, _: &JobControl) -> Result<NextToken, EngineError> {
        let token = self
            .step(n_wanted > 1)
            .inspect_err(|_| self.reset_session());
        token.map(NextToken::Token).during("decode")
    }

    fn release_spare_memory(&mut self) {
        self.sessions.clear_parked();
        release_unused_memory();
    }
}

/// Waits for a token `[1]` and returns its id.
fn token_id(token: &Array) -> MlxResult<u32> {
    token
        .try_item_exact::<u32>()
        .map_err(|error| Exception::custom(error.to_string()))
}

impl Drop for Decoder<'_> {
    fn drop(&mut self) {
        // Nothing may be freed or reused while the device works on it.
        self.pending = Pending::Nothing;
        if let Err(error) = synchronize() {
            tracing::error!(%error, "waiting for the device after a response failed");
        }
        self.sessions.current.settle();
    }
}
