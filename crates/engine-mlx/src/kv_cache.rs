//! What a layer remembers of the tokens processed so far: keys and values of all of them, those of
//! the last few (a window), or a recurrent state.
//!
//! A conversation is taken up again at an earlier place when a message was edited, an answer is
//! wanted anew, or a template leaves out what was thought. Rule: a cache goes back only to where it
//! is exact, and says where that is (`reach`); all layers go back together. Keys of all tokens reach
//! anywhere. Windows and states lose what they move past, so the places worth coming back to are
//! pinned: the beginning and the end of what the last prompt brought.

mod growing;
mod rotating;
mod state;
#[cfg(test)]
mod tests;

use mlx_rs::error::Exception;
use mlx_rs::{Array, ops};
use transom_catalog::fit::mlx;

pub(crate) use growing::GrowingCache;
pub(crate) use rotating::RotatingCache;
pub(crate) use state::StateCache;

use crate::error::MlxResult;
use crate::ops::{slice_axis, slice_update};

/// Tokens by which the buffers grow.
const STEP: i32 = mlx::GROWTH_STEP as i32;

/// A layer's memory.
#[derive(Debug)]
pub(crate) enum LayerCache {
    /// Keys and values of all tokens.
    Growing(GrowingCache),
    /// Keys and values of the last tokens, as many as the layer's window lets it see.
    Rotating(RotatingCache),
    /// What a recurrent layer carries from token to token, of one size whatever was read.
    State(StateCache),
    /// Nothing but a count: the layer looks at the keys of an earlier one.
    Borrowed { n_tokens: i32 },
}

impl LayerCache {
    /// An empty cache for attention that sees `window` tokens, or all of them.
    pub(crate) fn of_attention(window: Option<i32>) -> Self {
        match window {
            Some(window) => Self::Rotating(RotatingCache::new(window)),
            None => Self::Growing(GrowingCache::default()),
        }
    }

    /// Tokens processed so far.
    pub(crate) fn n_tokens(&self) -> i32 {
        match self {
            Self::Growing(cache) => cache.n_tokens(),
            Self::Rotating(cache) => cache.n_tokens(),
            Self::State(cache) => cache.n_tokens(),
            Self::Borrowed { n_tokens } => *n_tokens,
        }
    }

    /// Appends keys and values of shape `[1, n_kv_heads, n, head_dim]` and returns those that the
    /// new tokens may look at, in the order of the text, the new ones last.
    pub(crate) fn append(&mut self, keys: &Array, values: &Array) -> MlxResult<(Array, Array)> {
        match self {
            Self::Growing(cache) => cache.append(keys, values),
            Self::Rotating(cache) => cache.append(keys, values),
            Self::State(_) | Self::Borrowed { .. } => {
                Err(Exception::custom("this layer keeps no keys of its own"))
            }
        }
    }

    /// The state of a recurrent layer.
    pub(crate) fn state_mut(&mut self) -> MlxResult<&mut StateCache> {
        match self {
            Self::State(cache) => Ok(cache),
            _ => Err(Exception::custom("an attention layer has no state")),
        }
    }

    /// The last place at or before `n_tokens` to which this cache can go back exactly.
    pub(crate) fn reach(&self, n_tokens: i32) -> i32 {
        let n_tokens = n_tokens.min(self.n_tokens());
        match self {
            Self::Growing(_) | Self::Borrowed { .. } => n_tokens,
            Self::Rotating(cache) => cache.reach(n_tokens),
            Self::State(cache) => cache.reach(n_tokens),
        }
    }

    /// Goes back to `n_tokens`, which [`LayerCache::reach`] gave.
    pub(crate) fn rewind(&mut self, n_tokens: i32) {
        match self {
            Self::Growing(cache) => cache.truncate(n_tokens),
            Self::Rotating(cache) => cache.rewind(n_tokens),
            Self::State(cache) => cache.rewind(n_tokens),
            Self::Borrowed { n_tokens: own } => *own = n_tokens,
        }
    }

    /// Makes this place one to come back to, and forgets all but the last `n_pins` such places.
    pub(crate) fn pin(&mut self, n_pins: usize) {
        match self {
            Self::Growing(_) | Self::Borrowed { .. } => {}
            Self::Rotating(cache) => cache.pin(n_pins),
            Self::State(cache) => cache.pin(n_pins),
        }
    }

    /// The pinned places that hold memory of their own or may come to, the earliest first.
    pub(crate) fn pins(&self) -> Vec<i32> {
        match self {
            Self::Growing(_) | Self::Borrowed { .. } => Vec::new(),
            Self::Rotating(cache) => cache.pins(),
            Self::State(cache) => cache.pins(),
        }
    }

    /// Bytes that a pin takes at most.
    pub(crate) fn pin_bytes(&self) -> u64 {
        match self {
            Self::Growing(_) | Self::Borrowed { .. } => 0,
            Self::Rotating(cache) => cache.pin_bytes(),
            Self::State(cache) => cache.bytes_of_state(),
        }
    }

    /// All that is held, to be evaluated after a prefill step.
    pub(crate) fn arrays(&self) -> Vec<&Array> {
        match self {
            Self::Growing(cache) => cache.arrays().collect(),
            Self::Rotating(cache) => cache.arrays().collect(),
            Self::State(cache) => cache.arrays().collect(),
            Self::Borrowed { .. } => Vec::new(),
        }
    }

    /// Bytes held, pins included.
    pub(crate) fn bytes(&self) -> u64 {
        let own: u64 = self
            .arrays()
            .iter()
            .map(|array| array.nbytes() as u64)
            .sum();
        match self {
            Self::Growing(_) | Self::Borrowed { .. } => own,
            Self::Rotating(cache) => own + cache.bytes_of_pins(),
            Self::State(cache) => own + cache.bytes_of_pins(),
        }
    }

    /// What a file keeps of this cache as it was at `n_tokens`: its end, or a pinned place. Shapes
    /// are those of [`LayerCache::stored_shapes`].
    pub(crate) fn stored(&self, n_tokens: i32) -> MlxResult<Vec<Array>> {
        match self {
            Self::Growing(cache) => cache.stored(n_tokens),
            Self::Rotating(cache) => cache.stored(n_tokens),
            Self::State(cache) => cache.stored(n_tokens),
            Self::Borrowed { .. } => Ok(Vec::new()),
        }
    }

    /// Names and shapes of what a file keeps of `n_tokens` tokens. This cache holds at least one
    /// token, planned or computed, from which types and sizes are taken.
    pub(crate) fn stored_shapes(&self, n_tokens: i32) -> Vec<(String, Vec<i32>)> {
        let of_tokens = |kept: i32| {
            let names = ["keys", "values"].into_iter().map(str::to_owned);
            let shapes = self.arrays().into_iter().map(move |array| {
                let mut shape = array.shape().to_vec();
                shape[2] = kept;
                shape
            });
            names.zip(shapes).collect()
        };
        match self {
            Self::Growing(_) => of_tokens(n_tokens),
            Self::Rotating(cache) => of_tokens(cache.n_stored(n_tokens)),
            Self::State(cache) => cache.stored_shapes(),
            Self::Borrowed { .. } => Vec::new(),
        }
    }

    /// A cache of this one's kind after `n_tokens` tokens, of which a file kept `arrays`.
    pub(crate) fn restored(&self, n_tokens: i32, arrays: Vec<Array>) -> MlxResult<Self> {
        let pair = |arrays: Vec<Array>| {
            <[Array; 2]>::try_from(arrays)
                .map(|[keys, values]| (keys, values))
                .map_err(|_| Exception::custom("keys and values are two arrays"))
        };
        Ok(match self {
            Self::Growing(_) => Self::Growing(GrowingCache::holding(pair(arrays)?)),
            Self::Rotating(cache) => Self::Rotating(cache.restored(n_tokens, pair(arrays)?)),
            Self::State(_) => Self::State(StateCache::holding(n_tokens, arrays)),
            Self::Borrowed { .. } => Self::Borrowed { n_tokens },
        })
    }

    /// Takes `other`, which is as this cache was after fewer tokens, as a pinned place.
    pub(crate) fn take_pin(&mut self, other: Self) {
        match (self, other) {
            (Self::Rotating(cache), Self::Rotating(other)) => cache.take_pin(other),
            (Self::State(cache), Self::State(other)) => cache.take_pin(other),
            _ => {}
        }
    }
}

fn rounded_up(n_tokens: i32) -> i32 {
    (n_tokens + STEP - 1) / STEP * STEP
}

/// Zeros for `n_tokens` tokens of keys or values like these.
fn empty(like: &Array, n_tokens: i32) -> MlxResult<Array> {
    let shape = [1, like.dim(1), n_tokens, like.dim(3)];
    ops::zeros_dtype(&shape, like.dtype())
}

/// A buffer of the first `n_used` tokens of `old` and room for `n_room` more.
fn grown(old: &Array, n_used: i32, n_room: i32) -> MlxResult<Array> {
    let more = empty(old, n_room)?;
    ops::concatenate(&[&slice_axis(old, 2, 0, n_used)?, &more], 2)
}

/// Takes `buffer` by value, so that MLX finds no other reference to it and writes in place.
fn written(buffer: Array, update: &Array, start: i32, end: i32) -> MlxResult<Array> {
    slice_update(
        &buffer,
        update,
        &[0, 0, start, 0],
        &[1, buffer.dim(1), end, buffer.dim(3)],
    )
}
