//! The gated feed-forward layer: `down(f(gate(x)) * up(x))` (Shazeer 2020).
//!
//! The activation is one compiled kernel on a GPU. On a CPU it is separate operations, because MLX
//! would run the system's C++ compiler while the user waits.

use std::cell::RefCell;

use mlx_rs::transforms::compile::compile;
use mlx_rs::{Array, ops};
use transom_engine::EngineError;

use crate::error::MlxResult;
use crate::linear::{Linear, LinearGroup};
use crate::weights::Loader;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// `x * sigmoid(x)` (SwiGLU): Llama and most others.
    Silu,
    /// GELU in its tanh approximation (GeGLU): Gemma.
    GeluTanh,
    /// SwiGLU with both inputs clipped and one added to the values: gpt-oss.
    ClippedSilu,
}

/// A gate function for a device. Each layer keeps its own, because mlx-rs forgets a compiled
/// function when it is dropped, and tracing it again takes longer than it saves.
pub(crate) struct Activation {
    gate: Gate,
    /// `None` on a CPU.
    kernel: Option<CompiledKernel>,
}

type CompiledKernel = RefCell<Box<dyn for<'a> FnMut((&'a Array, &'a Array)) -> MlxResult<Array>>>;

impl Activation {
    pub(crate) fn new(gate: Gate, on_cpu: bool) -> Self {
        // mlx-rs identifies compiled functions by their types, so each has a call of its own.
        let kernel = (!on_cpu).then(|| {
            RefCell::new(match gate {
                Gate::Silu => Box::new(compile(silu, true)) as Box<_>,
                Gate::GeluTanh => Box::new(compile(gelu_tanh, true)) as Box<_>,
                Gate::ClippedSilu => Box::new(compile(clipped_silu, true)) as Box<_>,
            })
        });
        Self { gate, kernel }
    }

    /// Maps two arrays of one shape to that shape.
    pub(crate) fn forward(&self, gate: &Array, up: &Array) -> MlxResult<Array> {
        match (&self.kernel, self.gate) {
            (Some(kernel), _) => (kernel.borrow_mut())((gate, up)),
            (None, Gate::Silu) => silu((gate, up)),
            (None, Gate::GeluTanh) => gelu_tanh((gate, up)),
            (None, Gate::ClippedSilu) => clipped_silu((gate, up)),
        }
    }
}

pub(crate) struct GatedMlp {
    gate_up: LinearGroup,
    down: Linear,
    activation: Activation,
    intermediate_size: i32,
}

impl GatedMlp {
    /// Loads the layer at `path` with the tensors `gate_proj`, `up_proj` (or `gate_up_proj`, which
    /// contains both) and `down_proj`.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        path: &str,
        hidden_size: i32,
        intermediate_size: i32,
        gate: Gate,
    ) -> Result<Self, EngineError> {
        let fused = format!("{path}.gate_up_proj");
        let gate_up = if loader.contains(&format!("{fused}.weight")) {
            LinearGroup::Fused(loader.linear(&fused, hidden_size, 2 * intermediate_size)?)
        } else {
            let paths = ["gate_proj", "up_proj"].map(|name| format!("{path}.{name}"));
            loader.linear_group(&paths, hidden_size, &[intermediate_size; 2])?
        };
        Ok(Self {
            gate_up,
            down: loader.linear(&format!("{path}.down_proj"), intermediate_size, hidden_size)?,
            activation: Activation::new(gate, loader.compute().is_cpu()),
            intermediate_size,
        })
    }

    /// Maps `[1, tokens, hidden_size]` to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        let n_outs = [self.intermediate_size; 2];
        let forward = |linear: &Linear| linear.forward(x);
        let [gate, up] = self.gate_up.forward_parts(&n_outs, forward)?;
        self.down.forward(&self.activation.forward(&gate, &up)?)
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

/// `swiglu` of OpenAI's gpt-oss reference implementation, with its constants.
fn clipped_silu((gate, up): (&Array, &Array)) -> MlxResult<Array> {
    const LIMIT: f32 = 7.0;
    const ALPHA: f32 = 1.702;
    let number = |value: f32| Array::from_f32(value).as_dtype(gate.dtype());
    let gate = ops::minimum(gate, number(LIMIT)?)?;
    let up = ops::maximum(&ops::minimum(up, number(LIMIT)?)?, number(-LIMIT)?)?;
    let weight = ops::sigmoid(gate.multiply(number(ALPHA)?)?)?;
    gate.multiply(weight)?.multiply(up.add(number(1.0)?)?)
}
