//! Keys or values in 8 bits: about half the memory of 16 bits, for parked and saved conversations.
//!
//! Numbers are quantized by whole blocks of tokens, in groups of 64 that have a scale and a bias. A group
//! is a part of one head, or of the same head at consecutive tokens if a head is smaller. Scales and biases
//! are f32: in bf16, rounding them and their products would cost several times as much as 8 bits do, and
//! more each time that a conversation is parked.

use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, ops};
use transom_engine::saved::BLOCK_TOKENS;

use crate::config::{Quantization, QuantizationMode};
use crate::error::MlxResult;
use crate::ops::{QuantizedMatrix, element_size, slice_axis};

/// Tokens of a block, of which every head has whole groups.
pub(super) const BLOCK: i32 = BLOCK_TOKENS as i32;

const QUANTIZATION: Quantization = Quantization {
    group_size: 64,
    bits: 8,
    mode: QuantizationMode::Affine,
};

const _: () = assert!(BLOCK % QUANTIZATION.group_size == 0);

/// How the numbers are stored, as part of the format of saved blocks.
pub(crate) const DESCRIPTION: &str = "8 bits, groups of 64";

/// Numbers of whole blocks, which have the shape `[1, n_kv_heads, tokens, head_dim]`.
#[derive(Debug)]
pub(super) struct Quantized {
    head_dim: i32,
    /// The type of the plain numbers.
    dtype: Dtype,
    /// `[1, n_kv_heads, groups, 64]`.
    groups: QuantizedMatrix,
}

impl Quantized {
    /// Quantizes `[1, n_kv_heads, tokens, head_dim]` with whole blocks of tokens.
    pub(super) fn new(plain: &Array) -> MlxResult<Self> {
        let Quantization {
            group_size, bits, ..
        } = QUANTIZATION;
        let head_dim = plain.dim(3);
        let n_groups = n_groups(plain.dim(2), head_dim);
        let groups = plain.reshape(&[1, plain.dim(1), n_groups, group_size])?;
        let groups = groups.as_dtype(Dtype::Float32)?;
        let (words, scales, biases) = ops::quantize(groups, group_size, bits)?;
        Ok(Self::from_arrays(plain, [words, scales, biases]))
    }

    /// Returns the numbers with these [`Quantized::arrays`], of an array like this one.
    pub(super) fn from_arrays(like: &Array, arrays: [Array; 3]) -> Self {
        Self::of(like.dim(3), like.dtype(), arrays)
    }

    fn of(head_dim: i32, dtype: Dtype, [words, scales, biases]: [Array; 3]) -> Self {
        let groups = QuantizedMatrix {
            words,
            scales,
            biases: Some(biases),
            quantization: QUANTIZATION,
        };
        Self {
            head_dim,
            dtype,
            groups,
        }
    }

    pub(super) fn n_tokens(&self) -> i32 {
        self.groups.scales.dim(2) * QUANTIZATION.group_size / self.head_dim.max(1)
    }

    /// Returns the bytes of `n_tokens` tokens, whole blocks, of an array like this one.
    pub(super) fn bytes(like: &Array, n_tokens: i32) -> u64 {
        let arrays = quantized_arrays(like, n_tokens).into_iter();
        let bytes = arrays.map(|(shape, dtype)| {
            let n_elements: u64 = shape.iter().map(|&size| size as u64).product();
            n_elements * element_size(dtype).unwrap_or(0) as u64
        });
        bytes.sum()
    }

    /// Returns words, scales and biases.
    pub(super) fn arrays(&self) -> impl Iterator<Item = &Array> {
        self.groups.arrays()
    }

    /// Returns the part of the tokens `start..end`, which are whole blocks.
    pub(super) fn blocks(&self, start: i32, end: i32) -> MlxResult<Self> {
        let [start, end] = [start, end].map(|n_tokens| n_groups(n_tokens, self.head_dim));
        let part = |array: &Array| slice_axis(array, 2, start, end);
        let arrays = self.arrays().map(part).collect::<MlxResult<Vec<_>>>()?;
        let arrays = <[Array; 3]>::try_from(arrays);
        let arrays = arrays.map_err(|_| Exception::custom("a quantized array has three parts"))?;
        Ok(Self::of(self.head_dim, self.dtype, arrays))
    }

    /// Returns the numbers of the tokens `start..end`, in the type that they had.
    pub(super) fn plain(&self, start: i32, end: i32) -> MlxResult<Array> {
        let first = start / BLOCK * BLOCK;
        let last = (end + BLOCK - 1) / BLOCK * BLOCK;
        let groups = self.blocks(first, last)?.groups.dequantized()?;
        let groups = groups.as_dtype(self.dtype)?;
        let shape = [1, groups.dim(1), last - first, self.head_dim];
        slice_axis(&groups.reshape(&shape)?, 2, start - first, end - first)
    }
}

/// Returns the groups of `n_tokens` tokens of a head.
fn n_groups(n_tokens: i32, head_dim: i32) -> i32 {
    n_tokens * head_dim / QUANTIZATION.group_size
}

/// Returns the shapes and types of the [`Quantized::arrays`] of `n_tokens` tokens, whole blocks, of an array
/// `[1, n_kv_heads, any, head_dim]` like this one.
pub(super) fn quantized_arrays(like: &Array, n_tokens: i32) -> [(Vec<i32>, Dtype); 3] {
    let Quantization {
        group_size, bits, ..
    } = QUANTIZATION;
    let shape = |n| vec![1, like.dim(1), n_groups(n_tokens, like.dim(3)), n];
    [
        (shape(group_size * bits / 32), Dtype::Uint32),
        (shape(1), Dtype::Float32),
        (shape(1), Dtype::Float32),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of which each head and each element of a head has its own scale.
    fn numbers(head_dim: i32, dtype: Dtype) -> Array {
        let shape = [1, 2, 2 * BLOCK, head_dim];
        let n: i32 = shape.iter().product();
        let value = |i: i32| {
            let scale = 1 + (i % head_dim) % 7 * 3 + i / (2 * BLOCK * head_dim) * 20;
            (i as f32 * 0.61803).sin() * scale as f32
        };
        let values: Vec<f32> = (0..n).map(value).collect();
        let array = Array::from_slice(&values, &shape);
        array.as_dtype(dtype).expect("MLX converts")
    }

    fn values(array: &Array) -> Vec<f32> {
        let array = array
            .as_dtype(Dtype::Float32)
            .and_then(|array| array.contiguous());
        array.expect("MLX converts").as_slice().to_vec()
    }

    /// Also if they are quantized again and again, numbers come back within two steps, 2/255 of the range of
    /// their group, and the rounding of their type.
    #[test]
    fn numbers_come_back_within_two_steps() {
        for head_dim in [8, 24, 64, 80, 96, 128, 256] {
            for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16] {
                let plain = numbers(head_dim, dtype);
                let mut found = plain.clone();
                for _ in 0..10 {
                    let quantized = Quantized::new(&found).expect("MLX quantizes");
                    assert_eq!(quantized.n_tokens(), 2 * BLOCK);
                    let arrays: u64 = quantized.arrays().map(|array| array.nbytes() as u64).sum();
                    assert_eq!(Quantized::bytes(&plain, 2 * BLOCK), arrays);
                    found = quantized.plain(0, 2 * BLOCK).expect("MLX dequantizes");
                    assert_eq!((found.shape(), found.dtype()), (plain.shape(), dtype));
                }
                let (expected, found) = (values(&plain), values(&found));
                for (expected, found) in expected.chunks(64).zip(found.chunks(64)) {
                    let most = expected.iter().copied().fold(f32::MIN, f32::max);
                    let least = expected.iter().copied().fold(f32::MAX, f32::min);
                    let step = (most - least) / 255.0;
                    let rounding = match dtype {
                        Dtype::Bfloat16 => 1.0 / 256.0,
                        Dtype::Float16 => 1.0 / 2048.0,
                        _ => 1e-6,
                    };
                    let rounding = rounding * most.max(-least);
                    let differences = expected.iter().zip(found).map(|(a, b)| (a - b).abs());
                    let worst = differences.fold(0.0, f32::max);
                    assert!(
                        worst <= 2.0 * step + rounding,
                        "{head_dim}, {dtype:?}: {worst}, {step}"
                    );
                }
            }
        }
    }

    #[test]
    fn any_part_is_that_of_all() {
        let quantized = Quantized::new(&numbers(24, Dtype::Float32)).expect("MLX quantizes");
        let all = quantized.plain(0, 2 * BLOCK).expect("MLX dequantizes");
        for (start, end) in [(0, 1), (255, 257), (256, 512), (3, 512), (300, 301)] {
            let part = quantized.plain(start, end).expect("MLX dequantizes");
            let expected = slice_axis(&all, 2, start, end).expect("MLX slices");
            assert_eq!(values(&part), values(&expected), "{start}..{end}");
        }
    }
}
