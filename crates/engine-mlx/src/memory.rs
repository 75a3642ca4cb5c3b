//! What the memory need of a model depends on, and the release of unused memory.

use std::path::Path;

use transom_catalog::ModelFacts;
use transom_engine::{EngineError, Limits};

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

/// After some large blocks were freed, glibc allocates large blocks from its heap, too, and returns
/// them to the system only on request (`man malloc_trim`).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "malloc_trim has no safe form in libc")]
fn trim_heap() {
    // SAFETY: the call takes a number and is allowed at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim_heap() {}
