//! The gated feed-forward layer: `down(f(gate(x)) * up(x))` (Shazeer 2020).
//!
//! The activation is one compiled kernel on a GPU and plain operations on a CPU, where MLX would
//! call the system's C++ compiler while the user waits.

use std::cell::RefCell;

use mlx_rs::transforms::compile::compile;
use mlx_rs::{Array, ops};
use transom_engine::EngineError;

use super::{Linear, LinearGroup};
use crate::error::MlxResult;
use crate::weights::Loader;

/// What is done to the gates before they are multiplied with the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// `x * sigmoid(x)` (SwiGLU): Llama and most others.
    Silu,
    /// GELU in the form with tanh (GeGLU): Gemma.
    GeluTanh,
    /// SwiGLU with both inputs held within bounds and one added to the values: gpt-oss.
    ClippedSilu,
}

/// A gate's computation. Kept with the layer, because mlx-rs forgets a compiled function when it is
/// dropped, and tracing it anew takes longer than it saves.
pub(crate) struct Activation {
    gate: Gate,
    fused: Option<Fused>,
}

/// As one kernel instead of several.
type Fused = RefCell<Box<dyn for<'a> FnMut((&'a Array, &'a Array)) -> MlxResult<Array>>>;

impl Activation {
    /// The activation for a device.
    pub(crate) fn new(gate: Gate, on_cpu: bool) -> Self {
        // Each function apart: mlx-rs tells compiled functions apart by their types.
        let fused = (!on_cpu).then(|| {
            RefCell::new(match gate {
                Gate::Silu => Box::new(compile(silu, true)) as Box<_>,
                Gate::GeluTanh => Box::new(compile(gelu_tanh, true)) as Box<_>,
                Gate::ClippedSilu => Box::new(compile(clipped_silu, true)) as Box<_>,
            })
        });
        Self { gate, fused }
    }

    /// Two arrays of one shape to that shape.
    pub(crate) fn gated(&self, gate: &Array, up: &Array) -> MlxResult<Array> {
        match (&self.fused, self.gate) {
            (Some(fused), _) => (fused.borrow_mut())((gate, up)),
            (None, Gate::Silu) => silu((gate, up)),
            (None, Gate::GeluTanh) => gelu_tanh((gate, up)),
            (None, Gate::ClippedSilu) => clipped_silu((gate, up)),
        }
    }
}

/// The layer.
pub(crate) struct GatedMlp {
    gate_up: LinearGroup,
    down: Linear,
    activation: Activation,
}

impl GatedMlp {
    /// The layer at `path`, with the names `gate_proj`, `up_proj` and `down_proj`, or with the first
    /// two in one as `gate_up_proj`.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        path: &str,
        hidden_size: i32,
        intermediate_size: i32,
    ) -> Result<Self, EngineError> {
        let fused = format!("{path}.gate_up_proj");
        let gate_up = if loader.contains(&format!("{fused}.weight")) {
            LinearGroup::Joined(loader.linear(&fused, hidden_size, 2 * intermediate_size)?)
        } else {
            let paths = ["gate_proj", "up_proj"].map(|name| format!("{path}.{name}"));
            loader.linear_group(&paths, hidden_size, &[intermediate_size; 2])?
        };
        Ok(Self {
            gate_up,
            down: loader.linear(&format!("{path}.down_proj"), intermediate_size, hidden_size)?,
            activation: Activation::new(Gate::Silu, loader.compute().is_cpu()),
        })
    }

    /// The layer with another activation, on the device that `loader` loads for.
    #[must_use]
    pub(crate) fn with_gate(mut self, gate: Gate, loader: &Loader<'_>) -> Self {
        self.activation = Activation::new(gate, loader.compute().is_cpu());
        self
    }

    /// `[1, tokens, hidden_size]` to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        let (gate, up) = self.gate_up.forward_pair(x)?;
        self.down.forward(&self.activation.gated(&gate, &up)?)
    }
}

fn silu((gate, up): (&Array, &Array)) -> MlxResult<Array> {
    gate.multiply(ops::sigmoid(gate)?)?.multiply(up)
}

fn gelu_tanh((gate, up): (&Array, &Array)) -> MlxResult<Array> {
    let number = |value: f32| Array::from_f32(value).as_dtype(gate.dtype());
    let cube = gate.multiply(gate)?.multiply(gate)?;
    let inner = gate.add(cube.multiply(number(0.044_715)?)?)?;
    let inner = inner.multiply(number(std::f32::consts::FRAC_2_PI.sqrt())?)?;
    let weight = ops::tanh(&inner)?
        .add(number(1.0)?)?
        .multiply(number(0.5)?)?;
    gate.multiply(weight)?.multiply(up)
}

/// `swiglu` of OpenAI's gpt-oss reference, with its constants.
fn clipped_silu((gate, up): (&Array, &Array)) -> MlxResult<Array> {
    const LIMIT: f32 = 7.0;
    const STEEPNESS: f32 = 1.702;
    let number = |value: f32| Array::from_f32(value).as_dtype(gate.dtype());
    let gate = ops::minimum(gate, number(LIMIT)?)?;
    let up = ops::maximum(&ops::minimum(up, number(LIMIT)?)?, number(-LIMIT)?)?;
    let share = ops::sigmoid(gate.multiply(number(STEEPNESS)?)?)?;
    gate.multiply(share)?.multiply(up.add(number(1.0)?)?)
}
