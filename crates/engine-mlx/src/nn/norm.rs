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

/// How a checkpoint stores the weights of norms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NormWeights {
    /// As they are.
    Plain,
    /// Minus one.
    MinusOne,
}

impl NormWeights {
    /// Loads the norm at `path`, which has `size` features.
    pub(crate) fn load_norm(
        self,
        loader: &mut Loader<'_>,
        path: &str,
        size: i32,
        epsilon: f32,
    ) -> Result<RmsNorm, EngineError> {
        Ok(RmsNorm::new(self.load(loader, path, size)?, epsilon))
    }

    /// Loads the weight `[size]` of the norm at `path`.
    pub(crate) fn load(
        self,
        loader: &mut Loader<'_>,
        path: &str,
        size: i32,
    ) -> Result<Array, EngineError> {
        let stored = loader.vector(&format!("{path}.weight"), size)?;
        match self {
            Self::Plain => Ok(stored),
            Self::MinusOne => plus_one(&stored).during(path),
        }
    }
}

fn plus_one(weight: &Array) -> MlxResult<Array> {
    let one = Array::from_f32(1.0).as_dtype(weight.dtype())?;
    let weight = weight.add(&one)?;
    weight.eval()?;
    Ok(weight)
}
