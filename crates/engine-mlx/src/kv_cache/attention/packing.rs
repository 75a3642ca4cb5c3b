//! Caches of conversations that wait, whose complete blocks have 8 bits, and the same blocks in files.

use mlx_rs::error::Exception;
use mlx_rs::transforms::eval;
use mlx_rs::{Array, ops};

use super::super::packed::{BLOCK, Packed};
use super::super::{grow, zeros};
use super::{AttentionCache, Buffer, capacity};
use crate::error::MlxResult;
use crate::ops::slice_axis;

impl AttentionCache {
    /// Converts the complete blocks of a cache without a window to 8 bits, and computes them, so that
    /// nothing is in memory twice.
    pub(crate) fn pack(&mut self) -> MlxResult<()> {
        let n_packed = self.n_tokens / BLOCK * BLOCK;
        if self.window.is_some() || self.packed.is_some() || n_packed == 0 {
            return Ok(());
        }
        let pack = |array: &Array| Packed::new(&slice_axis(array, 2, 0, n_packed)?);
        let n_rest = self.n_tokens - n_packed;
        let rest = |array: &Array| {
            let rest = slice_axis(array, 2, n_packed, self.n_tokens)?;
            grow(&rest, n_rest, BLOCK)
        };
        if let Some(Buffer { keys, values, .. }) = &self.buffer {
            let packed = [pack(keys)?, pack(values)?];
            let buffer = match n_rest {
                0 => None,
                _ => Some(Buffer {
                    start: n_packed,
                    keys: rest(keys)?,
                    values: rest(values)?,
                }),
            };
            self.packed = Some(packed);
            self.buffer = buffer;
        }
        eval(self.arrays())
    }

    /// Converts all tokens back, and computes them.
    pub(crate) fn unpack(&mut self) -> MlxResult<()> {
        if self.packed.is_some() {
            *self = self.unpacked(self.n_tokens)?;
            eval(self.arrays())?;
        }
        Ok(())
    }

    /// Returns the bytes that the cache has once it is packed.
    pub(crate) fn packed_bytes(&self) -> u64 {
        let bytes = |array: &Array| array.nbytes() as u64;
        let n_packed = self.n_tokens / BLOCK * BLOCK;
        if self.window.is_some() || self.packed.is_some() || n_packed == 0 {
            return self.arrays().map(bytes).sum();
        }
        let n_rest = (self.n_tokens - n_packed).min(1) * BLOCK;
        let of_array = |array: &Array| {
            let per_token = bytes(array) / array.dim(2).max(1) as u64;
            Packed::bytes(array, n_packed) + per_token * n_rest as u64
        };
        self.arrays().map(of_array).sum()
    }

    /// Returns the first `n_tokens` tokens, at least one, of a packed cache in a buffer.
    pub(super) fn unpacked(&self, n_tokens: i32) -> MlxResult<Self> {
        let capacity = capacity(None, n_tokens + 1);
        let array = |index: usize| {
            let mut parts = self.parts(index, 0, n_tokens)?;
            if let Some(like) = parts.first() {
                parts.push(zeros(like, capacity - n_tokens)?);
            }
            ops::concatenate(&parts, 2)
        };
        Ok(Self {
            n_tokens,
            buffer: Some(Buffer {
                start: 0,
                keys: array(0)?,
                values: array(1)?,
            }),
            ..Self::new(None)
        })
    }

    /// Returns keys (`index` 0) or values (1) of the tokens `start..end` of a cache without a window.
    fn parts(&self, index: usize, start: i32, end: i32) -> MlxResult<Vec<Array>> {
        let packed = self.packed.as_ref().map(|both| &both[index]);
        let n_packed = packed.map_or(0, Packed::n_tokens);
        let mut parts = Vec::with_capacity(3);
        if let Some(packed) = packed
            && start < n_packed
        {
            parts.push(packed.plain(start, end.min(n_packed))?);
        }
        if let Some(buffer) = &self.buffer
            && end > n_packed
        {
            let first = start.max(n_packed) - n_packed;
            let array = buffer.arrays()[index];
            parts.push(slice_axis(array, 2, first, end - n_packed)?);
        }
        Ok(parts)
    }

    /// Returns keys and values of the tokens `start..end` as a file has them: the arrays of
    /// [`Packed::arrays`] if they are `packed`, which takes a whole block.
    pub(crate) fn block(&self, start: i32, end: i32, packed: bool) -> MlxResult<Vec<Array>> {
        if self.window.is_some() || end > self.n_tokens {
            return Err(Exception::custom("this layer does not have all tokens"));
        }
        let mut arrays = Vec::with_capacity(6);
        for index in 0..2 {
            let own = self.packed.as_ref().map(|both| &both[index]);
            let own = own.filter(|own| start % BLOCK == 0 && end <= own.n_tokens());
            let plain = || ops::concatenate(&self.parts(index, start, end)?, 2);
            match (packed, own) {
                (false, _) => arrays.push(plain()?),
                (true, Some(own)) => arrays.extend(own.blocks(start, end)?.arrays().cloned()),
                (true, None) => arrays.extend(Packed::new(&plain()?)?.arrays().cloned()),
            }
        }
        Ok(arrays)
    }

    /// Returns keys and values from the arrays that [`AttentionCache::block`] returned, of a cache like
    /// this one, which is not packed.
    pub(crate) fn block_tokens(&self, arrays: Vec<Array>) -> MlxResult<[Array; 2]> {
        let arrays = match <[Array; 6]>::try_from(arrays) {
            Ok(
                [
                    words,
                    scales,
                    biases,
                    value_words,
                    value_scales,
                    value_biases,
                ],
            ) => {
                let heads: Vec<i32> = self.arrays().map(|array| array.dim(3)).collect();
                let both = [
                    [words, scales, biases],
                    [value_words, value_scales, value_biases],
                ];
                let plain = both.into_iter().zip(heads).map(|(arrays, head_dim)| {
                    let packed = Packed::from_arrays(head_dim, arrays);
                    packed.plain(0, packed.n_tokens())
                });
                plain.collect::<MlxResult<Vec<_>>>()?
            }
            Err(arrays) => arrays,
        };
        let arrays = <[Array; 2]>::try_from(arrays);
        arrays.map_err(|_| Exception::custom("keys and values are two arrays"))
    }
}
