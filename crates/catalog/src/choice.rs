//! Which form and packing of a model suits a machine: the one place where that is decided.
//!
//! What `recommendations` recommends, what `transom models install ID` fetches and what the app marks as best are
//! this choice. Rule: it follows from the model, the machine and the budget alone, never from what
//! other programs hold at the moment, so that it is the same tomorrow; and something is always
//! chosen, for what does not fit has to be told in numbers too.

#[cfg(test)]
mod tests;

use crate::entries::{Entry, Variant, bits_of};
use crate::estimate::{
    AvailableMemory, Estimate, EstimateRequest, LEAST_CONTEXT, Machine, MemoryFit, estimate,
};
use crate::facts::{Format, ModelFacts};

/// Four to five bits a weight are where quality stops falling; more only makes a model larger and
/// slower, fewer make it worse.
const SUFFICIENT_BITS: f64 = 4.0;

/// What most people fetch of a repository, which may have packings that unpack slowly beside it.
const DEFAULT_PACKING: &str = "Q4_K_M";

/// A variant of an entry, and what is known of it on a machine that does nothing else, as it is
/// loaded when nothing is chosen.
#[derive(Debug, Clone)]
pub struct EstimatedVariant<'a> {
    /// Of the entry.
    pub variant: &'a Variant,
    /// What its files will be.
    pub facts: ModelFacts,
    /// What it needs, and whether that fits.
    pub estimate: Estimate,
}

/// Files of which no more is known than this, as in a repository of the hub.
#[derive(Debug, Clone, Copy)]
pub struct RepositoryFiles<'a> {
    /// Their form.
    pub format: Format,
    /// By their name; empty where that does not tell.
    pub packing: &'a str,
    /// Bytes of all of them, where that is known.
    pub size_bytes: Option<u64>,
}

/// The variant of `entry` that suits `machine`, where models may use `budget_bytes` together; `None`
/// only of an entry without variants.
///
/// Of those with room for a conversation the one in the form that goes first on the machine, and of
/// these the smallest with at least four bits a weight. Where none has that room, the same of those
/// that can be used at all; where none can, of all.
pub fn variant_for<'a>(
    entry: &'a Entry,
    machine: &Machine,
    budget_bytes: u64,
) -> Option<EstimatedVariant<'a>> {
    variant_among(entry, &entry.variants, machine, budget_bytes)
}

/// As [`variant_for`], of these variants of the entry.
pub fn variant_among<'a>(
    entry: &Entry,
    variants: impl IntoIterator<Item = &'a Variant>,
    machine: &Machine,
    budget_bytes: u64,
) -> Option<EstimatedVariant<'a>> {
    let available = AvailableMemory {
        budget_bytes,
        in_use_bytes: 0,
        available_bytes: None,
    };
    let estimated = variants.into_iter().map(|variant| {
        let facts = entry.facts(variant);
        EstimatedVariant {
            estimate: estimate(&EstimateRequest::new(&facts), machine, &available),
            variant,
            facts,
        }
    });
    estimated.min_by_key(|estimated| estimated.rank(machine))
}

/// Which of `files` suits `machine`, where models may use `budget_bytes` together, as far as that can
/// be told without what is in them: weights have to fit, and `Q4_K_M` goes before what is about as
/// large. `None` only of no files.
pub fn files_among(
    files: &[RepositoryFiles<'_>],
    machine: &Machine,
    budget_bytes: u64,
) -> Option<usize> {
    let rank = |index: &usize| {
        let file = &files[*index];
        let fits = file.size_bytes.is_none_or(|bytes| bytes <= budget_bytes);
        Rank {
            headroom: match fits {
                true => Headroom::Comfortable,
                false => Headroom::None,
            },
            has_unknown_size: file.size_bytes.is_none(),
            is_unusual: file.packing != DEFAULT_PACKING,
            ..Rank::of_packing(file.format, file.packing, file.size_bytes, machine)
        }
    };
    (0..files.len()).min_by_key(rank)
}

impl EstimatedVariant<'_> {
    /// Whether it fits with room for more than a question with a page of text.
    pub fn is_comfortable(&self) -> bool {
        Headroom::of(self.estimate.verdict) == Headroom::Comfortable
    }

    fn rank(&self, machine: &Machine) -> Rank {
        let variant = self.variant;
        let bytes = Some(self.facts.weight_bytes);
        Rank {
            headroom: Headroom::of(self.estimate.verdict),
            has_unknown_size: variant.size_bytes().is_none(),
            ..Rank::of_packing(variant.format, &variant.packing, bytes, machine)
        }
    }
}

/// How well something suits; the least goes first, and the first field in which two differ decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    headroom: Headroom,
    /// Nobody says how large it is.
    has_unknown_size: bool,
    /// Not in the form that goes first on the machine.
    is_second_format: bool,
    has_few_bits: bool,
    is_unusual: bool,
    /// Of enough bits the fewest are best, of few the most.
    bytes: u64,
}

impl Rank {
    fn of_packing(format: Format, packing: &str, bytes: Option<u64>, machine: &Machine) -> Self {
        let has_few_bits = bits_of(format, packing).is_some_and(|bits| bits < SUFFICIENT_BITS);
        let bytes = bytes.unwrap_or(u64::MAX);
        Self {
            headroom: Headroom::Comfortable,
            has_unknown_size: false,
            is_second_format: format != machine.first_format(),
            has_few_bits,
            is_unusual: false,
            bytes: match has_few_bits {
                true => u64::MAX - bytes,
                false => bytes,
            },
        }
    }
}

/// What room a model leaves to a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Headroom {
    Comfortable,
    /// For little more than a question with a page of text.
    Tight,
    None,
}

impl Headroom {
    fn of(verdict: MemoryFit) -> Self {
        match verdict {
            MemoryFit::Fits => Self::Comfortable,
            MemoryFit::FitsWithContext { context_length }
                if context_length >= 2 * LEAST_CONTEXT =>
            {
                Self::Comfortable
            }
            MemoryFit::FitsWithContext { .. } | MemoryFit::FitsIfOthersClose { .. } => Self::Tight,
            MemoryFit::DoesNotFit { .. } => Self::None,
        }
    }
}
