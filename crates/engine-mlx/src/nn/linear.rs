//! Products with weight matrices, plain or quantised.

use mlx_rs::{Array, ops};

use crate::config::Quantization;
use crate::error::MlxResult;

/// A matrix `[n_out, n_in]` as it lies in memory.
#[derive(Debug)]
pub(crate) enum Matrix {
    /// One number an element.
    Dense(Array),
    /// MLX's affine form: `bits` bits an element, packed into 32-bit words; a scale and a bias for
    /// each group of a row.
    Quantized {
        packed: Array,
        scales: Array,
        biases: Array,
        quantization: Quantization,
    },
}

impl Matrix {
    /// `x @ self.T`.
    fn product(&self, x: &Array) -> MlxResult<Array> {
        match self {
            Self::Dense(weight) => x.matmul(weight.transpose()?),
            Self::Quantized {
                packed,
                scales,
                biases,
                quantization,
            } => ops::quantized_matmul(
                x,
                packed,
                scales,
                biases,
                true,
                quantization.group_size,
                quantization.bits,
            ),
        }
    }

    /// The rows with these numbers: `[tokens]` to `[tokens, n_in]`.
    fn rows(&self, numbers: &Array) -> MlxResult<Array> {
        match self {
            Self::Dense(weight) => weight.take_axis(numbers, 0),
            Self::Quantized {
                packed,
                scales,
                biases,
                quantization,
            } => ops::dequantize(
                packed.take_axis(numbers, 0)?,
                scales.take_axis(numbers, 0)?,
                &biases.take_axis(numbers, 0)?,
                quantization.group_size,
                quantization.bits,
            ),
        }
    }

    /// The rows of all matrices in one; `None` where their forms differ.
    fn joined(matrices: &[&Self]) -> MlxResult<Option<Self>> {
        let mut dense = Vec::new();
        let mut parts = (Vec::new(), Vec::new(), Vec::new());
        let mut common = None;
        for matrix in matrices {
            match matrix {
                Self::Dense(weight) => dense.push(weight),
                Self::Quantized {
                    packed,
                    scales,
                    biases,
                    quantization,
                } => {
                    if common.is_some_and(|other| other != *quantization) {
                        return Ok(None);
                    }
                    common = Some(*quantization);
                    parts.0.push(packed);
                    parts.1.push(scales);
                    parts.2.push(biases);
                }
            }
        }
        match common {
            None => ops::concatenate(&dense, 0).map(|all| Some(Self::Dense(all))),
            Some(quantization) if dense.is_empty() => Ok(Some(Self::Quantized {
                packed: ops::concatenate(&parts.0, 0)?,
                scales: ops::concatenate(&parts.1, 0)?,
                biases: ops::concatenate(&parts.2, 0)?,
                quantization,
            })),
            Some(_) => Ok(None),
        }
    }

    fn arrays(&self) -> Vec<&Array> {
        match self {
            Self::Dense(weight) => vec![weight],
            Self::Quantized {
                packed,
                scales,
                biases,
                ..
            } => vec![packed, scales, biases],
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
    /// A product with `matrix`, to which `bias` `[n_out]` is added.
    pub(crate) fn new(matrix: Matrix, bias: Option<Array>) -> Self {
        Self { matrix, bias }
    }

    /// `[…, n_in]` to `[…, n_out]`.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        let product = self.matrix.product(x)?;
        match &self.bias {
            Some(bias) => product.add(bias),
            None => Ok(product),
        }
    }
}

/// Several products with the same input.
#[derive(Debug)]
pub(crate) enum LinearGroup {
    /// In one product: fewer operations, which is what small batches wait for.
    Joined(Linear),
    /// One by one, where the weights are used in place and joining would copy them.
    Separate(Vec<Linear>),
}

impl LinearGroup {
    /// A group of `linears` with outputs of these sizes, joined if that is wanted and possible.
    pub(crate) fn new(linears: Vec<Linear>, n_outs: &[i32], join: bool) -> MlxResult<Self> {
        if !join {
            return Ok(Self::Separate(linears));
        }
        let matrices: Vec<&Matrix> = linears.iter().map(|linear| &linear.matrix).collect();
        let Some(matrix) = Matrix::joined(&matrices)? else {
            return Ok(Self::Separate(linears));
        };
        let bias = if linears.iter().any(|linear| linear.bias.is_some()) {
            let biases = linears
                .iter()
                .zip(n_outs)
                .map(|(linear, &n_out)| match &linear.bias {
                    Some(bias) => Ok(bias.clone()),
                    None => ops::zeros_dtype(&[n_out], matrix.arrays()[0].dtype()),
                })
                .collect::<MlxResult<Vec<_>>>()?;
            Some(ops::concatenate(&biases, 0)?)
        } else {
            None
        };
        let joined = Linear::new(matrix, bias);
        // Done now, so that the parts can be freed and no prefill pays for it.
        mlx_rs::transforms::eval(joined.matrix.arrays().into_iter().chain(&joined.bias))?;
        Ok(Self::Joined(joined))
    }

    /// All outputs side by side: `[…, n_in]` to `[…, sum of n_outs]`.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        match self {
            Self::Joined(linear) => linear.forward(x),
            Self::Separate(linears) => {
                let outputs = linears
                    .iter()
                    .map(|linear| linear.forward(x))
                    .collect::<MlxResult<Vec<_>>>()?;
                ops::concatenate(&outputs, -1)
            }
        }
    }

    /// The two outputs of a group of two equal sizes.
    pub(crate) fn forward_pair(&self, x: &Array) -> MlxResult<(Array, Array)> {
        match self {
            Self::Separate(linears) if linears.len() == 2 => {
                Ok((linears[0].forward(x)?, linears[1].forward(x)?))
            }
            _ => {
                let both = self.forward(x)?;
                let axis = both.ndim() - 1;
                let size = both.dim(-1);
                Ok((
                    crate::ops::slice_axis(&both, axis, 0, size / 2)?,
                    crate::ops::slice_axis(&both, axis, size / 2, size)?,
                ))
            }
        }
    }
}

/// The token table, which also gives the logits of models whose head is tied to it.
#[derive(Debug)]
pub(crate) struct Embedding {
    matrix: Matrix,
}

impl Embedding {
    /// A table of `[vocab_size, hidden_size]`.
    pub(crate) fn new(matrix: Matrix) -> Self {
        Self { matrix }
    }

    /// Token ids `[tokens]` to `[1, tokens, hidden_size]`.
    pub(crate) fn forward(&self, tokens: &Array) -> MlxResult<Array> {
        self.matrix.rows(tokens)?.expand_dims(0)
    }

    /// Hidden states `[…, hidden_size]` to logits `[…, vocab_size]`.
    pub(crate) fn logits(&self, x: &Array) -> MlxResult<Array> {
        self.matrix.product(x)
    }
}
