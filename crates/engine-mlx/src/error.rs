//! Converts MLX's exceptions to the engine's errors.

use mlx_rs::error::Exception;
use transom_engine::EngineError;

/// Result of MLX calls inside this crate.
pub(crate) type MlxResult<T> = Result<T, Exception>;

/// Adds the operation that failed to an MLX error.
pub(crate) trait Context<T> {
    /// Converts an MLX error to an [`EngineError::Backend`] of `operation`.
    fn during(self, operation: &str) -> Result<T, EngineError>;
}

impl<T> Context<T> for MlxResult<T> {
    fn during(self, operation: &str) -> Result<T, EngineError> {
        self.map_err(|exception| EngineError::backend(operation, exception.what()))
    }
}
