//! Which models to recommend for a machine: one to talk with, one for programs, a small fast one,
//! and two that are loaded side by side.
//!
//! Rule: recommendations follow from the list and the machine alone, so the same list and machine
//! always give the same; each says why, in numbers. Nothing is recommended that does not fit.

#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::entries::{Catalogue, Entry, Tag, Variant};
use crate::estimate::{Budget, Estimate, LEAST_CONTEXT, Machine, Room, Verdict, Wish, estimate};
use crate::facts::{Format, ModelFacts};

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
    let budget = Budget::of(machine, setting);
    let shop = Shop {
        machine,
        budget: &budget,
        catalogue,
    };
    let chat = shop.most_capable(|entry| entry.tags.contains(&Tag::Chat));
    Tier {
        memory_bytes: machine.memory_bytes,
        budget_bytes: budget.total_bytes,
        code: shop.most_capable(|entry| entry.tags.contains(&Tag::Code)),
        small: shop.fastest(),
        pair: shop.pair(),
        chat,
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

struct Shop<'a> {
    machine: &'a Machine,
    budget: &'a Budget,
    catalogue: &'a Catalogue,
}

/// An entry in one variant, and what is known of it here.
struct Offer<'a> {
    entry: &'a Entry,
    variant: &'a Variant,
    facts: ModelFacts,
    estimate: Estimate,
}

impl Offer<'_> {
    /// The speed between the least and the most that is predicted.
    fn rate(&self) -> f64 {
        let speed = self.estimate.speed;
        speed.map_or(0.0, |speed| (speed.low * speed.high).sqrt())
    }

    /// How capable it is, as far as numbers tell: a mixture of experts lies between what it has and
    /// what a token uses.
    fn capability(&self) -> f64 {
        let numbers = &self.entry.architecture;
        let active = numbers.active_parameters.unwrap_or(numbers.parameters);
        (numbers.parameters as f64 * active as f64).sqrt()
    }

    fn pick(self, why: Why) -> Pick {
        Pick {
            id: self.entry.id.clone(),
            name: self.entry.name.clone(),
            format: self.variant.format,
            packing: self.variant.packing.clone(),
            size_bytes: self.variant.size_bytes(),
            estimate: self.estimate,
            why,
        }
    }
}

impl<'a> Shop<'a> {
    /// Every entry of the list that can be had and fits, in the variant that suits the machine.
    fn offers(&self) -> impl Iterator<Item = Offer<'a>> {
        let entries = self.catalogue.entries.iter();
        entries.filter_map(|entry| self.offer(entry, self.budget.total_bytes))
    }

    /// The best-packed variant of `entry` that fits within `room_bytes`, of the form that goes first
    /// on this machine, else of the other.
    fn offer(&self, entry: &'a Entry, room_bytes: u64) -> Option<Offer<'a>> {
        let first = match self.machine.working_set_bytes {
            Some(_) => Format::Safetensors,
            None => Format::Gguf,
        };
        let room = Room {
            budget_bytes: room_bytes,
            taken_bytes: 0,
            available_bytes: None,
        };
        let fitting = entry.variants.iter().filter_map(|variant| {
            let facts = entry.facts(variant);
            let estimate = estimate(&Wish::of(&facts), self.machine, &room);
            let fits = match estimate.verdict {
                Verdict::Fits => true,
                Verdict::FitsWithContext { context_length } => context_length >= 2 * LEAST_CONTEXT,
                _ => false,
            };
            fits.then_some(Offer {
                entry,
                variant,
                facts,
                estimate,
            })
        });
        // Four to five bits are where quality stops falling; more only makes it slower, so the
        // smallest of each form is taken.
        fitting.min_by_key(|offer| (offer.variant.format != first, offer.facts.weight_bytes))
    }

    fn most_capable(&self, suits: impl Fn(&Entry) -> bool) -> Option<Pick> {
        let mut offers: Vec<Offer<'a>> = self.offers().filter(|offer| suits(offer.entry)).collect();
        offers.sort_by(|a, b| b.capability().total_cmp(&a.capability()));
        let keeps_up = |offer: &Offer<'_>, rate: f64| match offer.estimate.speed {
            Some(_) => offer.rate() >= rate,
            None => true,
        };
        let at = |rate| offers.iter().position(|offer| keeps_up(offer, rate));
        if let Some(index) = at(READING_TOKENS_PER_SECOND) {
            return Some(offers.swap_remove(index).pick(Why::MostCapable));
        }
        if let Some(index) = at(BEARABLE_TOKENS_PER_SECOND) {
            return Some(offers.swap_remove(index).pick(Why::MostCapableThoughSlow));
        }
        // On a machine too slow for all of them, the fastest is the only one to be borne.
        let fastest = offers
            .into_iter()
            .max_by(|a, b| a.rate().total_cmp(&b.rate()));
        Some(fastest?.pick(Why::Fastest))
    }

    fn fastest(&self) -> Option<Pick> {
        let is_small = |entry: &Entry| {
            let parameters = entry.architecture.parameters;
            entry.tags.contains(&Tag::Chat)
                && (LEAST_SMALL_PARAMETERS..MOST_SMALL_PARAMETERS).contains(&parameters)
        };
        let offers = self.offers().filter(|offer| is_small(offer.entry));
        let fastest = offers.max_by(|a, b| a.rate().total_cmp(&b.rate()));
        Some(fastest?.pick(Why::Fastest))
    }

    /// The most capable model that fits beside one that guesses for it; where none does, beside one
    /// that makes vectors.
    fn pair(&self) -> Option<Pair> {
        let mut mains: Vec<Offer<'a>> = self
            .offers()
            .filter(|offer| {
                let is_chat = offer.entry.tags.contains(&Tag::Chat);
                is_chat && offer.estimate.verdict == Verdict::Fits
            })
            .collect();
        mains.sort_by(|a, b| b.capability().total_cmp(&a.capability()));
        let total = self.budget.total_bytes;
        let beside = |main: &Offer<'a>, second: &'a Entry| {
            let left = total.checked_sub(main.estimate.need.total_bytes())?;
            let second = self.offer(second, left)?;
            (second.estimate.verdict == Verdict::Fits).then_some(second)
        };
        let drafted = mains.iter().position(|main| {
            let draft = main.entry.draft.as_deref();
            let draft = draft.and_then(|id| self.catalogue.find(id));
            main.rate() >= READING_TOKENS_PER_SECOND
                && draft.is_some_and(|draft| beside(main, draft).is_some())
        });
        if let Some(index) = drafted {
            let main = mains.swap_remove(index);
            let draft = self.catalogue.find(main.entry.draft.as_deref()?)?;
            let second = beside(&main, draft)?;
            return Some(pair(PairKind::Draft, main, second));
        }
        let is_embedding = |entry: &&Entry| entry.tags.contains(&Tag::Embedding);
        let embeddings: Vec<&'a Entry> =
            self.catalogue.entries.iter().filter(is_embedding).collect();
        let is_borne = |main: &Offer<'a>| {
            main.estimate.speed.is_none() || main.rate() >= BEARABLE_TOKENS_PER_SECOND
        };
        for main in mains.into_iter().filter(is_borne) {
            for &embedding in &embeddings {
                if let Some(second) = beside(&main, embedding) {
                    return Some(pair(PairKind::Embedding, main, second));
                }
            }
        }
        None
    }
}

fn pair(kind: PairKind, main: Offer<'_>, second: Offer<'_>) -> Pair {
    let need = |offer: &Offer<'_>| offer.estimate.need.total_bytes();
    Pair {
        kind,
        need_bytes: need(&main).saturating_add(need(&second)),
        main: main.pick(Why::MostCapable),
        second: second.pick(Why::Companion),
    }
}
