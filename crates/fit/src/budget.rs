//! The memory budget of a machine, and whether one more model fits into it.
//!
//! Unified memory is one pool: weights, KV caches, activations and other caches all count, and so
//! do the system and other programs. The budget is the lower of two values: the working set of the
//! GPU less a reserve, and the memory less the headroom of the system. A budget that the user has
//! set replaces both, and may be higher (the user may have raised the limit of the GPU) or lower,
//! but always leaves the minimum headroom to the system.

#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

use crate::{CONTEXT_STEP, MIN_CONTEXT, MemoryNeed};

const GIB: u64 = 1 << 30;

/// The part of the GPU working set that the windows of other programs need.
const WORKING_SET_RESERVE_BYTES: u64 = GIB / 2;

/// The bytes that all models may use together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The lowest of the bounds.
    pub total_bytes: u64,
    /// The bounds from which the total follows.
    pub bounds: Vec<Bound>,
}

/// One of the bounds of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// The kind of bound.
    pub kind: BoundKind,
    /// Bytes that exist.
    pub capacity_bytes: u64,
    /// Bytes of these that are reserved for the system and other programs.
    pub reserved_bytes: u64,
    /// The remaining bytes, which models may use.
    pub bytes: u64,
}

/// What limits a budget. Displayed and serialized as readable text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum BoundKind {
    /// The memory of the machine.
    #[serde(rename = "memory")]
    Memory,
    /// The bytes that the GPU can use without slowing down.
    #[serde(rename = "GPU working set")]
    WorkingSet,
    /// The budget that the user has set.
    #[serde(rename = "your setting")]
    Setting,
}

impl fmt::Display for BoundKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

/// Whether a model fits into a memory budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryFit {
    /// Fits next to the loaded models.
    Fits,
    /// Fits after unloading models that can be unloaded.
    FitsAfterEviction,
    /// Fits with this context length, which is shorter than requested, after unloading models that
    /// can be unloaded.
    FitsWithContext(usize),
    /// Does not fit into the budget.
    DoesNotFit {
        /// The context length with which it would fit. It is shorter than [`MIN_CONTEXT`], so only
        /// the user may choose it.
        context_that_fits: Option<usize>,
    },
}

impl Budget {
    /// Returns the budget of a machine from its memory, the working set of a GPU that shares this
    /// memory, and the setting of the user, if there are any.
    pub fn new(memory_bytes: u64, working_set_bytes: Option<u64>, setting: Option<u64>) -> Self {
        let bound = |kind, capacity_bytes: u64, reserved_bytes| Bound {
            kind,
            capacity_bytes,
            reserved_bytes,
            bytes: capacity_bytes.saturating_sub(reserved_bytes),
        };
        let memory_bound = |headroom| bound(BoundKind::Memory, memory_bytes, headroom);
        let bounds: Vec<Bound> = match setting {
            Some(requested) => vec![
                bound(BoundKind::Setting, requested, 0),
                memory_bound(min_headroom_bytes(memory_bytes)),
            ],
            None => {
                let gpu_bound = working_set_bytes
                    .map(|bytes| bound(BoundKind::WorkingSet, bytes, WORKING_SET_RESERVE_BYTES));
                let memory_bound = memory_bound(headroom_bytes(memory_bytes));
                [memory_bound].into_iter().chain(gpu_bound).collect()
            }
        };
        let total_bytes = bounds.iter().map(|bound| bound.bytes).min();
        Self {
            total_bytes: total_bytes.unwrap_or(0),
            bounds,
        }
    }
}

/// Returns whether a model with this `need` fits into `budget_bytes`. Other models use
/// `in_use_bytes`, of which `evictable_bytes` can be freed.
pub fn memory_fit(
    budget_bytes: u64,
    need: &MemoryNeed,
    in_use_bytes: u64,
    evictable_bytes: u64,
) -> MemoryFit {
    let needed = need.total_bytes();
    if in_use_bytes.saturating_add(needed) <= budget_bytes {
        return MemoryFit::Fits;
    }
    let not_evictable = in_use_bytes.saturating_sub(evictable_bytes);
    if not_evictable.saturating_add(needed) <= budget_bytes {
        return MemoryFit::FitsAfterEviction;
    }
    match context_that_fits_in(need, budget_bytes.saturating_sub(not_evictable)) {
        Some(tokens) if tokens >= MIN_CONTEXT as usize => MemoryFit::FitsWithContext(tokens),
        context_that_fits => MemoryFit::DoesNotFit { context_that_fits },
    }
}

/// Returns the default limit on the KV caches of conversations that are not the current one: a
/// twentieth of the memory, or less below 16 GB, where it is at most 512 MB.
pub fn default_parked_bytes(memory_bytes: u64) -> u64 {
    match memory_bytes >= 16 * GIB {
        true => memory_bytes / 20,
        false => memory_bytes / 32,
    }
}

/// Returns the minimum headroom of the system and other programs: 2 GB, or half of a very small
/// memory.
fn min_headroom_bytes(memory_bytes: u64) -> u64 {
    (2 * GIB).min(memory_bytes / 2)
}

/// Returns the default headroom of the system and other programs: a quarter of the memory, but
/// between 2 and 4 GB.
fn headroom_bytes(memory_bytes: u64) -> u64 {
    let quarter = memory_bytes / 4;
    quarter.clamp(min_headroom_bytes(memory_bytes), 4 * GIB)
}

/// Returns the context length, shorter than that of `need`, with which the model needs at most
/// `available_bytes`. A KV cache grows in proportion to its tokens; one with a sliding window grows
/// less, so the result is never too large.
fn context_that_fits_in(need: &MemoryNeed, available_bytes: u64) -> Option<usize> {
    let fixed = MemoryNeed {
        kv_cache_bytes: 0,
        ..*need
    };
    let kv_bytes = available_bytes.checked_sub(fixed.total_bytes())?;
    let tokens = u128::from(kv_bytes) * need.context_length as u128;
    let tokens = tokens.checked_div(u128::from(need.kv_cache_bytes))?;
    let step = CONTEXT_STEP as usize;
    let tokens = usize::try_from(tokens).ok()? / step * step;
    (tokens > 0 && tokens < need.context_length).then_some(tokens)
}
