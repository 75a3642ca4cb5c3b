//! The gated delta rule (Yang, Kautz and Hatamizadeh 2024): a state of fixed size, which each token
//! decays, corrects and reads.
//!
//! With a decay `g`, a `β`, a key `k`, a value `v` and a query `q` per token, the state `S` (values
//! by keys) is updated by `δ = β (v − g S k)`, `S ← g S + δ kᵀ`, and the token's output is `S q`. On a
//! GPU one kernel computes this for all tokens of a sequence (`delta_rule/kernel.rs`). Elsewhere, and
//! where the kernel fails its check (`delta_rule/check.rs`), it is a graph of MLX's operations
//! (`delta_rule/graph.rs`).
//!
//! Rule: all ways compute the same function and differ only by rounding.

pub mod bench;
mod check;
mod graph;
mod kernel;

use mlx_rs::{Array, Dtype, ops};

use crate::device::Compute;
use crate::error::MlxResult;
use crate::ops::KernelLanguage;

/// The inputs of a step: the tokens of one sequence, or one token of each of several. There are
/// `n_groups` value heads per key head.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// `[tokens, n_key_heads, key_dim]`.
    pub(crate) queries: Array,
    /// `[tokens, n_key_heads, key_dim]`, with a length of at most one.
    pub(crate) keys: Array,
    /// `[tokens, n_key_heads * n_groups, value_dim]`.
    pub(crate) values: Array,
    /// Logarithms of the decays, at most 0: `[tokens, n_key_heads * n_groups]`.
    pub(crate) log_decays: Array,
    /// Between 0 and 1: `[tokens, n_key_heads * n_groups]`.
    pub(crate) betas: Array,
}

impl Inputs {
    fn n_tokens(&self) -> i32 {
        self.keys.dim(0)
    }

    fn sizes(&self) -> Sizes {
        let n_key_heads = self.keys.dim(1);
        Sizes {
            n_key_heads,
            n_groups: self.values.dim(1) / n_key_heads,
            key_dim: self.keys.dim(2),
            value_dim: self.values.dim(2),
        }
    }
}

/// The sizes that all steps of a layer share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) n_key_heads: i32,
    pub(crate) n_groups: i32,
    pub(crate) key_dim: i32,
    pub(crate) value_dim: i32,
}

impl Sizes {
    fn n_heads(self) -> i32 {
        self.n_key_heads * self.n_groups
    }

    /// Returns the shape of a state.
    fn state(self) -> [i32; 4] {
        [
            self.n_key_heads,
            self.n_groups,
            self.value_dim,
            self.key_dim,
        ]
    }
}

/// Computes the delta rule in the way that is fast on this device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeltaRule {
    /// The language of the kernel; `None` on a CPU.
    language: Option<KernelLanguage>,
}

impl DeltaRule {
    /// Returns the delta rule for layers of these sizes, whose values have this type. Checks the kernel
    /// the first time, which takes up to a second.
    pub(crate) fn new(compute: Compute, sizes: Sizes, values: Dtype) -> Self {
        let language = compute.kernel_language();
        if let Some(language) = language {
            check::checked_kernel(language, sizes, values);
        }
        Self { language }
    }

    /// Returns the output of each token, `[tokens, n_key_heads * n_groups, value_dim]`, and for each
    /// sequence the state after its last token, all in f32. `states` has the state of each before its
    /// first token, `[n_key_heads, n_groups, value_dim, key_dim]`, or `None` if it is zero.
    pub(crate) fn compute(
        self,
        inputs: &Inputs,
        states: &[Option<Array>],
    ) -> MlxResult<(Array, Vec<Array>)> {
        let sizes = inputs.sizes();
        let states = states.iter().map(|state| match state {
            Some(state) => Ok(state.clone()),
            None => ops::zeros_dtype(&sizes.state(), Dtype::Float32),
        });
        let states = states.collect::<MlxResult<Vec<_>>>()?;
        let kernel = self
            .language
            .and_then(|language| check::checked_kernel(language, sizes, inputs.values.dtype()));
        match kernel {
            Some(kernel) => kernel.compute(inputs, &states),
            None => graph::compute(inputs, &states),
        }
    }
}

#[cfg(test)]
mod tests;
