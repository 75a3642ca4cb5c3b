//! The state of a recurrent layer: arrays that each step replaces.
//!
//! A state cannot be taken apart again, so it goes back only to the places that were pinned. Rule:
//! arrays that were put here are never written to.

use mlx_rs::Array;

use crate::error::MlxResult;

/// What the layer carried after a number of tokens.
#[derive(Debug, Clone)]
struct Moment {
    n_tokens: i32,
    arrays: Vec<Array>,
}

impl Moment {
    fn bytes(&self) -> u64 {
        self.arrays.iter().map(|array| array.nbytes() as u64).sum()
    }
}

/// Keeps the newest state, and those that were pinned.
#[derive(Debug, Default)]
pub(crate) struct StateCache {
    now: Option<Moment>,
    pins: Vec<Moment>,
}

impl StateCache {
    /// The state `arrays` after `n_tokens`.
    pub(crate) fn holding(n_tokens: i32, arrays: Vec<Array>) -> Self {
        Self {
            now: Some(Moment { n_tokens, arrays }),
            pins: Vec::new(),
        }
    }

    /// Tokens processed so far.
    pub(crate) fn n_tokens(&self) -> i32 {
        self.now.as_ref().map_or(0, |now| now.n_tokens)
    }

    /// The state that the last step left, in the order in which it was put; nothing before the
    /// first token.
    pub(crate) fn get(&self) -> Option<&[Array]> {
        self.now.as_ref().map(|now| now.arrays.as_slice())
    }

    /// Puts the state that `n_new` more tokens led to: always as many arrays, of the same shapes.
    pub(crate) fn put(&mut self, n_new: i32, arrays: Vec<Array>) {
        let n_tokens = self.n_tokens() + n_new;
        self.now = Some(Moment { n_tokens, arrays });
    }

    /// See [`super::LayerCache::reach`].
    pub(crate) fn reach(&self, n_tokens: i32) -> i32 {
        let places = self.pins.iter().chain(&self.now).map(|m| m.n_tokens);
        places.filter(|&place| place <= n_tokens).max().unwrap_or(0)
    }

    /// See [`super::LayerCache::rewind`].
    pub(crate) fn rewind(&mut self, n_tokens: i32) {
        self.pins.retain(|pin| pin.n_tokens <= n_tokens);
        if self.n_tokens() != n_tokens {
            let pin = self.pins.iter().find(|pin| pin.n_tokens == n_tokens);
            debug_assert!(n_tokens == 0 || pin.is_some(), "{n_tokens} is out of reach");
            self.now = pin.cloned();
        }
    }

    /// See [`super::LayerCache::pin`].
    pub(crate) fn pin(&mut self, n_pins: usize) {
        let n_tokens = self.n_tokens();
        if self.pins.last().is_none_or(|pin| pin.n_tokens != n_tokens) {
            self.pins.extend(self.now.clone());
        }
        let n_old = self.pins.len().saturating_sub(n_pins);
        self.pins.drain(..n_old);
    }

    /// See [`super::LayerCache::pins`].
    pub(crate) fn pins(&self) -> Vec<i32> {
        self.pins.iter().map(|pin| pin.n_tokens).collect()
    }

    /// The newest state's arrays.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.now.iter().flat_map(|now| &now.arrays)
    }

    /// Bytes of one state.
    pub(crate) fn bytes_of_state(&self) -> u64 {
        self.now.as_ref().map_or(0, Moment::bytes)
    }

    /// Bytes of the pinned states, but for one that is also the newest.
    pub(crate) fn bytes_of_pins(&self) -> u64 {
        let n_tokens = self.n_tokens();
        let older = self.pins.iter().filter(|pin| pin.n_tokens != n_tokens);
        older.map(Moment::bytes).sum()
    }

    /// See [`super::LayerCache::stored`].
    pub(crate) fn stored(&self, n_tokens: i32) -> MlxResult<Vec<Array>> {
        let mut moments = self.now.iter().chain(&self.pins);
        let moment = moments.find(|moment| moment.n_tokens == n_tokens);
        Ok(moment.map_or_else(Vec::new, |moment| moment.arrays.clone()))
    }

    /// See [`super::LayerCache::stored_shapes`].
    pub(crate) fn stored_shapes(&self) -> Vec<(String, Vec<i32>)> {
        self.arrays()
            .enumerate()
            .map(|(index, array)| (format!("state.{index}"), array.shape().to_vec()))
            .collect()
    }

    /// See [`super::LayerCache::take_pin`].
    pub(crate) fn take_pin(&mut self, other: Self) {
        self.pins.extend(other.now);
    }
}
