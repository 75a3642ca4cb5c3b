//! Per-layer embeddings (Gemma 3n and the small Gemma 4): each layer has an embedding of its own
//! for every token, and mixes it into its output through a gate. The tables are large, but a step
//! reads only one row per token from them.

use mlx_rs::Array;

use crate::error::MlxResult;
use crate::linear::{Linear, Matrix};
use crate::nn::{Activation, RmsNorm};
use crate::ops::slice_axis;

/// The embeddings of all layers side by side.
pub(super) struct PerLayerEmbedding {
    /// `[vocab_size, n_layers * width]`.
    pub(super) embedding: Matrix,
    pub(super) embedding_scale: f32,
    /// From the model's own embedding: `hidden_size` to `n_layers * width`.
    pub(super) projection: Linear,
    pub(super) projection_scale: f32,
    /// Norm of each layer's projection, `[width]`.
    pub(super) norm: RmsNorm,
    pub(super) n_layers: i32,
    pub(super) width: i32,
}

impl PerLayerEmbedding {
    /// Returns `[1, tokens, width]` for each layer, from `tokens` `[tokens]` and their scaled
    /// embeddings `x` `[1, tokens, hidden_size]`.
    pub(super) fn forward(&self, tokens: &Array, x: &Array) -> MlxResult<Vec<Array>> {
        let shape = [1, x.dim(1), self.n_layers, self.width];
        let scaled = |array: Array, factor: f32| -> MlxResult<Array> {
            array.multiply(Array::from_f32(factor).as_dtype(array.dtype())?)
        };
        let embedded = scaled(self.embedding.embed(tokens)?, self.embedding_scale)?;
        let projected = scaled(self.projection.forward(x)?, self.projection_scale)?;
        let projected = self.norm.forward(&projected.reshape(&shape)?)?;
        let sum = projected.add(embedded.reshape(&shape)?)?;
        // The sum of two terms of unit variance, divided by √2, has unit variance.
        let sum = scaled(sum, std::f32::consts::FRAC_1_SQRT_2)?;
        (0..self.n_layers)
            .map(|layer| slice_axis(&sum, 2, layer, layer + 1)?.squeeze_axes(&[2]))
            .collect()
    }
}

/// The gate through which a layer mixes in its embedding.
pub(super) struct PerLayerGate {
    /// `hidden_size` to `width`.
    pub(super) gate: Linear,
    pub(super) activation: Activation,
    /// `width` to `hidden_size`.
    pub(super) projection: Linear,
    pub(super) norm: RmsNorm,
}

impl PerLayerGate {
    /// Returns the term to add to the layer's output `x`, given the layer's embeddings of the
    /// tokens.
    pub(super) fn forward(&self, x: &Array, per_layer: &Array) -> MlxResult<Array> {
        let gate = self.gate.forward(x)?;
        let mixed = self.activation.forward(&gate, per_layer)?;
        self.norm.forward(&self.projection.forward(&mixed)?)
    }
}
