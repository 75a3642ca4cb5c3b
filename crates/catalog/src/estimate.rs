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
pub struct Wish<'a> {
    /// The form that will run.
    pub facts: &'a ModelFacts,
    /// How keys and values shall be kept.
    pub kv: KvCacheChoice,
    /// Tokens of prompt and answer together.
    pub context_length: u64,
    /// A smaller model that is loaded beside it and guesses for it.
    pub draft: Option<&'a ModelFacts>,
    /// What earlier uses of this form on this machine measured.
    pub known: Option<&'a Record>,
}

impl<'a> Wish<'a> {
    /// A model as it is loaded when nothing was chosen.
    pub fn of(facts: &'a ModelFacts) -> Self {
        Self {
            facts,
            kv: KvCacheChoice::Automatic,
            context_length: DEFAULT_CONTEXT,
            draft: None,
            known: None,
        }
    }
}

/// What there is for models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes that models may use together, as of [`Budget`].
    pub budget_bytes: u64,
    /// Of it, what models take that are loaded and will stay.
    pub taken_bytes: u64,
    /// Bytes that the system can give now without paging; `None` where nobody asked, as of another
    /// machine.
    pub available_bytes: Option<u64>,
}

impl Room {
    /// All of a budget, on a machine that does nothing else.
    pub fn all_of(budget: &Budget) -> Self {
        Self {
            budget_bytes: budget.total_bytes,
            taken_bytes: 0,
            available_bytes: None,
        }
    }
}

/// Bytes that a model needs, by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Need {
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

impl Need {
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
pub enum Verdict {
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

impl Verdict {
    /// Whether it can be used on this machine at all.
    pub fn is_usable(&self) -> bool {
        !matches!(self, Self::DoesNotFit { .. })
    }
}

/// What is known of a model on a machine before it is loaded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// What it needs.
    pub need: Need,
    /// What there is for it: the budget, without what stays loaded.
    pub room_bytes: u64,
    /// Whether it fits.
    pub verdict: Verdict,
    /// The longest context that the machine has room for, in steps of 256 tokens up to the model's
    /// own; `None` if not even the shortest.
    pub context_that_fits: Option<u64>,
    /// Tokens a second of an answer; `None` where nothing is known of the machine's memory.
    pub speed: Option<Speed>,
    /// The need was corrected by what earlier uses measured.
    pub is_corrected: bool,
}

/// Estimates `wish` on `machine`, where there is `room`.
pub fn estimate(wish: &Wish<'_>, machine: &Machine, room: &Room) -> Estimate {
    let need = need(wish, machine, wish.context_length);
    let takes = |n| self::need(wish, machine, n).total_bytes();
    let context_that_fits = fit::longest(wish.facts, |n| takes(n) <= room.budget_bytes);
    let room_bytes = room.budget_bytes.saturating_sub(room.taken_bytes);
    Estimate {
        verdict: verdict(need.total_bytes(), room, context_that_fits),
        need,
        room_bytes,
        context_that_fits,
        speed: speed::speed(wish, machine, need.context_length),
        is_corrected: need.correction_bytes != 0,
    }
}

/// What `wish` needs with `context_length` tokens.
pub fn need(wish: &Wish<'_>, machine: &Machine, context_length: u64) -> Need {
    let of_machine = machine.for_fit();
    let own = fit::need(wish.facts, &of_machine, wish.kv, context_length);
    let draft = wish.draft.map_or(0, |draft| {
        fit::need(draft, &of_machine, wish.kv, context_length).total_bytes()
    });
    let known = wish.known;
    Need {
        weight_bytes: own.weight_bytes,
        kv_cache_bytes: own.kv_cache_bytes,
        activation_bytes: own.activation_bytes,
        draft_bytes: draft,
        cache_bytes: own.cache_bytes,
        correction_bytes: known.map_or(0, |known| known.correction(wish.facts, machine, wish.kv)),
        context_length: own.context_length as u64,
    }
}

fn verdict(wanted: u64, room: &Room, context_that_fits: Option<u64>) -> Verdict {
    if wanted > room.budget_bytes {
        return match context_that_fits {
            Some(context_length) if context_length >= LEAST_CONTEXT => {
                Verdict::FitsWithContext { context_length }
            }
            _ => Verdict::DoesNotFit {
                missing_bytes: wanted - room.budget_bytes,
            },
        };
    }
    let free = room.budget_bytes.saturating_sub(room.taken_bytes);
    let free = free.min(room.available_bytes.unwrap_or(u64::MAX));
    match wanted.checked_sub(free) {
        None | Some(0) => Verdict::Fits,
        Some(needs_bytes_free) => Verdict::FitsIfOthersClose { needs_bytes_free },
    }
}
