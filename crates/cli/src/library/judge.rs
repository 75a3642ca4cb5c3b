//! Whether models fit on this machine, in the terms of the commands.
//!
//! Rule: every sum, verdict and choice is `catalog`'s; sums and verdicts are those that hold at a load.

use transom_catalog::choice::{self, Files};
use transom_catalog::estimate::{Budget, Estimate, Machine, Room, Verdict, Wish, estimate};
use transom_catalog::fit::{KvChoice, kv_type};
use transom_catalog::measured::{Key, Record};
use transom_catalog::{Entry, Format, Installed, ModelFacts, Variant};
use transom_hub::Offer;
use transom_signals::Hardware;

use crate::library::{Library, form_text};
use crate::output::stats::bytes_text;

/// Whether a model will fit in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fit {
    /// In a word.
    pub(crate) verdict: Verdict,
    /// What it needs, or of a model of the hub its weights alone.
    pub(crate) need_bytes: u64,
    /// What there is for models.
    pub(crate) room_bytes: u64,
    /// Tokens of context that this is for; `None` where only the weights are known.
    pub(crate) context_length: Option<u64>,
}

impl Fit {
    /// Whether it fits, with the numbers.
    pub(crate) fn text(&self) -> String {
        let (need, room) = (bytes_text(self.need_bytes), bytes_text(self.room_bytes));
        let context = match self.context_length {
            Some(n) => format!(" with a context of {n} tokens"),
            None => " for the weights alone".to_owned(),
        };
        let numbers = format!("needs {need} of {room}{context}");
        match self.verdict {
            Verdict::Fits => format!("fits: {numbers}"),
            Verdict::FitsWithContext { context_length } => {
                format!("fits with a context of {context_length} tokens: {numbers}")
            }
            Verdict::FitsIfOthersClose { needs_bytes_free } => format!(
                "fits if other apps give {} back: {numbers}",
                bytes_text(needs_bytes_free)
            ),
            Verdict::DoesNotFit { .. } => format!("does not fit: {numbers}"),
        }
    }
}

impl From<Estimate> for Fit {
    fn from(estimate: Estimate) -> Self {
        Self {
            verdict: estimate.verdict,
            need_bytes: estimate.need.total_bytes(),
            room_bytes: estimate.room_bytes,
            context_length: Some(estimate.need.context_length),
        }
    }
}

/// The machine as estimates see it.
pub(crate) fn machine_of(hardware: &Hardware, measured_bandwidth: Option<u64>) -> Machine {
    Machine::new(
        hardware.memory_bytes,
        hardware.working_set_bytes,
        &hardware.chip_name,
        measured_bandwidth,
    )
}

impl Library {
    /// All that models may use on this machine.
    pub(crate) fn room(&self) -> Room {
        Room::all_of(&Budget::of(&self.machine, None))
    }

    /// Whether a model with these facts fits as it is loaded when nothing is chosen.
    pub(crate) fn fit_of_facts(&self, facts: &ModelFacts, known: Option<&Record>) -> Fit {
        let wish = Wish {
            known,
            ..Wish::of(facts)
        };
        estimate(&wish, &self.machine, &self.room()).into()
    }

    /// Whether an installed model fits, in the form that goes first here.
    pub(crate) fn fit_of_installed(&self, model: &Installed) -> Option<Fit> {
        let facts = self.facts_that_run(model)?;
        let known = self.known(model, &facts, KvChoice::Automatic);
        Some(self.fit_of_facts(&facts, known))
    }

    /// What earlier uses measured of the form of an installed model that `facts` are of.
    pub(crate) fn known(
        &self,
        model: &Installed,
        facts: &ModelFacts,
        kv: KvChoice,
    ) -> Option<&Record> {
        let mut paths = model.forms.paths.iter();
        let path = paths.find(|path| transom_catalog::forms::format_of(path) == facts.format)?;
        let kv = kv_type(facts, &self.machine.for_fit(), kv);
        self.measured().of(&Key::of_path(path, facts.format, kv))
    }

    /// Whether a variant of an entry fits; `None` where the list does not say how large it is.
    pub(crate) fn fit_of(&self, entry: &Entry, variant: &Variant) -> Option<Fit> {
        variant.size_bytes()?;
        Some(self.fit_of_facts(&entry.facts(variant), None))
    }

    /// Whether weights of so many bytes fit, of a model of which nothing else is known.
    pub(crate) fn fit_of_weights(&self, bytes: u64) -> Fit {
        let room_bytes = self.room().budget_bytes;
        Fit {
            verdict: match bytes.checked_sub(room_bytes) {
                None | Some(0) => Verdict::Fits,
                Some(missing_bytes) => Verdict::DoesNotFit { missing_bytes },
            },
            need_bytes: bytes,
            room_bytes,
            context_length: None,
        }
    }

    /// The variant of an entry that suits this machine.
    pub(crate) fn variant_for<'a>(&self, entry: &'a Entry) -> Option<&'a Variant> {
        self.variant_among(entry, &entry.variants.iter().collect::<Vec<_>>())
    }

    /// As [`Self::variant_for`], of these variants.
    pub(crate) fn variant_among<'a>(
        &self,
        entry: &Entry,
        variants: &[&'a Variant],
    ) -> Option<&'a Variant> {
        let variants = variants.iter().copied();
        let suited =
            choice::variant_among(entry, variants, &self.machine, self.room().budget_bytes)?;
        Some(suited.variant)
    }

    /// Of what a repository of the hub has, what suits this machine; `None` only of nothing.
    pub(crate) fn offer_among<'a>(&self, offers: &'a [Offer]) -> Option<&'a Offer> {
        let files = offers.iter().map(|offer| Files {
            format: offer_format(offer),
            packing: &offer.packing,
            size_bytes: offer.size_bytes,
        });
        let files: Vec<Files<'_>> = files.collect();
        let place = choice::files_among(&files, &self.machine, self.room().budget_bytes)?;
        Some(&offers[place])
    }

    /// The form that goes first on this machine.
    pub(crate) fn first_format(&self) -> Format {
        self.machine.first_format()
    }
}

/// The form of what a repository has.
pub(crate) fn offer_format(offer: &Offer) -> Format {
    match offer.is_gguf {
        true => Format::Gguf,
        false => Format::Safetensors,
    }
}

/// The form of what a repository has, and how it is packed where its name tells: `GGUF Q4_K_M`, `MLX`.
pub(crate) fn offer_text(offer: &Offer) -> String {
    let packing = match offer.is_gguf {
        true => &*offer.packing,
        false => "",
    };
    form_text(offer_format(offer), packing)
}
