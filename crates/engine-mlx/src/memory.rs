//! The memory that a model needs, and the release of unused memory.
//!
//! The estimate comes from `transom_catalog::fit::mlx`, so it equals the one that users see before
//! a load. `tests/memory_need.rs` compares it with the memory that MLX uses.

use std::path::Path;

use transom_catalog::ModelFacts;
use transom_catalog::fit::mlx;
use transom_engine::{EngineError, Limits, MemoryNeed};

use crate::config::bad_file;
use crate::device::Compute;
use crate::models::ModelSize;

/// Reads the facts about the model in `folder` from the headers of its files.
pub(crate) fn facts(folder: &Path) -> Result<ModelFacts, EngineError> {
    transom_catalog::safetensors::facts(folder)
        .map_err(|error| bad_file(&error.path, error.fault.to_string()))
}

/// Returns the memory need of the model with these facts.
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

/// Returns the context length of a model under `limits`.
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
