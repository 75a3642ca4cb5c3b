//! From MLX's exceptions to the engine's errors.

use mlx_rs::error::Exception;
use transom_engine::EngineError;

/// Result of MLX calls inside this room.
pub(crate) type MlxResult<T> = Result<T, Exception>;

/// Says what was being done when MLX failed.
pub(crate) trait Context<T> {
    /// Turns an MLX failure into an [`EngineError::Backend`] that names the work.
    fn during(self, work: &str) -> Result<T, EngineError>;
}

impl<T> Context<T> for MlxResult<T> {
    fn during(self, work: &str) -> Result<T, EngineError> {
        self.map_err(|exception| EngineError::Backend {
            during: work.to_owned(),
            message: exception.what().to_owned(),
        })
    }
}
