//! What a model will need in memory, computed from its files; and giving back what is free.
//!
//! The sum is the catalogue's (`transom_catalog::fit::mlx`), which people are shown before a load.
//! `tests/memory_need.rs` holds it against MLX's own count.

use std::path::Path;

use transom_catalog::ModelFacts;
use transom_catalog::fit::mlx;
use transom_engine::{EngineError, Limits, MemoryNeed};

use crate::config::bad;
use crate::device::Compute;
use crate::models::ModelSize;

/// Returns what the headers of the files in `folder` say.
pub(crate) fn facts(folder: &Path) -> Result<ModelFacts, EngineError> {
    transom_catalog::safetensors::facts(folder).map_err(|error| bad(&error.path, error.reason))
}

/// The need of the model with these facts.
pub(crate) fn memory_need(
    facts: &ModelFacts,
    size: &ModelSize,
    compute: Compute,
    limits: &Limits,
) -> MemoryNeed {
    let chunk = limits.prefill_chunk.min(compute.prefill_chunk());
    let context_length = context_length(size, limits);
    mlx::need(
        facts,
        compute.weights(),
        chunk as u64,
        context_length as u64,
    )
}

/// Tokens that a model attends to under `limits`.
pub(crate) fn context_length(size: &ModelSize, limits: &Limits) -> usize {
    size.context_length.min(limits.context_length).max(1)
}

/// Gives buffers that are free back to the system: MLX keeps them for reuse, and so does the C
/// library below it.
pub(crate) fn release_spare_memory() {
    if let Err(error) = mlx_rs::memory::clear_cache() {
        tracing::warn!(%error, "the allocator's cache could not be cleared");
    }
    trim_heap();
}

/// glibc serves even large blocks from its heap once it has seen some freed, and gives them back
/// only when told to (`man malloc_trim`).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "malloc_trim has no safe form in libc")]
fn trim_heap() {
    // SAFETY: it takes a number and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim_heap() {}
