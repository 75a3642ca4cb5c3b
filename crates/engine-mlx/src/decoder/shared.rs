//! Steps that several responses share: one token of each, so that the weights are read once for all.
//!
//! Only steps of one token are shared. A response with a draft or log probabilities takes its steps alone,
//! and so does one whose constraint forces the next tokens, which one step reads.
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
use crate::error::StepError;
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
            Newest::Queued(_) | Newest::Logits(_) | Newest::LogitsAfterForced(_) => 2,
            _ => return false,
        };
        self.pending.is_empty()
            && self.n_left >= n_tokens
            && !self.scorer.needs_logits()
            && !self.expects_draft(self.n_left - n_tokens)
    }

    /// Returns true if the constraint, if there is one, leaves a choice of the next token. Otherwise the
    /// response reads what is forced, ends or fails when it is its turn.
    pub(crate) fn has_choice(&mut self) -> bool {
        if !self.constraint.is_some() {
            return true;
        }
        let is_forced = self.forced_step > 0 && !self.constraint.forced(1).is_empty();
        !is_forced && !self.constraint.is_complete() && self.constraint.mask().is_ok()
    }

    /// Returns true if the next token is computed, or is being computed, and the step after it was
    /// shared.
    pub(crate) fn has_shared(&self) -> bool {
        matches!(self.newest, Newest::Shared { .. })
    }

    /// Queues one step for all of `responses`, which can share it and have a choice. If that fails, each of
    /// them fails in its next step.
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
        let tokens = responses.iter_mut().map(|response| response.input());
        let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
        // By themselves, so that they are known before the step after them has ended.
        async_eval(&tokens)?;
        let tokens = ops::concatenate(&tokens, 0)?;
        let sessions = responses.iter_mut().map(|one| &mut one.sessions.current);
        let mut sequences: Vec<_> = sessions.map(|session| session.caches_mut()).collect();
        let logits = transformer.logits(&tokens, &mut sequences, Positions::Last)?;
        let mut queued = Vec::with_capacity(responses.len());
        let of_each = parts(&logits, responses.len() as i32);
        for (response, logits) in responses.iter_mut().zip(of_each) {
            let next = match response.constraint.is_some() {
                true => logits?,
                false => response.sample(&logits?)?,
            };
            queued.push(next.clone());
            response.newest = match std::mem::replace(&mut response.newest, Newest::Nothing) {
                Newest::First(last) | Newest::Known(last) => {
                    response.sessions.current.processed(&[last]);
                    response.computed(next)
                }
                Newest::Queued(token) => Newest::Shared { token, next },
                other => other,
            };
        }
        Ok(async_eval(&queued)?)
    }

    /// Returns the token `[1]` that the next step processes. It is known or queued then.
    fn input(&mut self) -> Result<Array, StepError> {
        match std::mem::replace(&mut self.newest, Newest::Nothing) {
            Newest::Logits(logits) | Newest::LogitsAfterForced(logits) => {
                self.newest = Newest::Queued(self.sample(&logits)?);
            }
            newest => self.newest = newest,
        }
        match &self.newest {
            Newest::First(last) | Newest::Known(last) => Ok(Array::from_slice(&[*last], &[1])),
            Newest::Queued(token) => Ok(token.clone()),
            _ => Err(Exception::custom("this response cannot share a step").into()),
        }
    }

    /// Returns what a shared step computes of the next token: the token, or the logits from which it is
    /// sampled when the constraint is known.
    fn computed(&self, next: Array) -> Newest {
        match self.constraint.is_some() {
            true => Newest::Logits(next),
            false => Newest::Queued(next),
        }
    }

    /// Waits for `token`, after which a shared step computes `next`.
    pub(super) fn read_shared(&mut self, token: &Array, next: Array) -> Result<(), StepError> {
        let value = token_id(token)?;
        self.sessions.current.processed(&[value]);
        self.newest = self.computed(next);
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
