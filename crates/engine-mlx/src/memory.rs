//! What the memory need of a model depends on, and the release of unused memory.

use std::path::Path;

use transom_catalog::ModelFacts;
use transom_engine::{EngineError, Limits, trim_heap};

use crate::models::ModelSize;

/// Reads the facts about the model in `folder` from the headers of its files.
pub(crate) fn facts(folder: &Path) -> Result<ModelFacts, EngineError> {
    transom_catalog::safetensors::facts(folder)
        .map_err(|error| EngineError::bad_file(error.path, error.fault))
}

pub(crate) fn context_length(size: &ModelSize, limits: &Limits) -> usize {
    size.context_length.min(limits.context_length).max(1)
}

/// Returns free buffers to the system, which MLX and the C library keep for reuse.
pub(crate) fn release_unused_memory() {
    if let Err(error) = mlx_rs::memory::clear_cache() {
        tracing::warn!(%error, "cannot clear MLX's allocator cache");
    }
    trim_heap();
}
