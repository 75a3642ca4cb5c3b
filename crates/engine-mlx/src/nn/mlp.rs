//! The gated feed-forward layer: `down(silu(gate(x)) * up(x))` (Shazeer 2020, SwiGLU).

use std::cell::RefCell;

use mlx_rs::transforms::compile::compile;
use mlx_rs::{Array, ops};
use transom_engine::EngineError;

use super::{Linear, LinearGroup};
use crate::error::MlxResult;
use crate::weights::Loader;

/// The layer.
pub(crate) struct GatedMlp {
    gate_up: LinearGroup,
    down: Linear,
    /// `None` on a CPU, where MLX would call the system's C++ compiler while the user waits.
    fused: Option<FusedSwiglu>,
}

/// The activation as one kernel instead of three. Kept with the layer, because mlx-rs forgets a
/// compiled function when it is dropped, and tracing it anew takes longer than it saves.
type FusedSwiglu = RefCell<Box<dyn for<'a> FnMut((&'a Array, &'a Array)) -> MlxResult<Array>>>;

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
            fused: (!loader.compute().is_cpu())
                .then(|| RefCell::new(Box::new(compile(swiglu, true)) as Box<_>)),
        })
    }

    /// `[1, tokens, hidden_size]` to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        let (gate, up) = self.gate_up.forward_pair(x)?;
        let activated = match &self.fused {
            Some(fused) => (fused.borrow_mut())((&gate, &up))?,
            None => swiglu((&gate, &up))?,
        };
        self.down.forward(&activated)
    }
}

fn swiglu((gate, up): (&Array, &Array)) -> MlxResult<Array> {
    gate.multiply(ops::sigmoid(gate)?)?.multiply(up)
}
