//! Chooses the format and quantization of a model that suits a machine.
//!
//! Recommendations, `transom models install ID` and the app's "best" mark all use this choice.
//!
//! Rule: the choice depends only on the model, the machine and the budget, never on what other
//! programs use now, so it is the same tomorrow. A variant is always chosen, even if none fits,
//! because the numbers of a model that doesn't fit are shown too.

#[cfg(test)]
mod tests;

use crate::entries::{Entry, Variant, bits_of};
use crate::estimate::{
    AvailableMemory, Estimate, EstimateRequest, EstimatedFit, MIN_CONTEXT, estimate,
};
use crate::facts::{Format, ModelFacts};
use crate::machine::Machine;

/// Quality falls below four to five bits per weight. More bits only make a model larger and slower;
/// fewer make it worse.
const SUFFICIENT_BITS: f64 = 4.0;

/// The quantization that most people download from a repository. Others of about the same size
/// may decode more slowly.
const DEFAULT_QUANTIZATION: &str = "Q4_K_M";

/// A variant of an entry, with its estimate for default settings on a machine that runs nothing else.
#[derive(Debug, Clone)]
pub struct EstimatedVariant<'a> {
    /// The variant of the entry.
    pub variant: &'a Variant,
    /// The facts that its files will have.
    pub facts: ModelFacts,
    /// The memory that it needs, and whether it fits.
    pub estimate: Estimate,
}

/// Model files in a repository of the hub, which were not downloaded yet.
#[derive(Debug, Clone, Copy)]
pub struct RepositoryFiles<'a> {
    /// Their format.
    pub format: Format,
    /// Quantization by their names; empty if the names don't say it.
    pub quantization: &'a str,
    /// Bytes of all of them, if known.
    pub size_bytes: Option<u64>,
}

/// Returns the one of these `variants` of `entry` that suits `machine`, if models may use
/// `budget_bytes` together; `None` only without variants.
///
/// Of the variants with room for a conversation, the machine's preferred format wins, and of those
/// the smallest variant with at least four bits per weight. If no variant has that room, the same
/// order applies to those that are usable, and if none is usable, to all.
pub fn variant_among<'a>(
    entry: &Entry,
    variants: impl IntoIterator<Item = &'a Variant>,
    machine: &Machine,
    budget_bytes: u64,
) -> Option<EstimatedVariant<'a>> {
    let available = AvailableMemory::all_of(budget_bytes);
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

/// Returns the index of the `files` that suit `machine`, if models may use `budget_bytes` together,
/// without knowing what is in them: weights must fit, and `Q4_K_M` wins over a similar size. `None`
/// only for an empty list.
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
            is_unusual: file.quantization != DEFAULT_QUANTIZATION,
            ..Rank::of_quantization(file.format, file.quantization, file.size_bytes, machine)
        }
    };
    (0..files.len()).min_by_key(rank)
}

impl EstimatedVariant<'_> {
    /// Returns true if the model fits with a context for more than a question with a page of text.
    pub fn is_comfortable(&self) -> bool {
        Headroom::of(self.estimate.fit) == Headroom::Comfortable
    }

    fn rank(&self, machine: &Machine) -> Rank {
        let variant = self.variant;
        let bytes = Some(self.facts.weight_bytes);
        Rank {
            headroom: Headroom::of(self.estimate.fit),
            has_unknown_size: variant.size_bytes().is_none(),
            ..Rank::of_quantization(variant.format, &variant.quantization, bytes, machine)
        }
    }
}

/// The rank of a variant. The lowest rank wins, and the first field that differs decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    headroom: Headroom,
    has_unknown_size: bool,
    /// It is not in the machine's preferred format.
    is_second_format: bool,
    has_few_bits: bool,
    is_unusual: bool,
    /// With sufficient bits, smaller is better; with few bits, larger is better.
    bytes: u64,
}

impl Rank {
    fn of_quantization(
        format: Format,
        quantization: &str,
        bytes: Option<u64>,
        machine: &Machine,
    ) -> Self {
        let has_few_bits = bits_of(format, quantization).is_some_and(|bits| bits < SUFFICIENT_BITS);
        let bytes = bytes.unwrap_or(u64::MAX);
        Self {
            headroom: Headroom::Comfortable,
            has_unknown_size: false,
            is_second_format: format != machine.preferred_format(),
            has_few_bits,
            is_unusual: false,
            bytes: match has_few_bits {
                true => u64::MAX - bytes,
                false => bytes,
            },
        }
    }
}

/// The room that a model leaves for a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Headroom {
    Comfortable,
    /// Room for little more than a question with a page of text.
    Tight,
    None,
}

impl Headroom {
    fn of(fit: EstimatedFit) -> Self {
        match fit {
            EstimatedFit::Fits => Self::Comfortable,
            EstimatedFit::FitsWithContext { context_length }
                if context_length >= 2 * MIN_CONTEXT =>
            {
                Self::Comfortable
            }
            EstimatedFit::FitsWithContext { .. } | EstimatedFit::FitsIfOthersClose { .. } => {
                Self::Tight
            }
            EstimatedFit::DoesNotFit { .. } => Self::None,
        }
    }
}
