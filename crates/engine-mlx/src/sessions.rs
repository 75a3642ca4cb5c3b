//! The sessions of a model: that of the current conversation, and those that are parked.
//!
//! While several responses are generated in turns, each has sessions with its own conversation.
//!
//! Rule: parked sessions are never changed, so they contain only arrays of completed steps. They belong
//! to the model: they are in the sessions that are being used, and in the idle ones between two steps.

use transom_engine::parked::FEW_TOKENS;
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
        if let Err(error) = self.current.continue_from(n_reused, conversation) {
            tracing::warn!(%error, "the KV cache of this conversation was dropped");
            let caches = transformer.new_caches();
            let quantizes_parked = transformer.quantizes_parked;
            self.current = Session::from_saved(Vec::new(), caches, conversation, quantizes_parked);
        }
        self.current.tokens().len()
    }

    /// Parks and returns `session`, unless its last step failed or it does not fit the limit.
    fn park(&mut self, mut session: Session) -> Option<&Session> {
        // First, so that the limit holds while its blocks are converted.
        if !self.parked.make_room(session.parked_bytes()) {
            return None;
        }
        if let Err(error) = session.quantize() {
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

    /// Exchanges the parked sessions.
    pub(crate) fn swap_parked(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.parked, &mut other.parked);
    }

    /// Replaces the current session by that of a response that has ended, and parks the former one. It
    /// has another conversation if a response began and ended meanwhile.
    pub(crate) fn replace(&mut self, ended: Self) {
        let former = std::mem::replace(&mut self.current, ended.current);
        self.park(former);
    }

    /// Parks the session of a response that has ended while others are in progress.
    pub(crate) fn park_ended(&mut self, ended: Self) {
        self.park(ended.current);
    }

    /// Copies what `prompt` reuses of the conversation of `running`, a response in progress, if that is
    /// more than of every other conversation. The current one is parked.
    pub(crate) fn copy_from(&mut self, running: &Self, prompt: &[u32]) {
        let reusable = |session: &Session| session.reusable_tokens(prompt);
        let of_parked = self.parked.iter().map(reusable).max();
        let best = of_parked.unwrap_or(0).max(reusable(&self.current));
        let n_reused = reusable(&running.current);
        if n_reused <= best + FEW_TOKENS {
            return;
        }
        match running.current.fork(n_reused) {
            Ok(copy) => {
                let former = std::mem::replace(&mut self.current, copy);
                self.park(former);
            }
            Err(error) => {
                tracing::warn!(%error, "the KV cache of a response in progress was not copied");
            }
        }
    }

    /// Drops all sessions but the current one.
    pub(crate) fn clear_parked(&mut self) {
        self.parked.clear();
    }

    pub(crate) fn parked_bytes(&self) -> u64 {
        self.parked.bytes()
    }
}
