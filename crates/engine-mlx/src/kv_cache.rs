//! Keys and values of the tokens processed so far, for one layer.

use mlx_rs::{Array, ops};

use crate::error::MlxResult;
use crate::ops::{slice_axis, slice_update};

/// Tokens by which the buffers grow: rare enough to make copies cheap, small enough to waste little
/// (mlx-lm grows by the same step).
const STEP: i32 = 256;

/// Keeps every token. Buffers are `[1, n_kv_heads, capacity, head_dim]`.
#[derive(Debug, Default)]
pub(crate) struct FullKvCache {
    buffers: Option<(Array, Array)>,
    n_tokens: i32,
}

impl FullKvCache {
    /// A cache of what `keys` and `values`, `[1, n_kv_heads, n, head_dim]`, hold.
    pub(crate) fn holding(keys: Array, values: Array) -> Self {
        Self {
            n_tokens: keys.dim(2),
            buffers: Some((keys, values)),
        }
    }

    /// Tokens in the cache.
    pub(crate) fn n_tokens(&self) -> i32 {
        self.n_tokens
    }

    /// Appends keys and values of shape `[1, n_kv_heads, n, head_dim]` and returns those of all
    /// tokens, `[1, n_kv_heads, n_tokens, head_dim]`.
    pub(crate) fn append(&mut self, keys: &Array, values: &Array) -> MlxResult<(Array, Array)> {
        let n_new = keys.dim(2);
        let end = self.n_tokens + n_new;
        let (old_keys, old_values) = match self.buffers.take() {
            Some(buffers) if buffers.0.dim(2) >= end => buffers,
            Some((old_keys, old_values)) => (
                grown(&old_keys, self.n_tokens, keys, n_new)?,
                grown(&old_values, self.n_tokens, values, n_new)?,
            ),
            None => (empty(keys, n_new)?, empty(values, n_new)?),
        };
        let keys = written(old_keys, keys, self.n_tokens, end)?;
        let values = written(old_values, values, self.n_tokens, end)?;
        let all = (
            slice_axis(&keys, 2, 0, end)?,
            slice_axis(&values, 2, 0, end)?,
        );
        self.buffers = Some((keys, values));
        self.n_tokens = end;
        Ok(all)
    }

    /// Forgets all but the first `n_tokens`.
    pub(crate) fn truncate(&mut self, n_tokens: i32) {
        self.n_tokens = self.n_tokens.min(n_tokens);
        if self.n_tokens == 0 {
            self.buffers = None;
        }
    }

    /// The buffers, to be evaluated after a prefill step.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.buffers
            .iter()
            .flat_map(|(keys, values)| [keys, values])
    }

    /// The bytes of the keys, and those of the values, of the tokens in the cache, in a row; nothing
    /// when it is empty.
    pub(crate) fn bytes_of_tokens(&self) -> impl Iterator<Item = MlxResult<Array>> {
        self.arrays().map(|array| {
            let filled = slice_axis(array, 2, 0, self.n_tokens)?;
            filled.contiguous()?.view::<u8>()
        })
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.arrays().map(|array| array.nbytes() as u64).sum()
    }
}

/// Tokens that the buffers have room for at most when they hold `n_tokens`.
pub(crate) fn capacity(n_tokens: usize) -> usize {
    n_tokens + STEP as usize
}

fn rounded_up(n_tokens: i32) -> i32 {
    (n_tokens + STEP - 1) / STEP * STEP
}

fn empty(like: &Array, n_tokens: i32) -> MlxResult<Array> {
    let shape = [1, like.dim(1), rounded_up(n_tokens), like.dim(3)];
    ops::zeros_dtype(&shape, like.dtype())
}

fn grown(old: &Array, n_used: i32, new: &Array, n_new: i32) -> MlxResult<Array> {
    // Grown to the next step, of which the first `n_used` tokens are kept.
    let more = empty(new, n_new)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(first: i32, n: i32) -> Array {
        let values: Vec<f32> = (0..n * 4).map(|i| (first * 4 + i) as f32).collect();
        Array::from_slice(&values, &[1, 1, n, 4])
    }

    fn check(cache: &mut FullKvCache, n: i32) {
        let first = cache.n_tokens();
        let (keys, values) = cache
            .append(&tokens(first, n), &tokens(first, n))
            .expect("MLX appends");
        let expected: Vec<f32> = (0..(first + n) * 4).map(|i| i as f32).collect();
        for all in [keys, values] {
            assert_eq!(all.shape(), [1, 1, first + n, 4]);
            let all = all.contiguous().expect("contiguous");
            assert_eq!(all.as_slice::<f32>(), expected);
        }
    }

    #[test]
    fn tokens_appended_in_any_pieces_come_back_in_order() {
        let mut cache = FullKvCache::default();
        for n in [1, 254, 1, 1, 300, 7, 1] {
            check(&mut cache, n);
        }
        assert_eq!(cache.n_tokens(), 565);
    }

    #[test]
    fn a_truncated_cache_goes_on_from_where_it_was_cut() {
        let mut cache = FullKvCache::default();
        check(&mut cache, 300);
        cache.truncate(299);
        check(&mut cache, 1);
        cache.truncate(2);
        check(&mut cache, 600);
        cache.truncate(0);
        assert_eq!(cache.bytes(), 0);
        check(&mut cache, 3);
    }
}
