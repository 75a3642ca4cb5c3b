//! The sessions of a model: that of the current conversation, and those that are parked.
//!
//! Rule: parked sessions are never changed, so they contain only arrays of completed steps.

use transom_engine::{ConversationId, Parked, ParkedState};

use crate::nn::Transformer;
use crate::session::Session;

#[derive(Debug)]
pub(crate) struct Sessions {
    /// The session of the last request.
    pub(crate) current: Session,
    parked: Parked<Session>,
}

impl Sessions {
    /// Returns an empty session that allows `parked_bytes` bytes of others.
    pub(crate) fn new(transformer: &Transformer, parked_bytes: u64) -> Self {
        Self {
            current: Session::new(transformer),
            parked: Parked::new(parked_bytes),
        }
    }

    /// Continues the session with the longest usable prefix of `prompt`, which becomes the current
    /// one, and parks the former one. If the prefix is of another conversation, that one stays
    /// parked unchanged. Returns the number of cached tokens of `prompt`.
    pub(crate) fn reuse(
        &mut self,
        prompt: &[u32],
        conversation: Option<ConversationId>,
        transformer: &Transformer,
    ) -> usize {
        let n_current = self.current.reusable_tokens(prompt);
        let reusable = |session: &Session| session.reusable_tokens(prompt);
        if let Some(better) = self.parked.take_better(n_current, reusable) {
            let former = std::mem::replace(&mut self.current, better);
            self.park(former);
        }
        let n_reused = self.current.reusable_tokens(prompt);
        if self.parked.must_park(&self.current, conversation, n_reused) {
            let former = std::mem::replace(&mut self.current, Session::new(transformer));
            // It is parked first, so that the copy never exceeds the memory need.
            let fork = self.park(former).map(|former| former.fork(n_reused));
            match fork {
                Some(Ok(fork)) => self.current = fork,
                Some(Err(error)) => {
                    tracing::warn!(%error, "the KV cache of another conversation was not copied");
                }
                None => {}
            }
        }
        self.current.continue_from(n_reused, conversation);
        self.current.tokens().len()
    }

    /// Parks and returns `session`, unless its last step failed or it does not fit the limit.
    fn park(&mut self, session: Session) -> Option<&Session> {
        if let Err(error) = session.evaluate() {
            tracing::warn!(%error, "the KV cache of the last conversation was dropped");
            return None;
        }
        self.parked.park(session)
    }

    /// Returns all sessions with tokens: the current one, and the others from the most recently used
    /// one on.
    pub(crate) fn by_last_use(&self) -> Vec<&Session> {
        let parked: Vec<&Session> = self.parked.iter().collect();
        let all = std::iter::once(&self.current).chain(parked.into_iter().rev());
        all.filter(|session| !session.tokens().is_empty()).collect()
    }

    /// Parks the current session, and has an empty one.
    pub(crate) fn park_current(&mut self, transformer: &Transformer) {
        let former = std::mem::replace(&mut self.current, Session::new(transformer));
        self.park(former);
    }

    /// Drops all sessions but the current one.
    pub(crate) fn clear_parked(&mut self) {
        self.parked.clear();
    }

    pub(crate) fn parked_bytes(&self) -> u64 {
        self.parked.bytes()
    }
}
