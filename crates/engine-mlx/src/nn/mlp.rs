//! The gated feed-forward layer: `down(silu(gate(x)) * up(x))` (Shazeer 2020, SwiGLU).

use mlx_rs::{Array, ops};
use transom_engine::EngineError;

use super::{Linear, LinearGroup};
use crate::error::MlxResult;
use crate::weights::Loader;

/// SwiGLU.
#[derive(Debug)]
pub(crate) struct GatedMlp {
    gate_up: LinearGroup,
    down: Linear,
}

impl GatedMlp {
    /// The layer at `path`, with the names `gate_proj`, `up_proj` and `down_proj`.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        path: &str,
        hidden_size: i32,
        intermediate_size: i32,
    ) -> Result<Self, EngineError> {
        let gate_up = ["gate_proj", "up_proj"].map(|name| format!("{path}.{name}"));
        Ok(Self {
            gate_up: loader.linear_group(&gate_up, hidden_size, &[intermediate_size; 2])?,
            down: loader.linear(&format!("{path}.down_proj"), intermediate_size, hidden_size)?,
        })
    }

    /// `[1, tokens, hidden_size]` to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        let (gate, up) = self.gate_up.forward_pair(x)?;
        let activated = gate.multiply(ops::sigmoid(&gate)?)?;
        self.down.forward(&activated.multiply(up)?)
    }
}
