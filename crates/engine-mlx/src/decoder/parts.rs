//! What the model gives to a decoder, and what it does with one between two steps.

use std::ops::DerefMut;
use std::time::Instant;

use transom_engine::speculation::Speculation;
use transom_engine::{ConversationId, ResponseConstraint, Scorer};

use super::Decoder;
use crate::sampler::Sampler;
use crate::sessions::Sessions;

/// What a response needs besides its prompt.
pub(crate) struct ResponseOptions {
    pub(crate) sampler: Sampler,
    pub(crate) constraint: ResponseConstraint,
    /// How many tokens that the constraint forces a step reads at most; 0 samples them like others.
    pub(crate) forced_step: usize,
    pub(crate) conversation: Option<ConversationId>,
    pub(crate) scorer: Scorer,
}

impl<S, P> Decoder<S, P>
where
    S: DerefMut<Target = Sessions>,
    P: DerefMut<Target = Speculation>,
{
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    pub(crate) fn sessions_mut(&mut self) -> &mut Sessions {
        &mut self.sessions
    }

    pub(crate) fn speculation(&self) -> Option<&Speculation> {
        self.speculation.as_deref()
    }

    /// Returns the sessions and the state of speculative decoding, after the response has ended.
    pub(crate) fn into_parts(self) -> (S, Option<P>) {
        (self.sessions, self.speculation)
    }

    /// Leaves out of the times of steps that the thread has worked on other responses until now. The
    /// device may have worked on this one meanwhile, so the next step may seem faster than it is.
    pub(crate) fn resume(&mut self) {
        self.known_at = Instant::now();
    }
}
