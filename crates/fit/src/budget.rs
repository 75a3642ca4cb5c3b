//! The memory budget of a machine, and whether one more model fits into it.
//!
//! Unified memory is one pool: weights, KV caches, activations and droppable caches all count, and
//! so do the system and other programs. The budget is the least of what the GPU keeps in use
//! without slowing down, less a reserve, and of the memory less the system's headroom. The user's
//! figure replaces both, up or down (they may have raised the GPU's limit), but leaves the system
//! its least headroom whatever it says.

#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Serialize, Serializer};

use crate::{CONTEXT_STEP, LEAST_CONTEXT, MemoryNeed};

const GIB: u64 = 1 << 30;

/// Of the GPU's working set, what other programs' windows need.
const WORKING_SET_RESERVE_BYTES: u64 = GIB / 2;

/// Bytes that models may use together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The least of the bounds.
    pub total_bytes: u64,
    /// What it follows from.
    pub bounds: Vec<Bound>,
}

/// One of the bounds of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// What has this bound.
    #[serde(rename = "what")]
    pub kind: BoundKind,
    /// How much there is.
    pub of_bytes: u64,
    /// How much of it is left to the system and other programs.
    pub kept_bytes: u64,
    /// The rest, which is left to models.
    pub bytes: u64,
}

/// What bounds a budget. Shown and written as people call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundKind {
    /// The memory.
    Memory,
    /// What the GPU keeps in use without slowing down.
    WorkingSet,
    /// The user's own figure.
    Setting,
}

impl fmt::Display for BoundKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Memory => "memory",
            Self::WorkingSet => "GPU working set",
            Self::Setting => "your setting",
        })
    }
}

impl Serialize for BoundKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether a model fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As things are.
    Fits,
    /// Once models that can be unloaded are.
    FitsAfterEviction,
    /// With this many tokens of context, fewer than was asked for, once models that can be
    /// unloaded are.
    FitsWithContext(usize),
    /// Not within the budget.
    TooLarge {
        /// Tokens of context with which it would fit after all: fewer than are chosen without
        /// asking a person.
        context_that_fits: Option<usize>,
    },
}

impl Budget {
    /// Returns the budget of a machine by its memory, the working set of a GPU that shares the
    /// memory, and the user's own figure, if there are any.
    pub fn new(memory_bytes: u64, working_set_bytes: Option<u64>, setting: Option<u64>) -> Self {
        let bound = |kind, of_bytes: u64, kept_bytes| Bound {
            kind,
            of_bytes,
            kept_bytes,
            bytes: of_bytes.saturating_sub(kept_bytes),
        };
        let of_memory = |headroom| bound(BoundKind::Memory, memory_bytes, headroom);
        let bounds: Vec<Bound> = match setting {
            Some(wanted) => vec![
                bound(BoundKind::Setting, wanted, 0),
                of_memory(least_headroom_bytes(memory_bytes)),
            ],
            None => {
                let of_gpu = working_set_bytes
                    .map(|bytes| bound(BoundKind::WorkingSet, bytes, WORKING_SET_RESERVE_BYTES));
                let of_memory = of_memory(headroom_bytes(memory_bytes));
                [of_memory].into_iter().chain(of_gpu).collect()
            }
        };
        let total_bytes = bounds.iter().map(|bound| bound.bytes).min();
        Self {
            total_bytes: total_bytes.unwrap_or(0),
            bounds,
        }
    }
}

/// Decides whether a model with this `need` fits into `budget_bytes` beside `in_use_bytes`, which
/// other models take, and of which `evictable_bytes` could be freed.
pub fn decide(
    budget_bytes: u64,
    need: &MemoryNeed,
    in_use_bytes: u64,
    evictable_bytes: u64,
) -> Verdict {
    let wanted = need.total_bytes();
    if in_use_bytes.saturating_add(wanted) <= budget_bytes {
        return Verdict::Fits;
    }
    let staying = in_use_bytes.saturating_sub(evictable_bytes);
    if staying.saturating_add(wanted) <= budget_bytes {
        return Verdict::FitsAfterEviction;
    }
    match context_within(need, budget_bytes.saturating_sub(staying)) {
        Some(tokens) if tokens >= LEAST_CONTEXT as usize => Verdict::FitsWithContext(tokens),
        context_that_fits => Verdict::TooLarge { context_that_fits },
    }
}

/// What the system and other programs keep in any case: 2 GB, or half of a very small memory.
fn least_headroom_bytes(memory_bytes: u64) -> u64 {
    (2 * GIB).min(memory_bytes / 2)
}

/// What the system and other programs keep by default: a quarter of the memory, within 2 and 4 GB.
fn headroom_bytes(memory_bytes: u64) -> u64 {
    let quarter = memory_bytes / 4;
    quarter.clamp(least_headroom_bytes(memory_bytes), 4 * GIB)
}

/// The context length, below that of `need`, with which the model takes at most `room_bytes`. A KV
/// cache grows in proportion to its tokens (one that slides grows less, so this is never too much).
fn context_within(need: &MemoryNeed, room_bytes: u64) -> Option<usize> {
    let fixed = MemoryNeed {
        kv_cache_bytes: 0,
        ..*need
    };
    let room = room_bytes.checked_sub(fixed.total_bytes())?;
    let tokens = u128::from(room) * need.context_length as u128;
    let tokens = tokens.checked_div(u128::from(need.kv_cache_bytes))?;
    let step = CONTEXT_STEP as usize;
    let tokens = usize::try_from(tokens).ok()? / step * step;
    (tokens > 0 && tokens < need.context_length).then_some(tokens)
}
