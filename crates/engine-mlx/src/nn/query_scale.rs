//! Queries that grow with the logarithm of their place, so that attention stays as sharp over a
//! context longer than the model was first trained on (Llama 4; Ministral 3).

use mlx_rs::{Array, Dtype};

use super::Step;
use crate::error::MlxResult;

/// `1 + growth * ln(1 + place / period)`, in whole periods.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct QueryScale {
    /// By how much a query grows.
    pub(crate) growth: f32,
    /// Tokens over which nothing changes; above 0.
    pub(crate) period: i32,
}

impl QueryScale {
    fn at(self, place: i32) -> f32 {
        let periods = (place / self.period) as f32;
        1.0 + self.growth * periods.ln_1p()
    }

    /// Scales queries `[1, heads, tokens, head_dim]` of a step.
    pub(crate) fn apply(self, queries: Array, step: &Step<'_>) -> MlxResult<Array> {
        let (start, end) = (step.offset(), step.offset() + step.n_tokens());
        if end <= self.period {
            return Ok(queries);
        }
        let scales: Vec<f32> = (start..end).map(|place| self.at(place)).collect();
        let scales = Array::from_slice(&scales, &[end - start, 1]);
        match queries.dtype() {
            Dtype::Float32 => queries.multiply(scales),
            dtype => queries.multiply(scales.as_dtype(dtype)?),
        }
    }
}
