//! The state of a recurrent layer: arrays that each step replaces.
//!
//! A state cannot be rewound, so the cache returns only to its checkpoints.
//!
//! Rule: arrays in the cache are never written to.

use mlx_rs::Array;

use crate::error::MlxResult;

#[derive(Debug, Clone)]
struct Snapshot {
    n_tokens: i32,
    arrays: Vec<Array>,
}

impl Snapshot {
    fn bytes(&self) -> u64 {
        self.arrays.iter().map(|array| array.nbytes() as u64).sum()
    }
}

#[derive(Debug, Default)]
pub(crate) struct StateCache {
    current: Option<Snapshot>,
    checkpoints: Vec<Snapshot>,
}

impl StateCache {
    pub(crate) fn from_saved(n_tokens: i32, arrays: Vec<Array>) -> Self {
        Self {
            current: Some(Snapshot { n_tokens, arrays }),
            checkpoints: Vec::new(),
        }
    }

    pub(crate) fn n_tokens(&self) -> i32 {
        self.current.as_ref().map_or(0, |state| state.n_tokens)
    }

    /// Returns the arrays of the current state, in the order of [`StateCache::put`]; `None` before
    /// the first token.
    pub(crate) fn get(&self) -> Option<&[Array]> {
        self.current.as_ref().map(|state| state.arrays.as_slice())
    }

    /// Replaces the state by the one after `n_new` more tokens. The number and shapes of the arrays
    /// must not change.
    pub(crate) fn put(&mut self, n_new: i32, arrays: Vec<Array>) {
        let n_tokens = self.n_tokens() + n_new;
        self.current = Some(Snapshot { n_tokens, arrays });
    }

    pub(crate) fn rewind_target(&self, n_tokens: i32) -> i32 {
        let states = self.checkpoints.iter().chain(&self.current);
        let targets = states.map(|state| state.n_tokens);
        targets
            .filter(|&target| target <= n_tokens)
            .max()
            .unwrap_or(0)
    }

    pub(crate) fn rewind(&mut self, n_tokens: i32) {
        self.checkpoints.retain(|state| state.n_tokens <= n_tokens);
        if self.n_tokens() != n_tokens {
            let mut checkpoints = self.checkpoints.iter();
            let found = checkpoints.find(|state| state.n_tokens == n_tokens);
            debug_assert!(
                n_tokens == 0 || found.is_some(),
                "cannot rewind to {n_tokens}"
            );
            self.current = found.cloned();
        }
    }

    pub(crate) fn add_checkpoint(&mut self, n_checkpoints: usize) {
        let n_tokens = self.n_tokens();
        let last = self.checkpoints.last();
        if last.is_none_or(|last| last.n_tokens != n_tokens) {
            self.checkpoints.extend(self.current.clone());
        }
        let n_old = self.checkpoints.len().saturating_sub(n_checkpoints);
        self.checkpoints.drain(..n_old);
    }

    pub(crate) fn checkpoints(&self) -> Vec<i32> {
        let checkpoints = self.checkpoints.iter();
        checkpoints.map(|state| state.n_tokens).collect()
    }

    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.current.iter().flat_map(|state| &state.arrays)
    }

    /// Returns the size of one state in bytes.
    pub(crate) fn bytes_of_state(&self) -> u64 {
        self.current.as_ref().map_or(0, Snapshot::bytes)
    }

    /// Returns the size of the checkpoints in bytes, without one that is also the current state.
    pub(crate) fn bytes_of_checkpoints(&self) -> u64 {
        let n_tokens = self.n_tokens();
        let checkpoints = self.checkpoints.iter();
        let older = checkpoints.filter(|state| state.n_tokens != n_tokens);
        older.map(Snapshot::bytes).sum()
    }

    fn state_at(&self, n_tokens: i32) -> Option<&Snapshot> {
        let mut states = self.current.iter().chain(&self.checkpoints);
        states.find(|state| state.n_tokens == n_tokens)
    }

    /// Returns a cache of the first `n_tokens` tokens, which [`Self::rewind_target`] returned,
    /// without checkpoints. Both caches share the arrays of the state, because none is written to.
    pub(crate) fn fork(&self, n_tokens: i32) -> Self {
        Self {
            current: self.state_at(n_tokens).cloned(),
            checkpoints: Vec::new(),
        }
    }

    pub(crate) fn saved(&self, n_tokens: i32) -> MlxResult<Vec<Array>> {
        let found = self.state_at(n_tokens);
        Ok(found.map_or_else(Vec::new, |state| state.arrays.clone()))
    }

    pub(crate) fn saved_shapes(&self) -> Vec<(String, Vec<i32>)> {
        self.arrays()
            .enumerate()
            .map(|(index, array)| (format!("state.{index}"), array.shape().to_vec()))
            .collect()
    }

    pub(crate) fn add_restored_checkpoint(&mut self, other: Self) {
        self.checkpoints.extend(other.current);
    }
}
