//! Which models to recommend for a machine: one to talk with, one for programs, a small fast one,
//! and two that are loaded side by side.
//!
//! Rule: recommendations follow from the list and the machine alone, so the same list and machine
//! always give the same; each says why, in numbers. Nothing is recommended that does not fit, and the
//! variant is that of `choice`.

#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::choice::{self, EstimatedVariant};
use crate::entries::{Catalog, Entry, Tag, Variant};
use crate::estimate::{Estimate, Machine, MemoryFit};
use crate::facts::Format;

const GIB: u64 = 1 << 30;

/// Sizes of memory that the table shows.
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

/// What is recommended for a machine; `None` where nothing in the list fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recommendations {
    /// Bytes of memory of the machine.
    pub memory_bytes: u64,
    /// Bytes that models may use together.
    pub budget_bytes: u64,
    /// For conversation.
    pub chat: Option<Recommendation>,
    /// For programs.
    pub code: Option<Recommendation>,
    /// Small and fast.
    pub small: Option<Recommendation>,
    /// Two at once.
    pub pair: Option<ModelPair>,
}

/// A recommended model, in the variant that suits the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recommendation {
    /// Id of the entry.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Form of the variant.
    pub format: Format,
    /// Packing of the variant.
    pub packing: String,
    /// Bytes to fetch, where the list knows.
    pub size_bytes: Option<u64>,
    /// What is known of it on the machine, alone, with 8,192 tokens of context.
    pub estimate: Estimate,
    /// Why this one.
    #[serde(rename = "why")]
    pub reason: RecommendationReason,
}

/// Two models that fit side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelPair {
    /// What they are together.
    pub kind: PairKind,
    /// The one that answers.
    pub main: Recommendation,
    /// The other one.
    pub second: Recommendation,
    /// Bytes that both need together.
    pub need_bytes: u64,
}

/// What two models are together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PairKind {
    /// The second guesses ahead for the main one.
    Draft,
    /// The second turns texts into vectors, to be found again.
    Embedding,
}

/// Why a model was chosen, for people to read in their own language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecommendationReason {
    /// The most capable that fits with room to spare and answers faster than people read.
    MostCapable,
    /// The most capable that fits; it may be slower than people read.
    MostCapableThoughSlow,
    /// The fastest of those that are good for more than a sentence.
    Fastest,
    /// Belongs to the main model.
    Companion,
}

/// What to recommend for a Mac with so much memory.
pub fn recommended_for_mac(memory_bytes: u64, catalog: &Catalog) -> Recommendations {
    recommended_for(&Machine::with_memory(memory_bytes), None, catalog)
}

/// What to recommend for `machine`; `setting` is a budget that somebody set.
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

/// Slowest answer that keeps up with a reader: some eight words a second are more than people read.
const READING_TOKENS_PER_SECOND: f64 = 8.0;

/// Slowest answer that people wait for.
const ACCEPTABLE_TOKENS_PER_SECOND: f64 = 3.0;

/// A small model is good for more than a sentence from this many parameters on.
const MIN_SMALL_PARAMETERS: u64 = 1_000_000_000;
/// And no longer small beyond.
const MAX_SMALL_PARAMETERS: u64 = 9_000_000_000;

/// All that a list candidates to a machine.
struct Recommender<'a> {
    machine: &'a Machine,
    budget_bytes: u64,
    catalog: &'a Catalog,
    /// Every entry that can be had and fits comfortably; the most capable come first.
    candidates: Vec<Candidate<'a>>,
}

/// An entry in the variant that suits the machine.
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

    /// Whether it fits with all the context that models are loaded with.
    fn fits_with_full_context(&self) -> bool {
        self.estimated.estimate.verdict == MemoryFit::Fits
    }

    /// The speed between the least and the most that is predicted, in tokens a second; `None` where
    /// nothing is known of the machine's memory.
    fn rate(&self) -> Option<f64> {
        let speed = self.estimated.estimate.speed;
        speed.map(|speed| (speed.low * speed.high).sqrt())
    }

    /// Whether it answers with at least so many tokens a second, as far as anybody knows.
    fn is_at_least(&self, tokens_per_second: f64) -> bool {
        self.rate().is_none_or(|rate| rate >= tokens_per_second)
    }

    /// How capable it is, as far as numbers tell: a mixture of experts lies between what it has and
    /// what a token uses.
    fn capability(&self) -> f64 {
        let numbers = &self.entry.architecture;
        let active = numbers.active_parameters.unwrap_or(numbers.parameters);
        (numbers.parameters as f64 * active as f64).sqrt()
    }

    fn pick(&self, reason: RecommendationReason) -> Recommendation {
        let variant = self.estimated.variant;
        Recommendation {
            id: self.entry.id.clone(),
            name: self.entry.name.clone(),
            format: variant.format,
            packing: variant.packing.clone(),
            size_bytes: variant.size_bytes(),
            estimate: self.estimated.estimate.clone(),
            reason,
        }
    }
}

impl<'a> Recommender<'a> {
    fn new(machine: &'a Machine, budget_bytes: u64, catalog: &'a Catalog) -> Self {
        let mut recommender = Self {
            machine,
            budget_bytes,
            catalog,
            candidates: Vec::new(),
        };
        let entries = catalog.entries.iter();
        let candidates =
            entries.filter_map(|entry| recommender.candidate(entry, &entry.variants, budget_bytes));
        recommender.candidates = candidates.collect();
        let by_capability =
            |a: &Candidate<'_>, b: &Candidate<'_>| b.capability().total_cmp(&a.capability());
        recommender.candidates.sort_by(by_capability);
        recommender
    }

    /// The one of `variants` of `entry` that suits the machine, if it fits comfortably within
    /// `room_bytes`.
    fn candidate(
        &self,
        entry: &'a Entry,
        variants: impl IntoIterator<Item = &'a Variant>,
        room_bytes: u64,
    ) -> Option<Candidate<'a>> {
        let estimated = choice::variant_among(entry, variants, self.machine, room_bytes)?;
        estimated
            .is_comfortable()
            .then_some(Candidate { entry, estimated })
    }

    /// The most capable for `tag` that is fast enough; on a machine too slow for all of them the
    /// fastest, which is the only one to be borne.
    fn most_capable(&self, tag: Tag) -> Option<Recommendation> {
        let candidates = || {
            self.candidates
                .iter()
                .filter(|candidate| candidate.is_for(tag))
        };
        let first = |rate| candidates().find(|candidate| candidate.is_at_least(rate));
        let slow = || {
            Some(
                first(ACCEPTABLE_TOKENS_PER_SECOND)?
                    .pick(RecommendationReason::MostCapableThoughSlow),
            )
        };
        let quick = first(READING_TOKENS_PER_SECOND)
            .map(|candidate| candidate.pick(RecommendationReason::MostCapable));
        quick.or_else(slow).or_else(|| fastest_of(candidates()))
    }

    fn fastest(&self) -> Option<Recommendation> {
        let is_small = |candidate: &&Candidate<'_>| {
            let parameters = candidate.entry.architecture.parameters;
            candidate.is_for(Tag::Chat)
                && (MIN_SMALL_PARAMETERS..MAX_SMALL_PARAMETERS).contains(&parameters)
        };
        fastest_of(self.candidates.iter().filter(is_small))
    }

    /// The most capable model that fits beside one that guesses for it; where none does, beside one
    /// that makes vectors.
    fn pair(&self) -> Option<ModelPair> {
        let is_main = |candidate: &&Candidate<'_>| {
            candidate.is_for(Tag::Chat) && candidate.fits_with_full_context()
        };
        let mains = || self.candidates.iter().filter(is_main);
        let with_draft = || {
            // Guesses are worth their memory only where it is known that answers are fast without.
            let is_fast = |main: &&Candidate<'_>| {
                main.rate()
                    .is_some_and(|rate| rate >= READING_TOKENS_PER_SECOND)
            };
            mains().filter(is_fast).find_map(|main| {
                let draft = self.draft_beside(main)?;
                Some(pair(PairKind::Draft, main, &draft))
            })
        };
        let with_embedding = || {
            let is_acceptable =
                |main: &&Candidate<'_>| main.is_at_least(ACCEPTABLE_TOKENS_PER_SECOND);
            mains().filter(is_acceptable).find_map(|main| {
                let embedding = self.embedding_beside(main)?;
                Some(pair(PairKind::Embedding, main, &embedding))
            })
        };
        with_draft().or_else(with_embedding)
    }

    /// What the budget leaves beside `main`.
    fn memory_left_by(&self, main: &Candidate<'_>) -> u64 {
        self.budget_bytes.saturating_sub(main.need_bytes())
    }

    /// The draft of `main` where both fit side by side, in the same form: one engine runs both.
    fn draft_beside(&self, main: &Candidate<'_>) -> Option<Candidate<'a>> {
        let draft = self.catalog.find(main.entry.draft.as_deref()?)?;
        let format = main.estimated.variant.format;
        let variants = draft.variants.iter().filter(|other| other.format == format);
        let candidate = self.candidate(draft, variants, self.memory_left_by(main));
        candidate.filter(Candidate::fits_with_full_context)
    }

    /// The first model of the list that makes vectors and fits beside `main`.
    fn embedding_beside(&self, main: &Candidate<'_>) -> Option<Candidate<'a>> {
        let left_bytes = self.memory_left_by(main);
        let entries = self.catalog.entries.iter();
        let mut embeddings = entries.filter(|entry| entry.tags.contains(&Tag::Embedding));
        embeddings.find_map(|entry| {
            let candidate = self.candidate(entry, &entry.variants, left_bytes);
            candidate.filter(Candidate::fits_with_full_context)
        })
    }
}

fn fastest_of<'a>(candidates: impl Iterator<Item = &'a Candidate<'a>>) -> Option<Recommendation> {
    let rate = |candidate: &Candidate<'_>| candidate.rate().unwrap_or(0.0);
    let fastest = candidates.max_by(|a, b| rate(a).total_cmp(&rate(b)));
    Some(fastest?.pick(RecommendationReason::Fastest))
}

fn pair(kind: PairKind, main: &Candidate<'_>, second: &Candidate<'_>) -> ModelPair {
    ModelPair {
        kind,
        need_bytes: main.need_bytes().saturating_add(second.need_bytes()),
        main: main.pick(RecommendationReason::MostCapable),
        second: second.pick(RecommendationReason::Companion),
    }
}
