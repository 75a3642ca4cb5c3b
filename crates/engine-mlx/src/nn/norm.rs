//! Root-mean-square normalisation (Zhang and Sennrich 2019).

use mlx_rs::{Array, fast};

use crate::error::MlxResult;

/// `x / rms(x) * weight` over the last axis.
#[derive(Debug)]
pub(crate) struct RmsNorm {
    weight: Array,
    epsilon: f32,
}

impl RmsNorm {
    /// A norm with this weight `[features]`.
    pub(crate) fn new(weight: Array, epsilon: f32) -> Self {
        Self { weight, epsilon }
    }

    /// `[…, features]` to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        fast::rms_norm(x, Some(&self.weight), self.epsilon)
    }
}
