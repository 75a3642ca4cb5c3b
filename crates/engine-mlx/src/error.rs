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
