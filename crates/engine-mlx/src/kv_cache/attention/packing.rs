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
    /// Converts the complete blocks of a cache without a window to 8 bits, and computes them: first the
    /// keys, then the values, so that no more than one of them is in memory twice. After an error, the
    /// cache cannot be used.
    pub(crate) fn pack(&mut self) -> MlxResult<()> {
        let n_packed = self.n_tokens / BLOCK * BLOCK;
        if self.window.is_some() || self.packed.is_some() || n_packed == 0 {
            return Ok(());
        }
        let Some(Buffer { keys, values, .. }) = self.buffer.take() else {
            return Ok(());
        };
        let n_rest = self.n_tokens - n_packed;
        let pack = |plain: Array| {
            let packed = Packed::new(&slice_axis(&plain, 2, 0, n_packed)?)?;
            let rest = slice_axis(&plain, 2, n_packed, self.n_tokens)?;
            let rest = grow(&rest, n_rest, BLOCK)?;
            eval(packed.arrays().chain([&rest]))?;
            Ok::<_, Exception>((packed, rest))
        };
        let (packed_keys, keys) = pack(keys)?;
        let (packed_values, values) = pack(values)?;
        self.packed = Some([packed_keys, packed_values]);
        self.buffer = (n_rest > 0).then_some(Buffer {
            start: n_packed,
            keys,
            values,
        });
        Ok(())
    }

    /// Converts all tokens back, and computes them.
    pub(crate) fn unpack(&mut self) -> MlxResult<()> {
        if self.packed.is_some() {
            *self = self.unpacked(self.n_tokens)?;
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

    /// Returns the first `n_tokens` tokens, at least one, of a packed cache in a buffer. Computes first the
    /// keys and then the values, because each exists several times meanwhile.
    pub(super) fn unpacked(&self, n_tokens: i32) -> MlxResult<Self> {
        let capacity = capacity(None, n_tokens + 1);
        let array = |index: usize| {
            let mut parts = self.parts(index, 0, n_tokens)?;
            if let Some(like) = parts.first() {
                parts.push(zeros(like, capacity - n_tokens)?);
            }
            let all = ops::concatenate(&parts, 2)?;
            eval([&all])?;
            Ok::<_, Exception>(all)
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
                let both = [
                    [words, scales, biases],
                    [value_words, value_scales, value_biases],
                ];
                let plain = both.into_iter().zip(self.arrays()).map(|(arrays, like)| {
                    let packed = Packed::from_arrays(like, arrays);
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
