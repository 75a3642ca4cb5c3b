//! The steps of a session, in its own context or in the joint one.

use std::time::Instant;

use transom_engine::{EngineError, JobControl};

use super::{Session, failed};
use crate::native::StepError;

impl Session {
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
        if self.seat.is_none() {
            self.reserve(self.n_expected.max(n_before + tokens.len()))?;
        }
        let n_threads = self.shared.thread_tuner.n_threads();
        let began = Instant::now();
        let result = match (self.seat, &mut self.shared.joint, &mut self.context) {
            (Some(seat), Some(joint), _) => {
                joint.context_mut().set_n_threads(n_threads);
                joint.append(seat, tokens, n_before, n_logits, job)
            }
            (None, _, Some(context)) => {
                self.batch.fill(tokens, n_before, n_logits);
                context.set_n_threads(n_threads);
                let result = context.step(&mut self.batch, job);
                result.map(|()| tokens.len())
            }
            _ => return Ok(false),
        };
        if let (Ok(n_computed @ 1..), [_]) = (result, tokens) {
            // A token takes less time in a shared step, but not as much less as a slow step takes more.
            let took = began.elapsed() / n_computed as u32;
            self.shared.thread_tuner.record_step(took);
        }
        let conversation = &mut self.conversation;
        conversation.tokens.extend_from_slice(tokens);
        if conversation.n_exact == n_before {
            conversation.n_exact += tokens.len();
        }
        match result {
            Ok(_) => {
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

    /// Tells sessions that share steps that `token` will be appended alone, so that the next step of
    /// any of them computes it too.
    pub(crate) fn announce(&mut self, token: u32) {
        let n_tokens = self.tokens().len();
        if let (Some(seat), Some(joint)) = (self.seat, &mut self.shared.joint) {
            joint.announce(seat, token, n_tokens);
        }
    }

    /// Returns true if the step of another session has computed the token that `sibling` announced.
    pub(crate) fn has_computed(&self, sibling: &Self) -> bool {
        let joint = self.shared.joint.as_ref();
        let at_seat = sibling.seat.zip(joint);
        at_seat.is_some_and(|(seat, joint)| joint.has_computed(seat))
    }

    /// Returns true while the session shares steps with others.
    pub(crate) fn shares_steps(&self) -> bool {
        self.seat.is_some()
    }

    /// Returns how many more tokens can be appended without moving the cache or shifting its contents.
    pub(crate) fn n_free(&self) -> usize {
        let joint = self.shared.joint.as_ref().filter(|_| self.seat.is_some());
        let capacity = joint.map_or(self.config.context_length, |joint| {
            joint.context().capacity()
        });
        capacity.saturating_sub(self.tokens().len())
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
        let logits = match self.seat {
            Some(seat) => {
                let joint = self.shared.joint.as_ref();
                joint.and_then(|joint| joint.logits(seat, index))
            }
            None => self.context.as_ref().and_then(|all| all.logits(index)),
        };
        logits.ok_or_else(|| {
            EngineError::backend("decode", "llama.cpp has no logits for the last token")
        })
    }

    /// Waits until the last step has finished. A device may compute it after [`Session::append`].
    pub(crate) fn wait(&self) {
        if let Some((context, _)) = self.cache() {
            context.synchronize();
        }
    }

    /// Waits until nothing runs, at the end of a response. After that the cache can be saved.
    pub(crate) fn finish(&mut self) {
        self.wait();
        if let (Some(seat), Some(joint)) = (self.seat, &mut self.shared.joint) {
            joint.withdraw(seat);
        }
        self.drop_pending_shift();
    }
}
