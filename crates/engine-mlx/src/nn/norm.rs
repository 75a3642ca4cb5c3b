//! Root-mean-square normalization (Zhang and Sennrich 2019).

use mlx_rs::{Array, fast};
use transom_engine::EngineError;

use crate::error::{Context, MlxResult};
use crate::weights::Loader;

/// `x / rms(x) * weight` over the last axis.
#[derive(Debug)]
pub(crate) struct RmsNorm {
    weight: Array,
    epsilon: f32,
}

impl RmsNorm {
    /// Returns a norm with this weight `[features]`.
    pub(crate) fn new(weight: Array, epsilon: f32) -> Self {
        Self { weight, epsilon }
    }

    /// Maps `[…, features]` to the same shape.
    pub(crate) fn forward(&self, x: &Array) -> MlxResult<Array> {
        fast::rms_norm(x, Some(&self.weight), self.epsilon)
    }
}

/// What all norms of a model have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Norms {
    pub(crate) epsilon: f32,
    /// Whether the checkpoint stores the weights minus one.
    pub(crate) are_minus_one: bool,
}

impl Norms {
    /// Loads the norm at `path`, which has `size` features.
    pub(crate) fn load(
        self,
        loader: &mut Loader<'_>,
        path: &str,
        size: i32,
    ) -> Result<RmsNorm, EngineError> {
        let weight = self.load_weight(loader, path, size)?;
        Ok(RmsNorm::new(weight, self.epsilon))
    }

    /// Loads the weight `[size]` of the norm at `path`.
    pub(crate) fn load_weight(
        self,
        loader: &mut Loader<'_>,
        path: &str,
        size: i32,
    ) -> Result<Array, EngineError> {
        let stored = loader.vector(&format!("{path}.weight"), size)?;
        if self.are_minus_one {
            return plus_one(&stored).during(path);
        }
        Ok(stored)
    }
}

fn plus_one(weight: &Array) -> MlxResult<Array> {
    let one = Array::from_f32(1.0).as_dtype(weight.dtype())?;
    let weight = weight.add(&one)?;
    weight.eval()?;
    Ok(weight)
}
