//! Access for `benches/delta_rule.rs`, which compares and measures the ways of computing the delta
//! rule on a GPU.

use std::time::{Duration, Instant};

use mlx_rs::transforms::eval;
use mlx_rs::{Array, Dtype};

use super::check::{self, difference, example};
use super::kernel::Kernel;
use super::{Inputs, Sizes, graph};
use crate::device::gpu_language;
use crate::error::MlxResult;
use crate::ops::KernelLanguage;

/// Lets the graph compute the layers of the models that this thread has loaded.
pub fn drop_kernels() {
    check::drop_kernels();
}

/// How the delta rule is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As operations of a graph.
    Graph,
    /// As a kernel, in which so many threads share a column of the state.
    Kernel(i32),
}

/// Layers of certain sizes on the GPU of this machine.
#[derive(Debug)]
pub struct DeltaRuleBench {
    language: KernelLanguage,
    sizes: Sizes,
}

/// One way of computing the delta rule.
enum Computation {
    Graph,
    Kernel(Kernel),
}

impl Computation {
    fn compute(&self, inputs: &Inputs, states: &[Array]) -> MlxResult<(Array, Vec<Array>)> {
        match self {
            Self::Graph => graph::compute(inputs, states),
            Self::Kernel(kernel) => kernel.compute(inputs, states),
        }
    }
}

impl DeltaRuleBench {
    /// Returns layers with these numbers of key heads, of value heads per key head, and of features per
    /// head; `None` on a CPU.
    ///
    /// # Errors
    ///
    /// If MLX does not name its device.
    pub fn new(n_key_heads: i32, n_groups: i32, features: i32) -> MlxResult<Option<Self>> {
        let sizes = Sizes {
            n_key_heads,
            n_groups,
            key_dim: features,
            value_dim: features,
        };
        let language = gpu_language()?;
        Ok(language.map(|language| Self { language, sizes }))
    }

    fn computation(&self, way: Way) -> MlxResult<Computation> {
        let Way::Kernel(lanes) = way else {
            return Ok(Computation::Graph);
        };
        let kernel = Kernel::with_lanes(self.language, self.sizes, lanes)?;
        let unsupported = || mlx_rs::error::Exception::custom("the kernel has no such sizes");
        kernel.map(Computation::Kernel).ok_or_else(unsupported)
    }

    /// Returns the largest difference to the graph on the CPU, for the tokens of one sequence, or one
    /// token of each of several, with values of this type.
    ///
    /// # Errors
    ///
    /// If the kernel does not compile, or MLX fails.
    pub fn difference(
        &self,
        way: Way,
        n_tokens: i32,
        n_sequences: usize,
        values: Dtype,
    ) -> MlxResult<f32> {
        let computation = self.computation(way)?;
        let (inputs, state) = example(self.sizes, values, n_tokens)?;
        let states = vec![state; n_sequences];
        difference(&inputs, &states, |inputs, states| {
            computation.compute(inputs, states)
        })
    }

    /// Returns how long one layer takes in a step of `n_layers`, of which each gets its values from the
    /// one before: the fastest of several steps.
    ///
    /// # Errors
    ///
    /// If the kernel does not compile, or MLX fails.
    pub fn layer_time(
        &self,
        way: Way,
        n_tokens: i32,
        n_sequences: usize,
        n_layers: u32,
    ) -> MlxResult<Duration> {
        const LEAST: Duration = Duration::from_millis(400);
        let computation = self.computation(way)?;
        let (mut inputs, state) = example(self.sizes, Dtype::Float32, n_tokens)?;
        let mut layers = vec![vec![state; n_sequences]; n_layers as usize];
        let (mut fastest, mut n_steps) = (Duration::MAX, 0);
        let begin = Instant::now();
        while n_steps < 5 || begin.elapsed() < LEAST {
            let start = Instant::now();
            for states in &mut layers {
                (inputs.values, *states) = computation.compute(&inputs, states)?;
            }
            eval(layers.iter().flatten().chain([&inputs.values]))?;
            fastest = fastest.min(start.elapsed());
            n_steps += 1;
        }
        Ok(fastest / n_layers)
    }
}
