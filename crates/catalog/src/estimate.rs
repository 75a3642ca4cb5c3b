//! Whether a model fits a machine, in plain verdicts with their numbers, and how fast it will be:
//! before a download, before a load, and corrected by what earlier uses measured.
//!
//! The bytes are those of [`crate::fit`], which the engines use; the budget is that of
//! `transom_fit`, which the supervisor uses. So what is said here is what is enforced at a load.

mod bandwidth;
mod machine;
mod speed;
#[cfg(test)]
mod tests;

use serde::Serialize;
use transom_fit::KvCacheChoice;

pub use bandwidth::{Bandwidth, BandwidthBasis};
pub use machine::Machine;
pub use speed::Speed;
pub use transom_fit::{Budget, DEFAULT_CONTEXT, LEAST_CONTEXT};

use crate::facts::ModelFacts;
use crate::fit;
use crate::measured::Record;

/// What is to be loaded.
#[derive(Debug, Clone, Copy)]
pub struct EstimateRequest<'a> {
    /// The form that will run.
    pub facts: &'a ModelFacts,
    /// How keys and values shall be kept.
    pub kv: KvCacheChoice,
    /// Tokens of prompt and answer together.
    pub context_length: u64,
    /// A smaller model that is loaded beside it and guesses for it.
    pub draft: Option<&'a ModelFacts>,
    /// What earlier uses of this form on this machine measured.
    pub measured: Option<&'a Record>,
}

impl<'a> EstimateRequest<'a> {
    /// A model as it is loaded when nothing was chosen.
    pub fn of(facts: &'a ModelFacts) -> Self {
        Self {
            facts,
            kv: KvCacheChoice::Automatic,
            context_length: DEFAULT_CONTEXT,
            draft: None,
            measured: None,
        }
    }
}

/// What there is for models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AvailableMemory {
    /// Bytes that models may use together, as of [`Budget`].
    pub budget_bytes: u64,
    /// Of it, what models take that are loaded and will stay.
    pub in_use_bytes: u64,
    /// Bytes that the system can give now without paging; `None` where nobody asked, as of another
    /// machine.
    pub available_bytes: Option<u64>,
}

impl AvailableMemory {
    /// All of a budget, on a machine that does nothing else.
    pub fn all_of(budget: &Budget) -> Self {
        Self {
            budget_bytes: budget.total_bytes,
            in_use_bytes: 0,
            available_bytes: None,
        }
    }
}

/// Bytes that a model needs, by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EstimatedNeed {
    /// Weights, as this machine computes with them.
    pub weight_bytes: u64,
    /// Keys, values and states with the context full; 0 where the files do not say enough.
    pub kv_cache_bytes: u64,
    /// What steps hold at once.
    pub activation_bytes: u64,
    /// All of the model that guesses, its own cache included; 0 without one.
    pub draft_bytes: u64,
    /// Caches that are kept while there is room: freed buffers, and what they hold of earlier
    /// prompts.
    pub cache_bytes: u64,
    /// What earlier uses took beyond the parts above, or less; 0 before the first.
    pub correction_bytes: i64,
    /// Tokens of context that these are for: what was wished for, at most the model's own.
    pub context_length: u64,
}

impl EstimatedNeed {
    /// All parts together.
    pub fn total_bytes(&self) -> u64 {
        let parts = [
            self.weight_bytes,
            self.kv_cache_bytes,
            self.activation_bytes,
            self.draft_bytes,
            self.cache_bytes,
        ];
        fit::sum(&parts).saturating_add_signed(self.correction_bytes)
    }
}

/// Whether a model fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum MemoryFit {
    /// As things are.
    Fits,
    /// With so many tokens of context, fewer than were wished for.
    FitsWithContext {
        /// At least [`LEAST_CONTEXT`].
        context_length: u64,
    },
    /// The machine is large enough, but other programs or models hold too much of it now.
    FitsIfOthersClose {
        /// Bytes that they must give back.
        needs_bytes_free: u64,
    },
    /// Not on this machine.
    DoesNotFit {
        /// Bytes that are missing, with the context wished for.
        missing_bytes: u64,
    },
}

impl MemoryFit {
    /// Whether it can be used on this machine at all.
    pub fn is_usable(&self) -> bool {
        !matches!(self, Self::DoesNotFit { .. })
    }
}

/// What is known of a model on a machine before it is loaded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// What it needs.
    pub need: EstimatedNeed,
    /// What there is for it: the budget, without what stays loaded.
    pub room_bytes: u64,
    /// Whether it fits.
    pub verdict: MemoryFit,
    /// The longest context that the machine has room for, in steps of 256 tokens up to the model's
    /// own; `None` if not even the shortest.
    pub context_that_fits: Option<u64>,
    /// Tokens a second of an answer; `None` where nothing is known of the machine's memory.
    pub speed: Option<Speed>,
    /// The need was corrected by what earlier uses measured.
    pub is_corrected: bool,
}

/// Estimates `request` on `machine`, where there is `room`.
pub fn estimate(
    request: &EstimateRequest<'_>,
    machine: &Machine,
    available: &AvailableMemory,
) -> Estimate {
    let need = need(request, machine, request.context_length);
    let takes = |n| self::need(request, machine, n).total_bytes();
    let context_that_fits = fit::longest(request.facts, |n| takes(n) <= available.budget_bytes);
    let room_bytes = available
        .budget_bytes
        .saturating_sub(available.in_use_bytes);
    Estimate {
        verdict: memory_fit(need.total_bytes(), available, context_that_fits),
        need,
        room_bytes,
        context_that_fits,
        speed: speed::speed(request, machine, need.context_length),
        is_corrected: need.correction_bytes != 0,
    }
}

/// What `request` needs with `context_length` tokens.
pub fn need(
    request: &EstimateRequest<'_>,
    machine: &Machine,
    context_length: u64,
) -> EstimatedNeed {
    let of_machine = machine.for_fit();
    let own = fit::need(request.facts, &of_machine, request.kv, context_length);
    let draft = request.draft.map_or(0, |draft| {
        fit::need(draft, &of_machine, request.kv, context_length).total_bytes()
    });
    let measured = request.measured;
    EstimatedNeed {
        weight_bytes: own.weight_bytes,
        kv_cache_bytes: own.kv_cache_bytes,
        activation_bytes: own.activation_bytes,
        draft_bytes: draft,
        cache_bytes: own.cache_bytes,
        correction_bytes: measured.map_or(0, |record| {
            record.correction(request.facts, machine, request.kv)
        }),
        context_length: own.context_length as u64,
    }
}

fn memory_fit(
    need_bytes: u64,
    available: &AvailableMemory,
    context_that_fits: Option<u64>,
) -> MemoryFit {
    if need_bytes > available.budget_bytes {
        return match context_that_fits {
            Some(context_length) if context_length >= LEAST_CONTEXT => {
                MemoryFit::FitsWithContext { context_length }
            }
            _ => MemoryFit::DoesNotFit {
                missing_bytes: need_bytes - available.budget_bytes,
            },
        };
    }
    let free = available
        .budget_bytes
        .saturating_sub(available.in_use_bytes);
    let free = free.min(available.available_bytes.unwrap_or(u64::MAX));
    match need_bytes.checked_sub(free) {
        None | Some(0) => MemoryFit::Fits,
        Some(needs_bytes_free) => MemoryFit::FitsIfOthersClose { needs_bytes_free },
    }
}
