//! Converts MLX's exceptions to the engine's errors.

use mlx_rs::error::Exception;
use transom_engine::EngineError;

pub(crate) type MlxResult<T> = Result<T, Exception>;

pub(crate) trait Context<T> {
    /// Converts an MLX error to an [`EngineError::Backend`] of `operation`.
    fn during(self, operation: &str) -> Result<T, EngineError>;
}

impl<T> Context<T> for MlxResult<T> {
    fn during(self, operation: &str) -> Result<T, EngineError> {
        self.map_err(|exception| EngineError::backend(operation, exception.what()))
    }
}

/// A failed step of a response.
#[derive(Debug)]
pub(crate) enum StepError {
    /// The device failed, and arrays of the step may never be computed.
    Device(Exception),
    /// The constraint of the response failed; the caches are intact.
    Constraint(EngineError),
}

impl From<Exception> for StepError {
    fn from(exception: Exception) -> Self {
        Self::Device(exception)
    }
}

impl From<EngineError> for StepError {
    fn from(error: EngineError) -> Self {
        Self::Constraint(error)
    }
}
