//! A feed-forward layer and a mixture beside each other (Gemma 4): each normalises the residual and
//! what it makes of it by itself, and the sum is the block's.

use mlx_rs::Array;

use super::{Experts, GatedMlp, RmsNorm};
use crate::error::MlxResult;

/// Both halves.
pub(crate) struct DenseBesideExperts {
    pub(crate) dense_norm: RmsNorm,
    pub(crate) dense: GatedMlp,
    pub(crate) dense_output_norm: RmsNorm,
    /// Of what the router looks at; its weight holds the router's own scale.
    pub(crate) router_norm: RmsNorm,
    pub(crate) experts_norm: RmsNorm,
    pub(crate) experts: Experts,
    pub(crate) experts_output_norm: RmsNorm,
}

impl DenseBesideExperts {
    /// The residual `[1, tokens, hidden_size]` to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        let dense = self.dense.forward(&self.dense_norm.forward(x)?)?;
        let mixed = self.experts.forward_routed_by(
            &self.experts_norm.forward(x)?,
            &self.router_norm.forward(x)?,
        )?;
        self.dense_output_norm
            .forward(&dense)?
            .add(self.experts_output_norm.forward(&mixed)?)
    }
}
