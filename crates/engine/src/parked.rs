//! The KV caches of conversations that a model computed before the current one. They stay in
//! memory, so that continuing one of these conversations needs prefill only for new tokens.
//!
//! Rule: any conversation may continue a parked state, so the tokens that another conversation can
//! reuse are only those whose keys and values are those of a fresh prefill.

use crate::request::ConversationId;

/// A request that drops at most this many tokens of another conversation does not park it: reading
/// them again takes no longer than one step.
pub const FEW_TOKENS: usize = 32;

/// The KV cache of a conversation that is not the current one.
pub trait ParkedState {
    /// Returns the tokens in the KV cache.
    fn tokens(&self) -> &[u32];

    /// Returns the conversation that these tokens belong to, if it has an id.
    fn conversation(&self) -> Option<ConversationId>;

    /// Returns the size in bytes of memory.
    fn bytes(&self) -> u64;

    /// Returns the size in bytes that it has once it is parked.
    fn parked_bytes(&self) -> u64 {
        self.bytes()
    }
}

/// KV caches of earlier conversations, within a limit of bytes. The least recently used one is
/// dropped first.
#[derive(Debug)]
pub struct Parked<S> {
    limit_bytes: u64,
    /// The most recently used one is last.
    states: Vec<S>,
}

impl<S: ParkedState> Parked<S> {
    /// Returns an empty list that never holds more than `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            states: Vec::new(),
        }
    }

    /// Returns true if a request has to park `current` before it continues from the first
    /// `n_reused` tokens of it: `current` belongs to another conversation, the request would drop
    /// more than [`FEW_TOKENS`] of it, and it fits into the limit. Requests without an id each
    /// belong to a conversation of their own.
    pub fn must_park(
        &self,
        current: &S,
        conversation: Option<ConversationId>,
        n_reused: usize,
    ) -> bool {
        let is_same = conversation.is_some() && conversation == current.conversation();
        let n_dropped = current.tokens().len().saturating_sub(n_reused);
        !is_same && n_dropped > FEW_TOKENS && current.parked_bytes() <= self.limit_bytes
    }

    /// Adds `state` as the most recently used one, drops the least recently used ones beyond the
    /// limit, and returns `state`. Drops `state` instead if it has no tokens or is larger than the
    /// limit.
    pub fn park(&mut self, state: S) -> Option<&S> {
        if state.tokens().is_empty() || !self.make_room(state.bytes()) {
            return None;
        }
        self.states.push(state);
        self.states.last()
    }

    /// Drops the least recently used states until a state of `bytes` bytes fits, so that a copy never
    /// takes memory beyond the limit. Returns false, and drops none, if it is larger than the limit.
    pub fn make_room(&mut self, bytes: u64) -> bool {
        let Some(room) = self.limit_bytes.checked_sub(bytes) else {
            return false;
        };
        while self.bytes() > room {
            self.states.remove(0);
        }
        true
    }

    /// Removes and returns the state with the most reusable tokens, if it has more than `current` of
    /// them. Of several, returns the most recently used one. `reusable` returns how many tokens of
    /// the prompt would not need prefill with a state.
    pub fn take_better(&mut self, current: usize, reusable: impl Fn(&S) -> usize) -> Option<S> {
        let reusable = self.iter().map(reusable);
        let (index, n_tokens) = reusable.enumerate().max_by_key(|&(_, n_tokens)| n_tokens)?;
        (n_tokens > current).then(|| self.states.remove(index))
    }

    /// Returns all states, the least recently used one first.
    pub fn iter(&self) -> impl Iterator<Item = &S> {
        self.states.iter()
    }

    /// Returns the size of all states in bytes.
    pub fn bytes(&self) -> u64 {
        let sizes = self.iter().map(ParkedState::bytes);
        sizes.fold(0, u64::saturating_add)
    }

    /// Returns the number of states.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Returns true if there are no states.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Drops all states.
    pub fn clear(&mut self) {
        self.states.clear();
    }
}

#[cfg(test)]
mod tests;
