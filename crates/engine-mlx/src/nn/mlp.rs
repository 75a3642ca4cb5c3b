//! The gated feed-forward layer: `down(silu(gate(x)) * up(x))` (Shazeer 2020, SwiGLU).

use mlx_rs::transforms::compile::compile;
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
    on_cpu: bool,
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
            on_cpu: loader.compute().is_cpu(),
        })
    }

    /// `[1, tokens, hidden_size]` to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        let (gate, up) = self.gate_up.forward_pair(x)?;
        let activated = if self.on_cpu {
            swiglu(&gate, &up)?
        } else {
            // One kernel instead of three. On a CPU, MLX would call the system's C++ compiler for
            // it while the user waits, or fail where there is none.
            compile(|(gate, up): (&Array, &Array)| swiglu(gate, up), true)((&gate, &up))?
        };
        self.down.forward(&activated)
    }
}

fn swiglu(gate: &Array, up: &Array) -> MlxResult<Array> {
    gate.multiply(ops::sigmoid(gate)?)?.multiply(up)
}
