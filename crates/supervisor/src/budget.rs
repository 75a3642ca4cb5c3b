//! What models may use together on this machine, and whether one more fits.
//!
//! Unified memory is one pool: weights, KV caches, activations and droppable caches all count, and
//! so do the system and other programs. The budget is the least of what the GPU keeps in use
//! without slowing down, less a reserve, and of the memory less the system's headroom. The user's
//! figure replaces both, up or down (they may have raised the GPU's limit), but leaves the system
//! its least headroom whatever it says.
//!
//! Rule: what is decided depends on numbers alone, and every number is a function below.

#[cfg(test)]
mod tests;

use serde::Serialize;
use transom_engine::MemoryNeed;
use transom_signals::{Hardware, MemoryPressure};

use crate::governor::Tuning;

const GIB: u64 = 1 << 30;

/// Of the GPU's working set, what other programs' windows need.
const WORKING_SET_RESERVE_BYTES: u64 = GIB / 2;

/// Fewest tokens of context that a model is loaded with unless a person chose fewer: below that, a
/// question with a page of text no longer fits.
const LEAST_CONTEXT: usize = 2048;

/// Context lengths are multiples of this, the step in which KV caches grow.
const CONTEXT_STEP: usize = 256;

/// Bytes that models may use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    total_bytes: u64,
}

/// One of the bounds of the budget, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// Of what: `memory`, `GPU working set`, `your setting`.
    pub what: String,
    /// How much there is.
    pub of_bytes: u64,
    /// How much of it is left to the system and other programs.
    pub kept_bytes: u64,
    /// The rest.
    pub bytes: u64,
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
    /// The budget of this machine under these settings.
    pub fn for_machine(hardware: &Hardware, tuning: &Tuning) -> Self {
        let bounds = Self::bounds(hardware, tuning);
        let total_bytes = bounds.iter().map(|bound| bound.bytes).min();
        Self {
            total_bytes: total_bytes.unwrap_or(0),
        }
    }

    /// What the budget follows from: it is the least of these.
    pub fn bounds(hardware: &Hardware, tuning: &Tuning) -> Vec<Bound> {
        let memory = hardware.memory_bytes;
        let bound = |what: &str, of_bytes: u64, kept_bytes: u64| Bound {
            what: what.to_owned(),
            of_bytes,
            kept_bytes,
            bytes: of_bytes.saturating_sub(kept_bytes),
        };
        let of_memory = |headroom| bound("memory", memory, headroom);
        match tuning.memory_budget_bytes {
            Some(wanted) => vec![
                bound("your setting", wanted, 0),
                of_memory(least_headroom_bytes(memory)),
            ],
            None => {
                let of_gpu = hardware.working_set_bytes;
                let of_gpu =
                    of_gpu.map(|bytes| bound("GPU working set", bytes, WORKING_SET_RESERVE_BYTES));
                let of_memory = of_memory(headroom_bytes(memory));
                [of_memory].into_iter().chain(of_gpu).collect()
            }
        }
    }

    /// Bytes that models may use together: all of the budget, three quarters of it at warning, half
    /// at critical.
    pub fn total_bytes(&self, pressure: MemoryPressure) -> u64 {
        let quarter = self.total_bytes / 4;
        match pressure {
            MemoryPressure::Normal => self.total_bytes,
            MemoryPressure::Warning => self.total_bytes - quarter,
            MemoryPressure::Critical => self.total_bytes - 2 * quarter,
        }
    }

    /// Whether a model with this `need` fits beside `in_use_bytes`, which other models take, and
    /// of which `evictable_bytes` could be freed.
    pub fn decide(
        &self,
        need: &MemoryNeed,
        in_use_bytes: u64,
        evictable_bytes: u64,
        pressure: MemoryPressure,
    ) -> Verdict {
        let total = self.total_bytes(pressure);
        let wanted = need.total_bytes();
        if in_use_bytes.saturating_add(wanted) <= total {
            return Verdict::Fits;
        }
        let staying = in_use_bytes.saturating_sub(evictable_bytes);
        if staying.saturating_add(wanted) <= total {
            return Verdict::FitsAfterEviction;
        }
        match context_within(need, total.saturating_sub(staying)) {
            Some(tokens) if tokens >= LEAST_CONTEXT => Verdict::FitsWithContext(tokens),
            context_that_fits => Verdict::TooLarge { context_that_fits },
        }
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
    let tokens = usize::try_from(tokens).ok()? / CONTEXT_STEP * CONTEXT_STEP;
    (tokens > 0 && tokens < need.context_length).then_some(tokens)
}
