//! Products with weight matrices, dense or quantized.

use mlx_rs::error::Exception;
use mlx_rs::{Array, ops};

use crate::error::MlxResult;
use crate::ops::{QuantizedMatrix, slice_axis};

/// A matrix `[n_out, n_in]` as stored in memory, or a stack `[n_experts, n_out, n_in]` of them.
#[derive(Debug)]
pub(crate) enum Matrix {
    Dense(Array),
    /// `bits` bits per element, packed into 32-bit words, with a scale and in the affine mode a
    /// bias for each group of a row.
    Quantized(QuantizedMatrix),
}

impl Matrix {
    /// Returns `x @ self.T`: `[…, n_in]` to `[…, n_out]`.
    pub(crate) fn product(&self, x: &Array) -> MlxResult<Array> {
        match self {
            Self::Dense(weight) => x.matmul(weight.transpose()?),
            Self::Quantized(matrix) => matrix.product(x),
        }
    }

    /// Returns `x[i] @ self[indices[i]].T` of a stack. `x` is `[…, 1, n_in]`; its leading axes
    /// broadcast with those of `indices`, which are in ascending order if `are_sorted`.
    pub(crate) fn gathered_product(
        &self,
        x: &Array,
        indices: &Array,
        are_sorted: bool,
    ) -> MlxResult<Array> {
        match self {
            Self::Dense(stack) => {
                ops::gather_mm(x, stack.swap_axes(-1, -2)?, None, indices, are_sorted)
            }
            Self::Quantized(stack) => stack.gathered_product(x, indices, are_sorted),
        }
    }

    /// Returns the rows with these indices: `[tokens]` to `[1, tokens, n_in]`.
    pub(crate) fn embed(&self, tokens: &Array) -> MlxResult<Array> {
        let rows = match self {
            Self::Dense(weight) => weight.take_axis(tokens, 0)?,
            Self::Quantized(matrix) => matrix.rows(tokens)?.dequantized()?,
        };
        rows.expand_dims(0)
    }

    /// Concatenates the outputs of the matrices; `None` if they are stored in different ways.
    pub(crate) fn fused(matrices: &[&Self]) -> MlxResult<Option<Self>> {
        let (mut dense, mut quantized) = (Vec::new(), Vec::new());
        for matrix in matrices {
            match matrix {
                Self::Dense(weight) => dense.push(weight),
                Self::Quantized(matrix) => quantized.push(matrix),
            }
        }
        let concatenate = |arrays: &[&Array]| ops::concatenate(arrays, -2);
        let Some(first) = quantized.first() else {
            return concatenate(&dense).map(|all| Some(Self::Dense(all)));
        };
        let quantization = first.quantization;
        let is_same = |matrix: &&QuantizedMatrix| matrix.quantization == quantization;
        if !dense.is_empty() || !quantized.iter().all(is_same) {
            return Ok(None);
        }
        let words: Vec<_> = quantized.iter().map(|matrix| &matrix.words).collect();
        let scales: Vec<_> = quantized.iter().map(|matrix| &matrix.scales).collect();
        let biases: Vec<_> = quantized
            .iter()
            .filter_map(|matrix| matrix.biases.as_ref())
            .collect();
        Ok(Some(Self::Quantized(QuantizedMatrix {
            words: concatenate(&words)?,
            scales: concatenate(&scales)?,
            biases: match biases.len() {
                0 => None,
                _ => Some(concatenate(&biases)?),
            },
            quantization,
        })))
    }

    pub(crate) fn arrays(&self) -> Vec<&Array> {
        match self {
            Self::Dense(weight) => vec![weight],
            Self::Quantized(matrix) => matrix.arrays().collect(),
        }
    }
}

/// `x @ weight.T + bias`.
#[derive(Debug)]
pub(crate) struct Linear {
    matrix: Matrix,
    bias: Option<Array>,
}

impl Linear {
    /// Returns a product with `matrix` to which `bias` `[n_out]` is added.
    pub(crate) fn new(matrix: Matrix, bias: Option<Array>) -> Self {
        Self { matrix, bias }
    }

    /// Maps `[…, n_in]` to `[…, n_out]`.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        let product = self.matrix.product(x)?;
        match &self.bias {
            Some(bias) => product.add(bias),
            None => Ok(product),
        }
    }

    /// Maps `[…, 1, n_in]` to `[…, 1, n_out]` with a stack of matrices and biases `[n_experts,
    /// n_out]`; `indices` are the experts of the rows, in ascending order if `are_sorted`.
    pub(crate) fn forward_gathered(
        &self,
        x: &Array,
        indices: &Array,
        are_sorted: bool,
    ) -> MlxResult<Array> {
        let product = self.matrix.gathered_product(x, indices, are_sorted)?;
        match &self.bias {
            Some(bias) => product.add(bias.take_axis(indices, 0)?.expand_dims(-2)?),
            None => Ok(product),
        }
    }

    /// Returns the bias, or zeros in its place.
    fn bias_or_zeros(&self) -> MlxResult<Array> {
        if let Some(bias) = &self.bias {
            return Ok(bias.clone());
        }
        let matrix = self.matrix.arrays()[0];
        ops::zeros_dtype(&matrix.shape()[..matrix.ndim() - 1], matrix.dtype())
    }
}

/// Several products with the same input.
#[derive(Debug)]
pub(crate) enum LinearGroup {
    /// In one product: with small batches, the number of operations limits the speed.
    Fused(Linear),
    /// In separate products, if the weights are used in place and fusing would copy them.
    Separate(Vec<Linear>),
}

impl LinearGroup {
    /// Returns a group of `linears`, fused if `fuse` is set and their storage allows it.
    pub(crate) fn new(linears: Vec<Linear>, fuse: bool) -> MlxResult<Self> {
        if !fuse {
            return Ok(Self::Separate(linears));
        }
        let matrices: Vec<&Matrix> = linears.iter().map(|linear| &linear.matrix).collect();
        let Some(matrix) = Matrix::fused(&matrices)? else {
            return Ok(Self::Separate(linears));
        };
        let bias = if linears.iter().any(|linear| linear.bias.is_some()) {
            let biases = linears.iter().map(Linear::bias_or_zeros);
            let biases = biases.collect::<MlxResult<Vec<_>>>()?;
            Some(ops::concatenate(&biases, -1)?)
        } else {
            None
        };
        let fused = Linear::new(matrix, bias);
        // Evaluated now, so that the parts can be freed before the next layer is read.
        mlx_rs::transforms::eval(fused.matrix.arrays().into_iter().chain(&fused.bias))?;
        Ok(Self::Fused(fused))
    }

    /// Returns all outputs side by side: `[…, n_in]` to `[…, sum of n_outs]`.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        match self {
            Self::Fused(linear) => linear.forward(x),
            Self::Separate(linears) => {
                let outputs = linears
                    .iter()
                    .map(|linear| linear.forward(x))
                    .collect::<MlxResult<Vec<_>>>()?;
                ops::concatenate(&outputs, -1)
            }
        }
    }

    /// Returns the outputs of each product, which have these sizes and which `forward` computes.
    pub(crate) fn forward_parts<const N: usize>(
        &self,
        n_outs: &[i32; N],
        forward: impl Fn(&Linear) -> MlxResult<Array>,
    ) -> MlxResult<[Array; N]> {
        let parts = match self {
            Self::Separate(linears) => {
                let parts = linears.iter().map(forward);
                parts.collect::<MlxResult<Vec<_>>>()?
            }
            Self::Fused(linear) => {
                let all = forward(linear)?;
                let mut start = 0;
                let parts = n_outs.iter().map(|&size| {
                    start += size;
                    slice_axis(&all, all.ndim() - 1, start - size, start)
                });
                parts.collect::<MlxResult<Vec<_>>>()?
            }
        };
        parts
            .try_into()
            .map_err(|_| Exception::custom("a group must have as many outputs as matrices"))
    }
}
