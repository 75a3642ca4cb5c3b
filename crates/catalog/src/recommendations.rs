//! Recommends models for a machine: one for conversation, one for code, a small fast one, and two
//! that are loaded together.
//!
//! Rule: recommendations depend only on the catalog and the machine, so they are reproducible. Each
//! has a reason with numbers. Models that don't fit are never recommended, and `choice` decides the
//! variant.

#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::choice::{self, EstimatedVariant};
use crate::entries::{Catalog, Entry, Tag, Variant};
use crate::estimate::{Estimate, EstimatedFit};
use crate::facts::Format;
use crate::machine::Machine;

const GIB: u64 = 1 << 30;

/// The memory sizes for which recommendations are shown.
pub const MEMORY_SIZES: [u64; 9] = [
    8 * GIB,
    16 * GIB,
    24 * GIB,
    36 * GIB,
    48 * GIB,
    64 * GIB,
    96 * GIB,
    128 * GIB,
    192 * GIB,
];

/// The models that are recommended for a machine; `None` if no model of the catalog fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recommendations {
    /// Bytes of memory of the machine.
    pub memory_bytes: u64,
    /// Bytes that models may use together.
    pub budget_bytes: u64,
    /// For conversation.
    pub chat: Option<Recommendation>,
    /// For code.
    pub code: Option<Recommendation>,
    /// Small and fast.
    pub small: Option<Recommendation>,
    /// Two models that are loaded together.
    pub pair: Option<ModelPair>,
}

/// A recommended model, in the variant that suits the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recommendation {
    /// Id of the entry.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Format of the variant.
    pub format: Format,
    /// Quantization of the variant.
    pub quantization: String,
    /// Bytes to download, if known.
    pub size_bytes: Option<u64>,
    /// Its estimate as the only loaded model, with 8,192 tokens of context.
    pub estimate: Estimate,
    /// The reason for the recommendation.
    pub reason: RecommendationReason,
}

/// Two models that fit in memory together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelPair {
    /// The purpose of the pair.
    pub kind: PairKind,
    /// The model that responds.
    pub main: Recommendation,
    /// The other model.
    pub second: Recommendation,
    /// Bytes that both need together.
    pub need_bytes: u64,
}

/// The purpose of two models that are loaded together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum PairKind {
    /// The second is the draft model of the main one.
    Draft,
    /// The second makes embedding vectors for search.
    Embedding,
}

/// The reason for a recommendation, which shells translate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecommendationReason {
    /// The most capable model that fits comfortably and is faster than people read.
    MostCapable,
    /// The most capable model that fits; it may be slower than people read.
    MostCapableThoughSlow,
    /// The fastest model that can write more than a sentence.
    Fastest,
    /// The second model of a pair.
    Companion,
}

/// Returns the recommendations for a Mac with this much memory.
pub fn recommended_for_mac(memory_bytes: u64, catalog: &Catalog) -> Recommendations {
    recommended_for(&Machine::with_memory(memory_bytes), None, catalog)
}

/// Returns the recommendations for `machine`; `setting` is the user's own memory budget.
pub fn recommended_for(
    machine: &Machine,
    setting: Option<u64>,
    catalog: &Catalog,
) -> Recommendations {
    let budget_bytes = machine.budget(setting).total_bytes;
    let recommender = Recommender::new(machine, budget_bytes, catalog);
    Recommendations {
        memory_bytes: machine.memory_bytes,
        budget_bytes,
        chat: recommender.most_capable(Tag::Chat),
        code: recommender.most_capable(Tag::Code),
        small: recommender.fastest(),
        pair: recommender.pair(),
    }
}

/// The reading speed of people: about eight words per second are more than anyone reads.
const READING_TOKENS_PER_SECOND: f64 = 8.0;

/// The lowest speed that people accept.
const ACCEPTABLE_TOKENS_PER_SECOND: f64 = 3.0;

/// Number of parameters from which a small model can write more than a sentence.
const MIN_SMALL_PARAMETERS: u64 = 1_000_000_000;
/// Number of parameters from which a model is no longer small.
const MAX_SMALL_PARAMETERS: u64 = 9_000_000_000;

struct Recommender<'a> {
    machine: &'a Machine,
    budget_bytes: u64,
    catalog: &'a Catalog,
    /// All entries that can be downloaded and fit comfortably, the most capable first.
    candidates: Vec<Candidate<'a>>,
}

struct Candidate<'a> {
    entry: &'a Entry,
    estimated: EstimatedVariant<'a>,
}

impl Candidate<'_> {
    fn is_for(&self, tag: Tag) -> bool {
        self.entry.tags.contains(&tag)
    }

    fn need_bytes(&self) -> u64 {
        self.estimated.estimate.need.total_bytes()
    }

    fn fits_with_full_context(&self) -> bool {
        self.estimated.estimate.fit == EstimatedFit::Fits
    }

    /// Returns the geometric mean of the predicted speed range in tokens per second; `None` if the
    /// machine's memory bandwidth is unknown.
    fn rate(&self) -> Option<f64> {
        let speed = self.estimated.estimate.speed;
        speed.map(|speed| (speed.low * speed.high).sqrt())
    }

    fn is_as_fast_as(&self, tokens_per_second: f64) -> bool {
        self.rate().is_none_or(|rate| rate >= tokens_per_second)
    }

    /// Returns a number for how capable the model is: the geometric mean of its parameters and its active
    /// parameters, which differ in a mixture of experts.
    fn capability(&self) -> f64 {
        let numbers = &self.entry.architecture;
        let active = numbers.active_parameters.unwrap_or(numbers.parameters);
        (numbers.parameters as f64 * active as f64).sqrt()
    }

    fn recommend(&self, reason: RecommendationReason) -> Recommendation {
        let variant = self.estimated.variant;
        Recommendation {
            id: self.entry.id.clone(),
            name: self.entry.name.clone(),
            format: variant.format,
            quantization: variant.quantization.clone(),
            size_bytes: variant.size_bytes(),
            estimate: self.estimated.estimate.clone(),
            reason,
        }
    }
}

impl<'a> Recommender<'a> {
    fn new(machine: &'a Machine, budget_bytes: u64, catalog: &'a Catalog) -> Self {
        let fitting = catalog
            .entries
            .iter()
            .filter_map(|entry| candidate(entry, &entry.variants, machine, budget_bytes));
        let mut candidates: Vec<Candidate<'_>> = fitting.collect();
        candidates.sort_by(|a, b| b.capability().total_cmp(&a.capability()));
        Self {
            machine,
            budget_bytes,
            catalog,
            candidates,
        }
    }

    /// Returns the most capable model for `tag` that is fast enough; if all are too slow, the fastest.
    fn most_capable(&self, tag: Tag) -> Option<Recommendation> {
        let all = || self.candidates.iter();
        let candidates = || all().filter(|candidate| candidate.is_for(tag));
        let first = |rate, reason| {
            let first = candidates().find(|candidate| candidate.is_as_fast_as(rate));
            first.map(|candidate| candidate.recommend(reason))
        };
        let (quick, slow) = (READING_TOKENS_PER_SECOND, ACCEPTABLE_TOKENS_PER_SECOND);
        first(quick, RecommendationReason::MostCapable)
            .or_else(|| first(slow, RecommendationReason::MostCapableThoughSlow))
            .or_else(|| fastest_of(candidates()))
    }

    fn fastest(&self) -> Option<Recommendation> {
        let is_small = |candidate: &&Candidate<'_>| {
            let parameters = candidate.entry.architecture.parameters;
            candidate.is_for(Tag::Chat)
                && (MIN_SMALL_PARAMETERS..MAX_SMALL_PARAMETERS).contains(&parameters)
        };
        fastest_of(self.candidates.iter().filter(is_small))
    }

    /// Returns the most capable model that fits together with its draft model; if there is none, together
    /// with an embedding model.
    fn pair(&self) -> Option<ModelPair> {
        let is_main = |candidate: &&Candidate<'_>| {
            candidate.is_for(Tag::Chat) && candidate.fits_with_full_context()
        };
        let mains = || self.candidates.iter().filter(is_main);
        // A draft model is worth its memory only if responses are known to be fast without it.
        let is_fast = |main: &&Candidate<'_>| {
            let rate = main.rate();
            rate.is_some_and(|rate| rate >= READING_TOKENS_PER_SECOND)
        };
        let is_acceptable =
            |main: &&Candidate<'_>| main.is_as_fast_as(ACCEPTABLE_TOKENS_PER_SECOND);
        let with_draft = mains().filter(is_fast).find_map(|main| {
            let draft = self.draft_beside(main)?;
            Some(pair(PairKind::Draft, main, &draft))
        });
        with_draft.or_else(|| {
            mains().filter(is_acceptable).find_map(|main| {
                let embedding = self.embedding_beside(main)?;
                Some(pair(PairKind::Embedding, main, &embedding))
            })
        })
    }

    fn memory_left_by(&self, main: &Candidate<'_>) -> u64 {
        self.budget_bytes.saturating_sub(main.need_bytes())
    }

    /// Returns the draft model of `main` in the same format, if both fit. One engine runs both.
    fn draft_beside(&self, main: &Candidate<'_>) -> Option<Candidate<'a>> {
        let memory_bytes = self.machine.memory_bytes;
        let draft = self.catalog.draft_of(main.entry, memory_bytes)?;
        let format = main.estimated.variant.format;
        let variants = draft.variants.iter().filter(|other| other.format == format);
        let left_bytes = self.memory_left_by(main);
        let candidate = candidate(draft, variants, self.machine, left_bytes);
        candidate.filter(Candidate::fits_with_full_context)
    }

    /// Returns the first embedding model of the catalog that fits together with `main`.
    fn embedding_beside(&self, main: &Candidate<'_>) -> Option<Candidate<'a>> {
        let left_bytes = self.memory_left_by(main);
        let entries = self.catalog.entries.iter();
        let mut embeddings = entries.filter(|entry| entry.tags.contains(&Tag::Embedding));
        embeddings.find_map(|entry| {
            let candidate = candidate(entry, &entry.variants, self.machine, left_bytes);
            candidate.filter(Candidate::fits_with_full_context)
        })
    }
}

/// Returns the variant of `entry` that suits the machine, if it fits comfortably in `room_bytes`.
fn candidate<'a>(
    entry: &'a Entry,
    variants: impl IntoIterator<Item = &'a Variant>,
    machine: &Machine,
    room_bytes: u64,
) -> Option<Candidate<'a>> {
    let estimated = choice::variant_among(entry, variants, machine, room_bytes)?;
    estimated
        .is_comfortable()
        .then_some(Candidate { entry, estimated })
}

fn fastest_of<'a>(candidates: impl Iterator<Item = &'a Candidate<'a>>) -> Option<Recommendation> {
    let rate = |candidate: &Candidate<'_>| candidate.rate().unwrap_or(0.0);
    let fastest = candidates.max_by(|a, b| rate(a).total_cmp(&rate(b)));
    Some(fastest?.recommend(RecommendationReason::Fastest))
}

fn pair(kind: PairKind, main: &Candidate<'_>, second: &Candidate<'_>) -> ModelPair {
    ModelPair {
        kind,
        need_bytes: main.need_bytes().saturating_add(second.need_bytes()),
        main: main.recommend(RecommendationReason::MostCapable),
        second: second.recommend(RecommendationReason::Companion),
    }
}
