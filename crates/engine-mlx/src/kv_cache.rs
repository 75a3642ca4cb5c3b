//! The caches of layers: keys and values of all tokens, keys and values of the last tokens (sliding
//! window), or a recurrent state.
//!
//! A conversation rewinds to an earlier position if a message was edited, a response is generated
//! again, or the chat template leaves out the reasoning. A cache with the keys of all tokens can
//! rewind to every position. Sliding windows and recurrent states drop what they need for
//! that, so they save checkpoints at the start and the end of each prompt.
//!
//! A parked or saved conversation may have the keys and values of complete blocks in 8 bits (`quantized`).
//! They are dequantized before a step uses them.
//!
//! Rule: a cache rewinds only to positions where it is exact, which [`LayerCache::rewind_target`]
//! returns. All layers rewind together.

mod attention;
mod quantized;
mod state;
#[cfg(test)]
mod tests;

use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, ops};

pub(crate) use attention::AttentionCache;
pub(crate) use quantized::DESCRIPTION as QUANTIZED_DESCRIPTION;
pub(crate) use state::StateCache;

use crate::error::MlxResult;
use crate::ops::{parts, slice_axis, slice_update_in_place};

#[derive(Debug)]
pub(crate) enum LayerCache {
    /// Keys and values of all tokens, or of as many as the layer's window needs.
    Attention(AttentionCache),
    /// The state of a recurrent layer, whose size does not depend on the number of tokens.
    State(StateCache),
    /// Only the number of tokens: the layer uses the keys of an earlier layer.
    Shared { n_tokens: i32 },
}

impl LayerCache {
    /// Returns an empty cache for attention with this sliding window, or for full attention.
    pub(crate) fn for_attention(window: Option<i32>) -> Self {
        Self::Attention(AttentionCache::new(window))
    }

    pub(crate) fn window(&self) -> Option<i32> {
        match self {
            Self::Attention(cache) => cache.window,
            _ => None,
        }
    }

    pub(crate) fn n_tokens(&self) -> i32 {
        match self {
            Self::Attention(cache) => cache.n_tokens,
            Self::State(cache) => cache.n_tokens(),
            Self::Shared { n_tokens } => *n_tokens,
        }
    }

    /// Appends keys and values of shape `[1, n_kv_heads, n, head_dim]`. Returns those that the new
    /// tokens attend to, in the order of the text, the new ones last.
    pub(crate) fn append(&mut self, keys: &Array, values: &Array) -> MlxResult<(Array, Array)> {
        match self {
            Self::Attention(cache) => cache.append(keys, values),
            Self::State(_) | Self::Shared { .. } => {
                Err(Exception::custom("this layer has no keys of its own"))
            }
        }
    }

    pub(crate) fn state_mut(&mut self) -> MlxResult<&mut StateCache> {
        match self {
            Self::State(cache) => Ok(cache),
            _ => Err(Exception::custom("an attention layer has no state")),
        }
    }

    /// Returns the last position, at or before `n_tokens`, to which this cache can rewind exactly.
    pub(crate) fn rewind_target(&self, n_tokens: i32) -> i32 {
        let n_tokens = n_tokens.min(self.n_tokens());
        match self {
            Self::Shared { .. } => n_tokens,
            Self::Attention(cache) => cache.rewind_target(n_tokens),
            Self::State(cache) => cache.rewind_target(n_tokens),
        }
    }

    /// Rewinds to `n_tokens`, which [`LayerCache::rewind_target`] returned.
    pub(crate) fn rewind(&mut self, n_tokens: i32) {
        match self {
            Self::Attention(cache) => cache.rewind(n_tokens),
            Self::State(cache) => cache.rewind(n_tokens),
            Self::Shared { n_tokens: own } => *own = n_tokens,
        }
    }

    /// Returns a cache of the first `n_tokens` tokens, which [`LayerCache::rewind_target`] returned,
    /// without checkpoints. Neither cache ever writes to an array of the other.
    pub(crate) fn fork(&self, n_tokens: i32) -> MlxResult<Self> {
        Ok(match self {
            Self::Attention(cache) => Self::Attention(cache.fork(n_tokens)?),
            Self::State(cache) => Self::State(cache.fork(n_tokens)),
            Self::Shared { .. } => Self::Shared { n_tokens },
        })
    }

    /// Saves a checkpoint of this position and drops all but the last `n_checkpoints`.
    pub(crate) fn add_checkpoint(&mut self, n_checkpoints: usize) {
        match self {
            Self::Shared { .. } => {}
            Self::Attention(cache) => cache.add_checkpoint(n_checkpoints),
            Self::State(cache) => cache.add_checkpoint(n_checkpoints),
        }
    }

    /// Returns true if a file may have arrays of a checkpoint of this cache.
    pub(crate) fn has_checkpoints(&self) -> bool {
        !matches!(self, Self::Attention(cache) if cache.window.is_none())
    }

    /// Returns the positions of the checkpoints, the earliest first.
    pub(crate) fn checkpoints(&self) -> Vec<i32> {
        match self {
            Self::Shared { .. } => Vec::new(),
            Self::Attention(cache) => cache.checkpoints(),
            Self::State(cache) => cache.checkpoints(),
        }
    }

    /// Returns the largest size of a checkpoint in bytes.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        match self {
            Self::Shared { .. } => 0,
            Self::Attention(cache) => cache.checkpoint_bytes(),
            Self::State(cache) => cache.bytes_of_state(),
        }
    }

    /// Returns the bytes of the buffer that is replaced when `n_new` tokens are appended; 0 if they fit.
    pub(crate) fn growing_bytes(&self, n_new: i32) -> u64 {
        match self {
            Self::Attention(cache) => cache.growing_bytes(n_new),
            Self::State(_) | Self::Shared { .. } => 0,
        }
    }

    /// Returns the arrays of the current position, to be evaluated after a prefill step.
    pub(crate) fn arrays(&self) -> Vec<&Array> {
        match self {
            Self::Attention(cache) => cache.arrays().collect(),
            Self::State(cache) => cache.arrays().collect(),
            Self::Shared { .. } => Vec::new(),
        }
    }

    /// Returns the size in bytes, checkpoints included.
    pub(crate) fn bytes(&self) -> u64 {
        let arrays = self.arrays().into_iter();
        let own: u64 = arrays.map(|array| array.nbytes() as u64).sum();
        let checkpoints = match self {
            Self::Shared { .. } => 0,
            Self::Attention(cache) => cache.bytes_of_checkpoints(),
            Self::State(cache) => cache.bytes_of_checkpoints(),
        };
        own + checkpoints
    }

    /// Returns the arrays to save in a file for position `n_tokens`, which is the current position
    /// or a checkpoint. Their shapes are [`LayerCache::saved_shapes`].
    pub(crate) fn saved(&self, n_tokens: i32) -> MlxResult<Vec<Array>> {
        match self {
            Self::Attention(cache) => cache.saved(n_tokens),
            Self::State(cache) => cache.saved(n_tokens),
            Self::Shared { .. } => Ok(Vec::new()),
        }
    }

    /// Converts the complete blocks of a cache of all tokens to 8 bits. Only [`LayerCache::rewind`] and
    /// methods that change nothing may follow before [`LayerCache::dequantize`].
    pub(crate) fn quantize(&mut self) -> MlxResult<()> {
        match self {
            Self::Attention(cache) => cache.quantize(),
            Self::State(_) | Self::Shared { .. } => Ok(()),
        }
    }

    /// Converts a quantized cache back, so that it can append tokens.
    pub(crate) fn dequantize(&mut self) -> MlxResult<()> {
        match self {
            Self::Attention(cache) => cache.dequantize(),
            Self::State(_) | Self::Shared { .. } => Ok(()),
        }
    }

    /// Returns the size in bytes that the cache has once it is quantized, checkpoints included.
    pub(crate) fn quantized_bytes(&self) -> u64 {
        match self {
            Self::Attention(cache) => cache.quantized_bytes() + cache.bytes_of_checkpoints(),
            Self::State(_) | Self::Shared { .. } => self.bytes(),
        }
    }

    /// Returns the arrays of a file with the tokens `start..end`, of a cache of all tokens: keys and
    /// values, each in 8 bits if they are `quantized`. Their shapes are those of
    /// [`LayerCache::block_arrays`].
    pub(crate) fn block(&self, start: i32, end: i32, quantized: bool) -> MlxResult<Vec<Array>> {
        match self {
            Self::Attention(cache) => cache.block(start, end, quantized),
            _ => Err(Exception::custom("this layer does not have all tokens")),
        }
    }

    /// Returns the shapes and types of the arrays that [`LayerCache::block`] returns for `n_tokens`
    /// tokens. The cache must contain at least one token, whose arrays need not be evaluated.
    pub(crate) fn block_arrays(&self, n_tokens: i32, quantized: bool) -> Vec<(Vec<i32>, Dtype)> {
        let arrays = self.arrays().into_iter();
        arrays
            .flat_map(|array| match quantized {
                true => quantized::quantized_arrays(array, n_tokens).to_vec(),
                false => {
                    let mut shape = array.shape().to_vec();
                    shape[2] = n_tokens;
                    vec![(shape, array.dtype())]
                }
            })
            .collect()
    }

    /// Appends the tokens of a block of a file to a cache of all tokens that is not empty.
    pub(crate) fn append_block(&mut self, arrays: Vec<Array>) -> MlxResult<()> {
        match self {
            Self::Attention(cache) => {
                let [keys, values] = cache.block_tokens(arrays)?;
                cache.append(&keys, &values)?;
                Ok(())
            }
            _ => Err(Exception::custom("this layer does not have all tokens")),
        }
    }

    /// Returns an empty cache of all tokens with space for `n_tokens`, whose arrays have the other
    /// sizes and the types of this one.
    pub(crate) fn reserved(&self, n_tokens: i32) -> MlxResult<Self> {
        match self {
            Self::Attention(cache) => Ok(Self::Attention(cache.reserved(n_tokens)?)),
            _ => Err(Exception::custom("this layer does not have all tokens")),
        }
    }

    /// Returns the names and shapes of the arrays that a file has for `n_tokens` tokens. The cache
    /// must contain at least one token, whose arrays need not be evaluated.
    pub(crate) fn saved_shapes(&self, n_tokens: i32) -> Vec<(String, Vec<i32>)> {
        let of_tokens = |n_saved: i32| {
            let names = ["keys", "values"].into_iter().map(str::to_owned);
            let shapes = self.arrays().into_iter().map(move |array| {
                let mut shape = array.shape().to_vec();
                shape[2] = n_saved;
                shape
            });
            names.zip(shapes).collect()
        };
        match self {
            Self::Attention(cache) => of_tokens(cache.n_saved(n_tokens)),
            Self::State(cache) => cache.saved_shapes(),
            Self::Shared { .. } => Vec::new(),
        }
    }

    /// Returns a cache of the same kind after `n_tokens` tokens, from the arrays of a file.
    pub(crate) fn restore(&self, n_tokens: i32, arrays: Vec<Array>) -> MlxResult<Self> {
        Ok(match self {
            Self::Attention(cache) => {
                let arrays = <[Array; 2]>::try_from(arrays);
                let arrays =
                    arrays.map_err(|_| Exception::custom("keys and values are two arrays"))?;
                Self::Attention(cache.restore(n_tokens, arrays))
            }
            Self::State(_) => Self::State(StateCache::from_saved(n_tokens, arrays)),
            Self::Shared { .. } => Self::Shared { n_tokens },
        })
    }

    /// Adds `other`, a restored cache of an earlier position, as a checkpoint.
    pub(crate) fn add_restored_checkpoint(&mut self, other: Self) {
        match (self, other) {
            (Self::Attention(cache), Self::Attention(other)) => {
                cache.add_restored_checkpoint(other);
            }
            (Self::State(cache), Self::State(other)) => cache.add_restored_checkpoint(other),
            _ => {}
        }
    }
}

/// Appends keys and values of shape `[sequences, n_kv_heads, n, head_dim]` to the cache of each
/// sequence. Returns those that the new tokens of each attend to, as [`LayerCache::append`] does.
pub(crate) fn append_to_each(
    caches: &mut [&mut LayerCache],
    keys: &Array,
    values: &Array,
) -> MlxResult<Vec<(Array, Array)>> {
    let n = caches.len() as i32;
    let new = parts(keys, n).zip(parts(values, n));
    let appended = caches.iter_mut().zip(new);
    appended
        .map(|(cache, (keys, values))| cache.append(&keys?, &values?))
        .collect()
}

/// Returns zeros for `n_tokens` tokens, with the other sizes and the type of `like`.
fn zeros(like: &Array, n_tokens: i32) -> MlxResult<Array> {
    let shape = [1, like.dim(1), n_tokens, like.dim(3)];
    ops::zeros_dtype(&shape, like.dtype())
}

/// Returns a buffer for `capacity` tokens that starts with the first `n_used` tokens of `old`.
fn grow(old: &Array, n_used: i32, capacity: i32) -> MlxResult<Array> {
    let used = slice_axis(old, 2, 0, n_used)?;
    write(&zeros(old, capacity)?, &used, 0, n_used)
}

/// Returns `buffer` with `update` at the tokens `start..end`, in the same memory.
fn write(buffer: &Array, update: &Array, start: i32, end: i32) -> MlxResult<Array> {
    slice_update_in_place(
        buffer,
        update,
        &[0, 0, start, 0],
        &[1, buffer.dim(1), end, buffer.dim(3)],
    )
}
