//! What the memory need of a model depends on, wired memory, and the release of unused memory.

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

/// Keeps all of MLX's memory on Metal wired until it is dropped, so that the system does not page out
/// weights between two steps. When no response runs, the system can drop the pages of weights.
pub(crate) struct WiredMemory;

impl WiredMemory {
    /// Wires at most `limit` bytes: what MLX has allocated, and what it allocates from now on.
    pub(crate) fn new(limit: usize) -> Self {
        set_wired_limit(limit);
        Self
    }
}

impl Drop for WiredMemory {
    fn drop(&mut self) {
        set_wired_limit(0);
    }
}

fn set_wired_limit(bytes: usize) {
    if let Err(error) = mlx_rs::memory::set_wired_limit(bytes) {
        tracing::warn!(%error, bytes, "cannot set the limit of wired memory");
    }
}

/// Returns free buffers to the system, which MLX and the C library keep for reuse, and lets it page
/// out the rest.
pub(crate) fn release_unused_memory() {
    set_wired_limit(0);
    if let Err(error) = mlx_rs::memory::clear_cache() {
        tracing::warn!(%error, "cannot clear MLX's allocator cache");
    }
    trim_heap();
}
