//! Steps that several responses share: one token of each, so that the weights are read once for all.
//!
//! Only steps of one token whose logits are sampled at once are shared. A response with a draft, a
//! constraint or log probabilities takes such a step alone.
//!
//! A shared step is queued before the tokens that it continues are known, like a step of one response.
//! Each response reads its token when it is its turn, and joins the next shared step after that. So no
//! response has more than one token that it has not read, and none waits for another one.

use std::ops::DerefMut;

use mlx_rs::error::Exception;
use mlx_rs::transforms::async_eval;
use mlx_rs::{Array, ops};
use transom_engine::speculation::Speculation;

use super::{Decoder, Newest, token_id};
use crate::error::{MlxResult, StepError};
use crate::nn::Positions;
use crate::ops::parts;
use crate::sessions::Sessions;

impl<S, P> Decoder<S, P>
where
    S: DerefMut<Target = Sessions>,
    P: DerefMut<Target = Speculation>,
{
    /// Returns true if the next step to queue for this response may be a shared one.
    pub(crate) fn can_share(&self) -> bool {
        let n_tokens = match self.newest {
            Newest::First(_) | Newest::Known(_) => 1,
            // The step computes the token after this one.
            Newest::Queued(_) => 2,
            _ => return false,
        };
        self.pending.is_empty()
            && self.n_left >= n_tokens
            && !self.constraint.is_some()
            && !self.scorer.needs_logits()
            && !self.expects_draft(self.n_left - n_tokens)
    }

    /// Returns true if the next token is computed, or is being computed, and the step after it was
    /// shared.
    pub(crate) fn has_shared(&self) -> bool {
        matches!(self.newest, Newest::Shared { .. })
    }

    /// Queues one step for all of `responses`, which can share it. If that fails, each of them fails in
    /// its next step.
    pub(crate) fn queue_shared(responses: &mut [&mut Self]) {
        let Err(error) = Self::try_queue_shared(responses) else {
            return;
        };
        let reason = match error {
            StepError::Device(exception) => exception.what().to_owned(),
            StepError::Constraint(error) => error.to_string(),
        };
        for response in responses {
            response.reset_session();
            response.newest = Newest::Failed(reason.clone());
        }
    }

    fn try_queue_shared(responses: &mut [&mut Self]) -> Result<(), StepError> {
        let Some(first) = responses.first() else {
            return Ok(());
        };
        let transformer = first.transformer.clone();
        let tokens = responses.iter().map(|response| response.input());
        let tokens = ops::concatenate(&tokens.collect::<MlxResult<Vec<_>>>()?, 0)?;
        let sessions = responses.iter_mut().map(|one| &mut one.sessions.current);
        let mut sequences: Vec<_> = sessions.map(|session| session.caches_mut()).collect();
        let logits = transformer.logits(&tokens, &mut sequences, Positions::Last)?;
        let mut queued = Vec::with_capacity(responses.len());
        let of_each = parts(&logits, responses.len() as i32);
        for (response, logits) in responses.iter_mut().zip(of_each) {
            let next = response.sample(&logits?)?;
            queued.push(next.clone());
            response.newest = match std::mem::replace(&mut response.newest, Newest::Nothing) {
                Newest::First(last) | Newest::Known(last) => {
                    response.sessions.current.processed(&[last]);
                    Newest::Queued(next)
                }
                Newest::Queued(token) => Newest::Shared { token, next },
                other => other,
            };
        }
        Ok(async_eval(&queued)?)
    }

    /// Returns the token `[1]` that the next step processes.
    fn input(&self) -> MlxResult<Array> {
        match &self.newest {
            Newest::First(last) | Newest::Known(last) => Ok(Array::from_slice(&[*last], &[1])),
            Newest::Queued(token) => Ok(token.clone()),
            _ => Err(Exception::custom("this response cannot share a step")),
        }
    }

    /// Waits for `token`, after which a shared step computes `next`.
    pub(super) fn read_shared(&mut self, token: &Array, next: Array) -> Result<(), StepError> {
        let value = token_id(token)?;
        self.sessions.current.processed(&[value]);
        self.newest = Newest::Queued(next);
        self.accept(value)?;
        self.take_time();
        // The step took the time of all responses that share it.
        if let Some(speculation) = &mut self.speculation {
            speculation.skip_step();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
