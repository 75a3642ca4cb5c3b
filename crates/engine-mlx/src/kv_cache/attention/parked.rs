//! The caches of parked conversations, whose complete blocks have 8 bits, and the same blocks in files.

use mlx_rs::error::Exception;
use mlx_rs::transforms::eval;
use mlx_rs::{Array, ops};

use super::super::quantized::{BLOCK, Quantized};
use super::super::{grow, zeros};
use super::{AttentionCache, Buffer, capacity};
use crate::error::MlxResult;
use crate::ops::slice_axis;

impl AttentionCache {
    /// Converts the complete blocks of a cache without a window to 8 bits, and computes them: first the
    /// keys, then the values, so that no more than one of them is in memory twice. After an error, the
    /// cache cannot be used.
    pub(crate) fn quantize(&mut self) -> MlxResult<()> {
        let n_quantized = self.n_tokens / BLOCK * BLOCK;
        if self.window.is_some() || self.quantized.is_some() || n_quantized == 0 {
            return Ok(());
        }
        let Some(Buffer { keys, values, .. }) = self.buffer.take() else {
            return Ok(());
        };
        let n_rest = self.n_tokens - n_quantized;
        let quantize = |plain: Array| {
            let quantized = Quantized::new(&slice_axis(&plain, 2, 0, n_quantized)?)?;
            let rest = slice_axis(&plain, 2, n_quantized, self.n_tokens)?;
            let rest = grow(&rest, n_rest, BLOCK)?;
            eval(quantized.arrays().chain([&rest]))?;
            Ok::<_, Exception>((quantized, rest))
        };
        let (quantized_keys, keys) = quantize(keys)?;
        let (quantized_values, values) = quantize(values)?;
        self.quantized = Some([quantized_keys, quantized_values]);
        self.buffer = (n_rest > 0).then_some(Buffer {
            start: n_quantized,
            keys,
            values,
        });
        Ok(())
    }

    /// Converts all tokens back, and computes them.
    pub(crate) fn dequantize(&mut self) -> MlxResult<()> {
        if self.quantized.is_some() {
            *self = self.dequantized(self.n_tokens)?;
        }
        Ok(())
    }

    /// Returns the bytes that the cache has once it is quantized.
    pub(crate) fn quantized_bytes(&self) -> u64 {
        let bytes = |array: &Array| array.nbytes() as u64;
        let n_quantized = self.n_tokens / BLOCK * BLOCK;
        if self.window.is_some() || self.quantized.is_some() || n_quantized == 0 {
            return self.arrays().map(bytes).sum();
        }
        let n_rest = (self.n_tokens - n_quantized).min(1) * BLOCK;
        let of_array = |array: &Array| {
            let per_token = bytes(array) / array.dim(2).max(1) as u64;
            Quantized::bytes(array, n_quantized) + per_token * n_rest as u64
        };
        self.arrays().map(of_array).sum()
    }

    /// Returns the first `n_tokens` tokens, at least one, of a quantized cache in a buffer. Computes first the
    /// keys and then the values, because each exists several times meanwhile.
    pub(super) fn dequantized(&self, n_tokens: i32) -> MlxResult<Self> {
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
        let quantized = self.quantized.as_ref().map(|both| &both[index]);
        let n_quantized = quantized.map_or(0, Quantized::n_tokens);
        let mut parts = Vec::with_capacity(3);
        if let Some(quantized) = quantized
            && start < n_quantized
        {
            parts.push(quantized.plain(start, end.min(n_quantized))?);
        }
        if let Some(buffer) = &self.buffer
            && end > n_quantized
        {
            let first = start.max(n_quantized) - n_quantized;
            let array = buffer.arrays()[index];
            parts.push(slice_axis(array, 2, first, end - n_quantized)?);
        }
        Ok(parts)
    }

    /// Returns keys and values of the tokens `start..end` as a file has them: the arrays of
    /// [`Quantized::arrays`] if they are `quantized`, which takes a whole block.
    pub(crate) fn block(&self, start: i32, end: i32, quantized: bool) -> MlxResult<Vec<Array>> {
        if self.window.is_some() || end > self.n_tokens {
            return Err(Exception::custom("this layer does not have all tokens"));
        }
        let mut arrays = Vec::with_capacity(6);
        for index in 0..2 {
            let own = self.quantized.as_ref().map(|both| &both[index]);
            let own = own.filter(|own| start % BLOCK == 0 && end <= own.n_tokens());
            let plain = || ops::concatenate(&self.parts(index, start, end)?, 2);
            match (quantized, own) {
                (false, _) => arrays.push(plain()?),
                (true, Some(own)) => arrays.extend(own.blocks(start, end)?.arrays().cloned()),
                (true, None) => arrays.extend(Quantized::new(&plain()?)?.arrays().cloned()),
            }
        }
        Ok(arrays)
    }

    /// Returns keys and values from the arrays that [`AttentionCache::block`] returned, of a cache like
    /// this one, which is not quantized.
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
                    let quantized = Quantized::from_arrays(like, arrays);
                    quantized.plain(0, quantized.n_tokens())
                });
                plain.collect::<MlxResult<Vec<_>>>()?
            }
            Err(arrays) => arrays,
        };
        let arrays = <[Array; 2]>::try_from(arrays);
        arrays.map_err(|_| Exception::custom("keys and values are two arrays"))
    }
}
