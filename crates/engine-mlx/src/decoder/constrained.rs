//! The steps of a constrained response, whose tokens are sampled from what the constraint allows.

use std::ops::DerefMut;
use std::time::Duration;

use mlx_rs::Array;
use mlx_rs::transforms::async_eval;
use transom_engine::speculation::Speculation;

use super::{Decoder, Newest, token_id};
use crate::error::{MlxResult, StepError};
use crate::nn::Positions;
use crate::sessions::Sessions;

impl<S, P> Decoder<S, P>
where
    S: DerefMut<Target = Sessions>,
    P: DerefMut<Target = Speculation>,
{
    /// Samples the next token of a constrained response from `logits`, which the device computes
    /// meanwhile, queues the step after it, and waits for it. Returns the time since the token before
    /// it was known.
    pub(super) fn sample_queued(
        &mut self,
        logits: &Array,
        n_left: usize,
    ) -> Result<Duration, StepError> {
        let token = self.sample(logits)?;
        // By itself, so that it is known before the step after it has ended.
        async_eval([&token])?;
        // The draft would follow this token, and another token follows the draft.
        let waits = self.expects_draft(n_left.saturating_sub(2));
        let next = match self.queues_next(n_left) && !waits {
            true => Some(self.queue_logits(&token)?),
            false => None,
        };
        let value = token_id(&token)?;
        self.score(value)?;
        self.newest = match next {
            Some(logits) => {
                self.sessions.current.processed(&[value]);
                Newest::Logits(logits)
            }
            None => Newest::Known(value),
        };
        self.accept(value)?;
        Ok(self.take_time())
    }

    /// Writes the tokens that the constraint forces after the newest one, and queues the steps
    /// that read them.
    pub(super) fn write_forced(&mut self, forced: &[u32]) -> Result<(), StepError> {
        let unread = match std::mem::replace(&mut self.newest, Newest::Nothing) {
            Newest::First(last) | Newest::Known(last) => Some(last),
            _ => None,
        };
        let tokens: Vec<u32> = unread.into_iter().chain(forced.iter().copied()).collect();
        let mut newest = Newest::Nothing;
        for part in tokens.chunks(self.forced_step) {
            let ids = Array::from_slice(part, &[part.len() as i32]);
            newest = Newest::LogitsAfterForced(self.queue_logits(&ids)?);
            self.sessions.current.processed(part);
        }
        self.sampler.record_known(forced)?;
        for &token in forced {
            self.accept(token)?;
        }
        self.newest = newest;
        Ok(())
    }

    /// Queues the step that processes the known token `last`, and returns its logits.
    pub(super) fn queue_known_logits(&mut self, last: u32) -> MlxResult<Array> {
        let logits = self.queue_logits(&Array::from_slice(&[last], &[1]))?;
        self.sessions.current.processed(&[last]);
        Ok(logits)
    }

    /// Queues the step that processes `token`, and returns its logits.
    fn queue_logits(&mut self, token: &Array) -> MlxResult<Array> {
        let caches = self.sessions.current.caches_mut();
        let logits = self
            .transformer
            .logits(token, &mut [caches], Positions::Last)?;
        async_eval([&logits])?;
        Ok(logits)
    }
}
