//! Which models to recommend for a machine: one to talk with, one for programs, a small fast one,
//! and two that are loaded side by side.
//!
//! Rule: recommendations follow from the list and the machine alone, so the same list and machine
//! always give the same; each says why, in numbers. Nothing is recommended that does not fit, and the
//! variant is that of `choice`.

#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::choice::{self, Suited};
use crate::entries::{Catalogue, Entry, Tag, Variant};
use crate::estimate::{Estimate, Machine, Verdict};
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
pub struct Tier {
    /// Bytes of memory of the machine.
    pub memory_bytes: u64,
    /// Bytes that models may use together.
    pub budget_bytes: u64,
    /// For conversation.
    pub chat: Option<Pick>,
    /// For programs.
    pub code: Option<Pick>,
    /// Small and fast.
    pub small: Option<Pick>,
    /// Two at once.
    pub pair: Option<Pair>,
}

/// A recommended model, in the variant that suits the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pick {
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
    pub why: Why,
}

/// Two models that fit side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// What they are together.
    pub kind: PairKind,
    /// The one that answers.
    pub main: Pick,
    /// The other one.
    pub second: Pick,
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
pub enum Why {
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
pub fn recommended(memory_bytes: u64, catalogue: &Catalogue) -> Tier {
    recommended_for(&Machine::with_memory(memory_bytes), None, catalogue)
}

/// What to recommend for `machine`; `setting` is a budget that somebody set.
pub fn recommended_for(machine: &Machine, setting: Option<u64>, catalogue: &Catalogue) -> Tier {
    let budget_bytes = machine.budget(setting).total_bytes;
    let shop = Shop::new(machine, budget_bytes, catalogue);
    Tier {
        memory_bytes: machine.memory_bytes,
        budget_bytes,
        chat: shop.most_capable(Tag::Chat),
        code: shop.most_capable(Tag::Code),
        small: shop.fastest(),
        pair: shop.pair(),
    }
}

/// Slowest answer that keeps up with a reader: some eight words a second are more than people read.
const READING_TOKENS_PER_SECOND: f64 = 8.0;

/// Slowest answer that people wait for.
const BEARABLE_TOKENS_PER_SECOND: f64 = 3.0;

/// A small model is good for more than a sentence from this many parameters on.
const LEAST_SMALL_PARAMETERS: u64 = 1_000_000_000;
/// And no longer small beyond.
const MOST_SMALL_PARAMETERS: u64 = 9_000_000_000;

/// All that a list offers to a machine.
struct Shop<'a> {
    machine: &'a Machine,
    budget_bytes: u64,
    catalogue: &'a Catalogue,
    /// Every entry that can be had and fits comfortably; the most capable come first.
    offers: Vec<Offer<'a>>,
}

/// An entry in the variant that suits the machine.
struct Offer<'a> {
    entry: &'a Entry,
    suited: Suited<'a>,
}

impl Offer<'_> {
    fn is_for(&self, tag: Tag) -> bool {
        self.entry.tags.contains(&tag)
    }

    fn need_bytes(&self) -> u64 {
        self.suited.estimate.need.total_bytes()
    }

    /// Whether it fits with all the context that models are loaded with.
    fn fits_whole(&self) -> bool {
        self.suited.estimate.verdict == Verdict::Fits
    }

    /// The speed between the least and the most that is predicted, in tokens a second; `None` where
    /// nothing is known of the machine's memory.
    fn rate(&self) -> Option<f64> {
        let speed = self.suited.estimate.speed;
        speed.map(|speed| (speed.low * speed.high).sqrt())
    }

    /// Whether it answers with at least so many tokens a second, as far as anybody knows.
    fn keeps_up(&self, tokens_per_second: f64) -> bool {
        self.rate().is_none_or(|rate| rate >= tokens_per_second)
    }

    /// How capable it is, as far as numbers tell: a mixture of experts lies between what it has and
    /// what a token uses.
    fn capability(&self) -> f64 {
        let numbers = &self.entry.architecture;
        let active = numbers.active_parameters.unwrap_or(numbers.parameters);
        (numbers.parameters as f64 * active as f64).sqrt()
    }

    fn pick(&self, why: Why) -> Pick {
        let variant = self.suited.variant;
        Pick {
            id: self.entry.id.clone(),
            name: self.entry.name.clone(),
            format: variant.format,
            packing: variant.packing.clone(),
            size_bytes: variant.size_bytes(),
            estimate: self.suited.estimate.clone(),
            why,
        }
    }
}

impl<'a> Shop<'a> {
    fn new(machine: &'a Machine, budget_bytes: u64, catalogue: &'a Catalogue) -> Self {
        let mut shop = Self {
            machine,
            budget_bytes,
            catalogue,
            offers: Vec::new(),
        };
        let entries = catalogue.entries.iter();
        let offers = entries.filter_map(|entry| shop.offer(entry, &entry.variants, budget_bytes));
        shop.offers = offers.collect();
        let by_capability =
            |a: &Offer<'_>, b: &Offer<'_>| b.capability().total_cmp(&a.capability());
        shop.offers.sort_by(by_capability);
        shop
    }

    /// The one of `variants` of `entry` that suits the machine, if it fits comfortably within
    /// `room_bytes`.
    fn offer(
        &self,
        entry: &'a Entry,
        variants: impl IntoIterator<Item = &'a Variant>,
        room_bytes: u64,
    ) -> Option<Offer<'a>> {
        let suited = choice::variant_among(entry, variants, self.machine, room_bytes)?;
        suited.is_comfortable().then_some(Offer { entry, suited })
    }

    /// The most capable for `tag` that is fast enough; on a machine too slow for all of them the
    /// fastest, which is the only one to be borne.
    fn most_capable(&self, tag: Tag) -> Option<Pick> {
        let offers = || self.offers.iter().filter(|offer| offer.is_for(tag));
        let first = |rate| offers().find(|offer| offer.keeps_up(rate));
        let slow = || Some(first(BEARABLE_TOKENS_PER_SECOND)?.pick(Why::MostCapableThoughSlow));
        let quick = first(READING_TOKENS_PER_SECOND).map(|offer| offer.pick(Why::MostCapable));
        quick.or_else(slow).or_else(|| fastest_of(offers()))
    }

    fn fastest(&self) -> Option<Pick> {
        let is_small = |offer: &&Offer<'_>| {
            let parameters = offer.entry.architecture.parameters;
            offer.is_for(Tag::Chat)
                && (LEAST_SMALL_PARAMETERS..MOST_SMALL_PARAMETERS).contains(&parameters)
        };
        fastest_of(self.offers.iter().filter(is_small))
    }

    /// The most capable model that fits beside one that guesses for it; where none does, beside one
    /// that makes vectors.
    fn pair(&self) -> Option<Pair> {
        let is_main = |offer: &&Offer<'_>| offer.is_for(Tag::Chat) && offer.fits_whole();
        let mains = || self.offers.iter().filter(is_main);
        let drafted = || {
            // Guesses are worth their memory only where it is known that answers are fast without.
            let is_quick = |main: &&Offer<'_>| {
                main.rate()
                    .is_some_and(|rate| rate >= READING_TOKENS_PER_SECOND)
            };
            mains().filter(is_quick).find_map(|main| {
                let draft = self.draft_beside(main)?;
                Some(pair(PairKind::Draft, main, &draft))
            })
        };
        let searched = || {
            let is_borne = |main: &&Offer<'_>| main.keeps_up(BEARABLE_TOKENS_PER_SECOND);
            mains().filter(is_borne).find_map(|main| {
                let embedding = self.embedding_beside(main)?;
                Some(pair(PairKind::Embedding, main, &embedding))
            })
        };
        drafted().or_else(searched)
    }

    /// What the budget leaves beside `main`.
    fn left_beside(&self, main: &Offer<'_>) -> u64 {
        self.budget_bytes.saturating_sub(main.need_bytes())
    }

    /// The draft of `main` where both fit side by side, in the same form: one engine runs both.
    fn draft_beside(&self, main: &Offer<'_>) -> Option<Offer<'a>> {
        let draft = self.catalogue.find(main.entry.draft.as_deref()?)?;
        let form = main.suited.variant.format;
        let variants = draft.variants.iter().filter(|one| one.format == form);
        let offer = self.offer(draft, variants, self.left_beside(main));
        offer.filter(Offer::fits_whole)
    }

    /// The first model of the list that makes vectors and fits beside `main`.
    fn embedding_beside(&self, main: &Offer<'_>) -> Option<Offer<'a>> {
        let left_bytes = self.left_beside(main);
        let entries = self.catalogue.entries.iter();
        let mut embeddings = entries.filter(|entry| entry.tags.contains(&Tag::Embedding));
        embeddings.find_map(|entry| {
            let offer = self.offer(entry, &entry.variants, left_bytes);
            offer.filter(Offer::fits_whole)
        })
    }
}

fn fastest_of<'a>(offers: impl Iterator<Item = &'a Offer<'a>>) -> Option<Pick> {
    let rate = |offer: &Offer<'_>| offer.rate().unwrap_or(0.0);
    let fastest = offers.max_by(|a, b| rate(a).total_cmp(&rate(b)));
    Some(fastest?.pick(Why::Fastest))
}

fn pair(kind: PairKind, main: &Offer<'_>, second: &Offer<'_>) -> Pair {
    Pair {
        kind,
        need_bytes: main.need_bytes().saturating_add(second.need_bytes()),
        main: main.pick(Why::MostCapable),
        second: second.pick(Why::Companion),
    }
}
