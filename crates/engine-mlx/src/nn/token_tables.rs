//! A second embedding for every block, which the block mixes into its output through a gate
//! (Gemma 3n and the small ones of Gemma 4). The tables are large, but of each only a row a token is
//! read.

use mlx_rs::Array;

use super::{Activation, Embedding, Linear, RmsNorm};
use crate::error::MlxResult;
use crate::ops::slice_axis;

/// The tables of all blocks side by side.
pub(crate) struct TokenTables {
    /// `[vocab_size, n_blocks * width]`.
    pub(crate) embedding: Embedding,
    /// What embeddings are multiplied by.
    pub(crate) embedding_scale: f32,
    /// From the model's own embedding: `hidden_size` to `n_blocks * width`.
    pub(crate) projection: Linear,
    /// What projections are multiplied by.
    pub(crate) projection_scale: f32,
    /// Of each block's projection, `[width]`.
    pub(crate) norm: RmsNorm,
    pub(crate) n_blocks: i32,
    pub(crate) width: i32,
}

impl TokenTables {
    /// What each block gets of `tokens` `[tokens]`, whose scaled embeddings are `x`: `[1, tokens,
    /// width]` a block.
    pub(crate) fn forward(&self, tokens: &Array, x: &Array) -> MlxResult<Vec<Array>> {
        let shape = [1, x.dim(1), self.n_blocks, self.width];
        let times = |array: Array, factor: f32| -> MlxResult<Array> {
            array.multiply(Array::from_f32(factor).as_dtype(array.dtype())?)
        };
        let own = times(self.embedding.forward(tokens)?, self.embedding_scale)?;
        let projected = times(self.projection.forward(x)?, self.projection_scale)?;
        let projected = self.norm.forward(&projected.reshape(&shape)?)?;
        let sum = projected.add(own.reshape(&shape)?)?;
        // Two parts of equal size are added; their sum keeps it.
        let sum = times(sum, std::f32::consts::FRAC_1_SQRT_2)?;
        (0..self.n_blocks)
            .map(|block| slice_axis(&sum, 2, block, block + 1)?.squeeze_axes(&[2]))
            .collect()
    }
}

/// A block's way of mixing its table in.
pub(crate) struct TokenGate {
    /// `hidden_size` to `width`.
    pub(crate) gate: Linear,
    pub(crate) activation: Activation,
    /// `width` to `hidden_size`.
    pub(crate) projection: Linear,
    pub(crate) norm: RmsNorm,
}

impl TokenGate {
    /// What is added to the block's output `x`, given the table's rows for its tokens.
    pub(crate) fn forward(&self, x: &Array, token: &Array) -> MlxResult<Array> {
        let gate = self.gate.forward(x)?;
        let mixed = self.activation.gated(&gate, token)?;
        self.norm.forward(&self.projection.forward(&mixed)?)
    }
}
