//! What the memory need of a model depends on, peaks of memory, wired memory, and the release of unused
//! memory.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use transom_catalog::ModelFacts;
use transom_engine::{EngineError, Limits, trim_heap};

use crate::error::MlxResult;
use crate::models::ModelSize;

/// The peak from the start of the load to the start of the current phase, in bytes. Like MLX's own count
/// it is that of the process.
static EARLIER_PEAK: AtomicU64 = AtomicU64::new(0);

/// Starts to count the peak, for a new model.
pub(crate) fn reset_peak() -> MlxResult<()> {
    mlx_rs::memory::reset_peak_memory()?;
    EARLIER_PEAK.store(0, Ordering::Relaxed);
    Ok(())
}

/// Ends a phase, such as prefill. Returns its peak in bytes, and counts that of the next phase anew.
pub(crate) fn end_phase() -> MlxResult<u64> {
    let peak = mlx_rs::memory::peak_memory()? as u64;
    EARLIER_PEAK.fetch_max(peak, Ordering::Relaxed);
    mlx_rs::memory::reset_peak_memory()?;
    Ok(peak)
}

/// Returns the peak since [`reset_peak`], in bytes.
pub(crate) fn peak() -> u64 {
    let peak = mlx_rs::memory::peak_memory().unwrap_or(0) as u64;
    EARLIER_PEAK.load(Ordering::Relaxed).max(peak)
}

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
