//! Estimates whether a model fits a machine and how fast it will be, before a download or a load,
//! corrected by measurements of earlier uses.
//!
//! Rule: the memory need is that of [`crate::fit`], which the engines use, and the budget that of
//! `transom_fit`, which the supervisor uses. So an estimate equals the decision at the load.

mod speed;
#[cfg(test)]
mod tests;

use serde::Serialize;
use transom_fit::{KvCacheChoice, default_parked_bytes};

pub use speed::Speed;
pub use transom_fit::{Budget, DEFAULT_CONTEXT, MIN_CONTEXT};

use crate::facts::ModelFacts;
use crate::fit;
use crate::machine::Machine;
use crate::measured::Record;

/// A model with its load settings, to be estimated.
#[derive(Debug, Clone, Copy)]
pub struct EstimateRequest<'a> {
    /// The variant that will run.
    pub facts: &'a ModelFacts,
    /// Type of the KV cache.
    pub kv: KvCacheChoice,
    /// Tokens of prompt and response together.
    pub context_length: u64,
    /// The draft model, if one is loaded as well.
    pub draft: Option<&'a ModelFacts>,
    /// Measurements of earlier uses of this variant on this machine.
    pub measured: Option<&'a Record>,
}

impl<'a> EstimateRequest<'a> {
    /// Returns a request with default settings.
    pub fn new(facts: &'a ModelFacts) -> Self {
        Self {
            facts,
            kv: KvCacheChoice::Automatic,
            context_length: DEFAULT_CONTEXT,
            draft: None,
            measured: None,
        }
    }
}

/// The memory that models may use, now or on an idle machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AvailableMemory {
    /// Bytes that models may use together, see [`Budget`].
    pub budget_bytes: u64,
    /// Bytes of the budget that loaded models use which will stay loaded.
    pub in_use_bytes: u64,
    /// Bytes that the system can give now without paging; `None` if unknown, as on another machine.
    pub available_bytes: Option<u64>,
}

impl AvailableMemory {
    /// Returns all of a budget, on a machine that runs nothing else.
    pub fn all_of(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            in_use_bytes: 0,
            available_bytes: None,
        }
    }
}

/// The bytes that a model needs, by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EstimatedNeed {
    /// Weights, in the form in which this machine computes with them.
    pub weight_bytes: u64,
    /// Keys, values and states with a full context; 0 if the files don't say enough.
    pub kv_cache_bytes: u64,
    /// Peak of the activations of a step.
    pub activation_bytes: u64,
    /// The whole draft model, with its own KV cache; 0 without one.
    pub draft_bytes: u64,
    /// Caches that are dropped when memory is short: freed buffers, and the states of earlier prompts.
    pub cache_bytes: u64,
    /// Measured bytes of earlier uses beyond the parts above, or below; 0 before the first use.
    pub correction_bytes: i64,
    /// Tokens of context that these bytes are for: the requested ones, at most the model's own.
    pub context_length: u64,
}

impl EstimatedNeed {
    /// Returns the sum of all parts.
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

/// Whether a model fits in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "fit", rename_all = "snake_case")]
pub enum EstimatedFit {
    /// It fits now.
    Fits,
    /// It fits with this context length, which is shorter than the requested one.
    FitsWithContext {
        /// Tokens, at least [`MIN_CONTEXT`].
        context_length: u64,
    },
    /// The machine is large enough, but other programs or models use too much memory now.
    FitsIfOthersClose {
        /// Bytes that they must free.
        needs_bytes_free: u64,
    },
    /// It doesn't fit on this machine.
    DoesNotFit {
        /// Bytes that are missing with the requested context length.
        missing_bytes: u64,
    },
}

impl EstimatedFit {
    /// Returns true if the model can be used on this machine at all.
    pub fn is_usable(&self) -> bool {
        !matches!(self, Self::DoesNotFit { .. })
    }
}

/// The estimate of a model on a machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The memory that it needs.
    pub need: EstimatedNeed,
    /// Bytes that the KV caches of other conversations may use in addition; 0 if there is no room for
    /// them. They never decide whether a model fits.
    pub parked_bytes: u64,
    /// The budget without the models that stay loaded.
    pub room_bytes: u64,
    /// Whether it fits.
    pub fit: EstimatedFit,
    /// The longest context that fits, in steps of 256 tokens, at most the model's own; `None` if not
    /// even the shortest one fits.
    pub context_that_fits: Option<u64>,
    /// Decode speed; `None` if the machine's memory bandwidth is unknown.
    pub speed: Option<Speed>,
    /// True if measurements of earlier uses corrected the need.
    pub is_corrected: bool,
}

/// Estimates `request` on `machine` with the `available` memory.
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
    let parked_bytes = default_parked_bytes(machine.memory_bytes);
    let fits_too = need.total_bytes().saturating_add(parked_bytes) <= room_bytes;
    Estimate {
        fit: estimated_fit(need.total_bytes(), available, context_that_fits),
        need,
        parked_bytes: if fits_too { parked_bytes } else { 0 },
        room_bytes,
        context_that_fits,
        speed: speed::speed(request, machine, need.context_length),
        is_corrected: need.correction_bytes != 0,
    }
}

/// Returns the memory that `request` needs with `context_length` tokens.
fn need(request: &EstimateRequest<'_>, machine: &Machine, context_length: u64) -> EstimatedNeed {
    let own = fit::need(request.facts, machine, request.kv, context_length);
    let draft = request.draft.map_or(0, |draft| {
        fit::need(draft, machine, request.kv, context_length).total_bytes()
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

fn estimated_fit(
    need_bytes: u64,
    available: &AvailableMemory,
    context_that_fits: Option<u64>,
) -> EstimatedFit {
    if need_bytes > available.budget_bytes {
        return match context_that_fits {
            Some(context_length) if context_length >= MIN_CONTEXT => {
                EstimatedFit::FitsWithContext { context_length }
            }
            _ => EstimatedFit::DoesNotFit {
                missing_bytes: need_bytes - available.budget_bytes,
            },
        };
    }
    let free = available
        .budget_bytes
        .saturating_sub(available.in_use_bytes);
    let free = free.min(available.available_bytes.unwrap_or(u64::MAX));
    match need_bytes.checked_sub(free) {
        None | Some(0) => EstimatedFit::Fits,
        Some(needs_bytes_free) => EstimatedFit::FitsIfOthersClose { needs_bytes_free },
    }
}
