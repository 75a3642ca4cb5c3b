//! Keys and values of the last tokens of a text, for a layer that sees no further than its window.
//!
//! The buffer is filled from its start; when it is full, the tokens that are still needed move to
//! the start of a new one. So keys stay in the order of the text, no mask is needed to decode, and
//! one copy is made in 256 steps. Rule: memory depends on the window, never on the text's length.

use mlx_rs::{Array, ops};
use transom_catalog::fit::mlx;

use super::{STEP, empty, grown, rounded_up, written};
use crate::error::MlxResult;
use crate::ops::slice_axis;

/// Tokens that are kept beyond the window.
const SLACK: i32 = mlx::WINDOW_SLACK as i32;

/// Tokens that a buffer has room for at most.
fn limit(window: i32) -> i32 {
    kept(window) + STEP
}

/// Tokens that stay when a full buffer is left: what the next token needs, and slack.
fn kept(window: i32) -> i32 {
    needed(window) + SLACK
}

/// Tokens that a token sees beside itself; one at least, so that a cache is never without arrays.
fn needed(window: i32) -> i32 {
    (window - 1).max(1)
}

/// Keys and values, `[1, n_kv_heads, capacity, head_dim]`, and the text's place of the first.
#[derive(Debug, Clone)]
struct Stretch {
    first: i32,
    keys: Array,
    values: Array,
}

impl Stretch {
    fn arrays(&self) -> [&Array; 2] {
        [&self.keys, &self.values]
    }

    fn bytes(&self) -> u64 {
        self.arrays()
            .iter()
            .map(|array| array.nbytes() as u64)
            .sum()
    }

    /// Whether it holds all that a token sees which follows the first `n_tokens`.
    fn reaches(&self, n_tokens: i32, window: i32) -> bool {
        self.first == 0 || n_tokens - self.first >= needed(window)
    }
}

/// A place to come back to.
#[derive(Debug)]
struct Pin {
    n_tokens: i32,
    /// The buffer that was left after this place; `None` while it is still the one in use.
    left: Option<Stretch>,
}

/// Keeps the last tokens.
#[derive(Debug)]
pub(crate) struct RotatingCache {
    window: i32,
    n_tokens: i32,
    buffer: Option<Stretch>,
    pins: Vec<Pin>,
}

impl RotatingCache {
    /// An empty cache for a window of this many tokens, the one that looks included.
    pub(crate) fn new(window: i32) -> Self {
        Self {
            window: window.max(1),
            n_tokens: 0,
            buffer: None,
            pins: Vec::new(),
        }
    }

    /// Tokens processed so far, of which the last are kept.
    pub(crate) fn n_tokens(&self) -> i32 {
        self.n_tokens
    }

    /// Appends keys and values of shape `[1, n_kv_heads, n, head_dim]`. Returns those of the
    /// `window - 1` tokens before them, or as many as there are, and of all new ones.
    pub(crate) fn append(&mut self, keys: &Array, values: &Array) -> MlxResult<(Array, Array)> {
        let n_new = keys.dim(2);
        let first = self.buffer.as_ref().map_or(self.n_tokens, |old| old.first);
        let held = self.n_tokens - first;
        if held + n_new > limit(self.window) {
            return self.append_to_new_buffer(keys, values, held);
        }
        let end = held + n_new;
        let room = rounded_up(n_new).min(limit(self.window) - held);
        let (old_keys, old_values) = match self.buffer.take() {
            Some(old) if old.keys.dim(2) >= end => (old.keys, old.values),
            Some(old) => (
                grown(&old.keys, held, room)?,
                grown(&old.values, held, room)?,
            ),
            None => (empty(keys, room)?, empty(values, room)?),
        };
        let keys = written(old_keys, keys, held, end)?;
        let values = written(old_values, values, held, end)?;
        let seen_from = (held - (self.window - 1)).max(0);
        let seen = (
            slice_axis(&keys, 2, seen_from, end)?,
            slice_axis(&values, 2, seen_from, end)?,
        );
        self.buffer = Some(Stretch {
            first,
            keys,
            values,
        });
        self.n_tokens += n_new;
        Ok(seen)
    }

    fn append_to_new_buffer(
        &mut self,
        keys: &Array,
        values: &Array,
        held: i32,
    ) -> MlxResult<(Array, Array)> {
        let old = self.buffer.take();
        let n_old = held.min(kept(self.window));
        let n_all = n_old + keys.dim(2);
        let n_kept = n_all.min(kept(self.window));
        let n_seen = held.min(self.window - 1) + keys.dim(2);
        let turn = |old: Option<&Array>, new: &Array| -> MlxResult<(Array, Array)> {
            let all = match old {
                Some(old) => ops::concatenate(&[&slice_axis(old, 2, held - n_old, held)?, new], 2)?,
                None => new.clone(),
            };
            let kept = slice_axis(&all, 2, n_all - n_kept, n_all)?;
            let buffer = ops::concatenate(&[&kept, &empty(new, STEP)?], 2)?;
            Ok((slice_axis(&all, 2, n_all - n_seen, n_all)?, buffer))
        };
        let (seen_keys, new_keys) = turn(old.as_ref().map(|old| &old.keys), keys)?;
        let (seen_values, new_values) = turn(old.as_ref().map(|old| &old.values), values)?;
        if let Some(old) = old {
            // Pinned since this buffer was begun: it holds all that those places need.
            for pin in self.pins.iter_mut().filter(|pin| pin.left.is_none()) {
                pin.left = Some(old.clone());
            }
        }
        self.n_tokens += keys.dim(2);
        self.buffer = Some(Stretch {
            first: self.n_tokens - n_kept,
            keys: new_keys,
            values: new_values,
        });
        Ok((seen_keys, seen_values))
    }

    /// See [`super::LayerCache::reach`].
    pub(crate) fn reach(&self, n_tokens: i32) -> i32 {
        let reaches = |stretch: &Stretch, n| stretch.reaches(n, self.window);
        if self.buffer.as_ref().is_some_and(|b| reaches(b, n_tokens)) {
            return n_tokens;
        }
        let pinned = self.pins.iter().filter_map(|pin| {
            let place = pin.n_tokens.min(n_tokens);
            let left = pin.left.as_ref()?;
            reaches(left, place).then_some(place)
        });
        pinned.max().unwrap_or(0)
    }

    /// See [`super::LayerCache::rewind`].
    pub(crate) fn rewind(&mut self, n_tokens: i32) {
        let window = self.window;
        let reaches = |stretch: &Stretch| stretch.reaches(n_tokens, window);
        if n_tokens == 0 {
            self.buffer = None;
        } else if !self.buffer.as_ref().is_some_and(reaches) {
            let pin = self
                .pins
                .iter_mut()
                .find(|pin| pin.n_tokens >= n_tokens && pin.left.as_ref().is_some_and(reaches));
            // The pin's buffer is the one in use again.
            self.buffer = pin.and_then(|pin| pin.left.take());
        }
        debug_assert!(
            n_tokens == 0 || self.buffer.is_some(),
            "{n_tokens} is out of reach"
        );
        self.pins.retain(|pin| pin.n_tokens <= n_tokens);
        self.n_tokens = n_tokens;
    }

    /// See [`super::LayerCache::pin`].
    pub(crate) fn pin(&mut self, n_pins: usize) {
        if self
            .pins
            .last()
            .is_none_or(|pin| pin.n_tokens != self.n_tokens)
        {
            self.pins.push(Pin {
                n_tokens: self.n_tokens,
                left: None,
            });
        }
        let n_old = self.pins.len().saturating_sub(n_pins);
        self.pins.drain(..n_old);
    }

    /// See [`super::LayerCache::pins`].
    pub(crate) fn pins(&self) -> Vec<i32> {
        self.pins.iter().map(|pin| pin.n_tokens).collect()
    }

    /// Bytes of a full buffer.
    pub(crate) fn pin_bytes(&self) -> u64 {
        let of_a_token = |array: &Array| array.nbytes() as u64 / array.dim(2).max(1) as u64;
        let of_a_token: u64 = self.arrays().map(of_a_token).sum();
        of_a_token * limit(self.window) as u64
    }

    /// The buffer in use.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.buffer.iter().flat_map(Stretch::arrays)
    }

    /// Bytes of the buffers that pins hold; one that two share counts once.
    pub(crate) fn bytes_of_pins(&self) -> u64 {
        let mut counted = Vec::new();
        let mut bytes = 0;
        for left in self.pins.iter().filter_map(|pin| pin.left.as_ref()) {
            if !counted.contains(&left.first) {
                counted.push(left.first);
                bytes += left.bytes();
            }
        }
        bytes
    }

    /// Tokens that a file keeps: those that the next token will see.
    pub(crate) fn n_stored(&self, n_tokens: i32) -> i32 {
        n_tokens.min(needed(self.window))
    }

    /// See [`super::LayerCache::stored`].
    pub(crate) fn stored(&self, n_tokens: i32) -> MlxResult<Vec<Array>> {
        let reaches =
            |stretch: &&Stretch| stretch.reaches(n_tokens, self.window) && n_tokens > stretch.first;
        let pinned = self.pins.iter().filter_map(|pin| pin.left.as_ref());
        let Some(stretch) = self.buffer.iter().chain(pinned).find(reaches) else {
            return Ok(Vec::new());
        };
        let end = n_tokens - stretch.first;
        let start = end - self.n_stored(n_tokens);
        let stored = |array: &Array| slice_axis(array, 2, start, end);
        stretch.arrays().into_iter().map(stored).collect()
    }

    /// See [`super::LayerCache::restored`].
    pub(crate) fn restored(&self, n_tokens: i32, (keys, values): (Array, Array)) -> Self {
        let first = n_tokens - keys.dim(2);
        let buffer = Some(Stretch {
            first,
            keys,
            values,
        });
        Self {
            n_tokens,
            buffer,
            ..Self::new(self.window)
        }
    }

    /// See [`super::LayerCache::take_pin`].
    pub(crate) fn take_pin(&mut self, other: Self) {
        self.pins.push(Pin {
            n_tokens: other.n_tokens,
            left: other.buffer,
        });
    }
}
