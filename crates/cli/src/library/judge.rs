//! Whether models fit on this machine, in the terms of the commands.
//!
//! Rule: every sum and verdict is `catalog`'s, which are those that hold at a load.

use transom_catalog::estimate::{
    Budget, DEFAULT_CONTEXT, Estimate, LEAST_CONTEXT, Machine, Room, Verdict, Wish, estimate,
};
use transom_catalog::fit::{KvChoice, kv_type};
use transom_catalog::measured::{Key, Record};
use transom_catalog::{Entry, Format, Installed, ModelFacts, Variant};
use transom_signals::Hardware;

use crate::library::Library;
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

    /// The variant of an entry that suits this machine: of those that fit, in the form that goes
    /// first here, as recommendations have it the one with the fewest bits, for from four on more
    /// bits cost memory and time and better little. Where none fits, the smallest.
    pub(crate) fn variant_for<'a>(&self, entry: &'a Entry) -> Option<&'a Variant> {
        self.variant_among(entry, &entry.variants.iter().collect::<Vec<_>>())
    }

    /// As [`Self::variant_for`], of these variants.
    pub(crate) fn variant_among<'a>(
        &self,
        entry: &Entry,
        variants: &[&'a Variant],
    ) -> Option<&'a Variant> {
        let first = self.first_format();
        let rank = |variant: &&&Variant| {
            let fit = self.fit_of(entry, variant);
            let fits = fit.is_some_and(|fit| is_comfortable(fit.verdict));
            let size_bytes = variant.size_bytes().unwrap_or(u64::MAX);
            (!fits, variant.format != first, size_bytes)
        };
        variants.iter().min_by_key(rank).copied()
    }

    /// The form that goes first on this machine.
    pub(crate) fn first_format(&self) -> Format {
        match self.machine.working_set_bytes {
            Some(_) => Format::Safetensors,
            None => Format::Gguf,
        }
    }
}

/// Whether there is room for more than a question with a page of text.
fn is_comfortable(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Fits => true,
        Verdict::FitsWithContext { context_length } => context_length >= 2 * LEAST_CONTEXT,
        Verdict::FitsIfOthersClose { .. } | Verdict::DoesNotFit { .. } => false,
    }
}

/// Tokens of context for `facts` when nothing was chosen.
pub(crate) fn usual_context(facts: &ModelFacts) -> u64 {
    let own = facts.context_length.filter(|&n| n > 0);
    own.unwrap_or(DEFAULT_CONTEXT).min(DEFAULT_CONTEXT)
}
