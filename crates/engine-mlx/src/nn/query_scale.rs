//! Queries that grow with the logarithm of their position, so that attention stays sharp in
//! contexts longer than the original one (Llama 4; Ministral 3).

use mlx_rs::{Array, Dtype};

use super::Step;
use crate::error::MlxResult;

/// The scale `1 + beta * ln(1 + floor(position / original_max_positions))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct QueryScale {
    pub(crate) beta: f32,
    /// Tokens whose queries are not scaled; above 0.
    pub(crate) original_max_positions: i32,
}

impl QueryScale {
    fn at(self, position: i32) -> f32 {
        let periods = (position / self.original_max_positions) as f32;
        1.0 + self.beta * periods.ln_1p()
    }

    /// Scales the queries `[sequences, heads, tokens, head_dim]` of a step.
    pub(crate) fn apply(self, queries: Array, step: &Step<'_>) -> MlxResult<Array> {
        let last = step.positions().max().unwrap_or(0);
        if last < self.original_max_positions {
            return Ok(queries);
        }
        let scales: Vec<f32> = step.positions().map(|position| self.at(position)).collect();
        let scales = Array::from_slice(&scales, &[step.n_sequences(), 1, step.n_tokens, 1]);
        match queries.dtype() {
            Dtype::Float32 => queries.multiply(scales),
            dtype => queries.multiply(scales.as_dtype(dtype)?),
        }
    }
}
