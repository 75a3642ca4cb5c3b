//! Keys and values of all tokens of a layer with full attention.
//!
//! Rule: MLX writes a buffer in place only while nothing else refers to it, so no other reference
//! to a buffer may exist while a step is queued.

use mlx_rs::Array;

use super::{grow, rounded_up, write, zeros};
use crate::error::MlxResult;
use crate::ops::slice_axis;

/// The keys and values of all tokens. Buffers are `[1, n_kv_heads, capacity, head_dim]`.
#[derive(Debug, Default)]
pub(crate) struct GrowingCache {
    buffers: Option<(Array, Array)>,
    n_tokens: i32,
}

impl GrowingCache {
    /// Returns a cache with these keys and values, `[1, n_kv_heads, n, head_dim]`.
    pub(crate) fn from_saved((keys, values): (Array, Array)) -> Self {
        Self {
            n_tokens: keys.dim(2),
            buffers: Some((keys, values)),
        }
    }

    /// Returns the number of tokens in the cache.
    pub(crate) fn n_tokens(&self) -> i32 {
        self.n_tokens
    }

    /// Appends keys and values of shape `[1, n_kv_heads, n, head_dim]` and returns those of all
    /// tokens, `[1, n_kv_heads, n_tokens, head_dim]`.
    pub(crate) fn append(&mut self, keys: &Array, values: &Array) -> MlxResult<(Array, Array)> {
        let n_new = keys.dim(2);
        let end = self.n_tokens + n_new;
        let n_more = rounded_up(n_new);
        let (old_keys, old_values) = match self.buffers.take() {
            Some(buffers) if buffers.0.dim(2) >= end => buffers,
            Some((old_keys, old_values)) => (
                grow(&old_keys, self.n_tokens, n_more)?,
                grow(&old_values, self.n_tokens, n_more)?,
            ),
            None => (zeros(keys, n_more)?, zeros(values, n_more)?),
        };
        let keys = write(old_keys, keys, self.n_tokens, end)?;
        let values = write(old_values, values, self.n_tokens, end)?;
        let all = (
            slice_axis(&keys, 2, 0, end)?,
            slice_axis(&values, 2, 0, end)?,
        );
        self.buffers = Some((keys, values));
        self.n_tokens = end;
        Ok(all)
    }

    /// Drops all but the first `n_tokens`.
    pub(crate) fn truncate(&mut self, n_tokens: i32) {
        self.n_tokens = self.n_tokens.min(n_tokens);
        if self.n_tokens == 0 {
            self.buffers = None;
        }
    }

    /// Returns the buffers.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.buffers
            .iter()
            .flat_map(|(keys, values)| [keys, values])
    }

    /// Returns the keys and the values of the first `n_tokens`; nothing if the cache is empty.
    pub(crate) fn saved(&self, n_tokens: i32) -> MlxResult<Vec<Array>> {
        self.arrays()
            .map(|array| slice_axis(array, 2, 0, n_tokens))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(first: i32, n: i32) -> Array {
        let values: Vec<f32> = (0..n * 4).map(|i| (first * 4 + i) as f32).collect();
        Array::from_slice(&values, &[1, 1, n, 4])
    }

    fn check(cache: &mut GrowingCache, n: i32) {
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
    fn tokens_appended_in_steps_of_any_size_stay_in_order() {
        let mut cache = GrowingCache::default();
        for n in [1, 254, 1, 1, 300, 7, 1] {
            check(&mut cache, n);
        }
        assert_eq!(cache.n_tokens(), 565);
    }

    #[test]
    fn a_truncated_cache_continues_where_it_was_cut() {
        let mut cache = GrowingCache::default();
        check(&mut cache, 300);
        cache.truncate(299);
        check(&mut cache, 1);
        cache.truncate(2);
        check(&mut cache, 600);
        cache.truncate(0);
        assert_eq!(cache.arrays().count(), 0);
        check(&mut cache, 3);
    }
}
