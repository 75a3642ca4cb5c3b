//! The model that `transom fit` is asked about, and the one beside it: installed, in the list, or at a
//! path.
//!
//! Rule: an installed model is judged by its files and by what earlier uses measured, one that is not
//! by what the list says of the variant that suits the machine in question.

use std::path::Path;
use std::sync::Arc;

use transom_catalog::estimate::{
    DEFAULT_CONTEXT, Estimate, EstimateRequest, EstimatedFit, Machine, estimate,
};
use transom_catalog::model_files::format_of;
use transom_catalog::{Entry, Format, InstalledModel, ModelFacts, Variant, choice};
use transom_engine::KvCacheChoice;
use transom_library::{Library, is_path, variant_text};

use crate::failure::Failure;
use crate::fit::FitArgs;
use crate::fit::report::{Beside, Part, PartKind, Report, Suggestion};

/// What is asked, and of which machine.
pub(super) struct Case<'a> {
    pub(super) args: &'a FitArgs,
    /// On the machine that is asked about.
    pub(super) library: &'a Library,
}

/// A model that is asked about.
pub(super) struct Subject {
    title: String,
    form: String,
    facts: Arc<ModelFacts>,
    installed: Option<InstalledModel>,
    /// Id of the entry that may guess for it.
    draft: Option<String>,
    unverified: Vec<String>,
}

impl Subject {
    /// What `text` names.
    pub(super) fn find(text: &str, case: &Case<'_>) -> Result<Self, Failure> {
        Self::of(
            text,
            None,
            case.library.machine().available_memory().budget_bytes,
            case,
        )
    }

    /// What `text` names, to be loaded beside this model: in what room that leaves, and in the same
    /// form where it is there in that, for one engine runs both.
    pub(super) fn beside(&self, text: &str, case: &Case<'_>) -> Result<Self, Failure> {
        let alone = self.estimate(case, None);
        let budget_bytes = case.library.machine().available_memory().budget_bytes;
        let left_bytes = budget_bytes.saturating_sub(alone.need.total_bytes());
        Self::of(text, Some(self.facts.format), left_bytes, case)
    }

    fn of(
        text: &str,
        form: Option<Format>,
        room_bytes: u64,
        case: &Case<'_>,
    ) -> Result<Self, Failure> {
        let library = case.library;
        if is_path(text) || Path::new(text).exists() {
            return Self::of_installed(library.resolve(text)?, form, library);
        }
        let has_form =
            |model: &&&InstalledModel| form.is_some_and(|form| model.formats().contains(&form));
        let named = library.named(text);
        if let Some(model) = named.iter().find(has_form).or(named.first()) {
            return Self::of_installed((*model).clone(), form, library);
        }
        let (id, packing) = text.split_once('@').unwrap_or((text, ""));
        let Some(entry) = library.catalog().find(id) else {
            return Err(library.not_found(text).into());
        };
        let variant = match packing {
            "" => suited(entry, form, library.machine().specs(), room_bytes),
            packing => Some(library.variant_named(entry, packing)?),
        };
        let Some(variant) = variant else {
            return Err(Failure::Model(format!(
                "{id} comes with Transom, and is not beside the program"
            )));
        };
        if variant.size_bytes().is_none() {
            return Err(Failure::Model(format!(
                "the list does not say how large {id} is as {}",
                variant_text(variant.format, &variant.quantization)
            )));
        }
        let unverified = entry.unverified.iter().chain(&variant.unverified);
        Ok(Self {
            title: entry.name.clone(),
            form: variant_text(variant.format, &variant.quantization),
            facts: Arc::new(entry.facts(variant)),
            installed: None,
            draft: entry.draft.clone(),
            unverified: unverified.cloned().collect(),
        })
    }

    fn of_installed(
        model: InstalledModel,
        form: Option<Format>,
        library: &Library,
    ) -> Result<Self, Failure> {
        let mut paths = model.files.paths.iter();
        let path = paths.find(|path| form == Some(format_of(path)));
        let in_form = path.and_then(|path| model.facts_of(path).ok());
        let facts = match in_form {
            Some(facts) => facts,
            None => library.runnable_variant(&model).map_err(Failure::Model)?.1,
        };
        let entry = model.entry(library.catalog()).map(|(entry, _)| entry);
        Ok(Self {
            title: entry.map_or(model.name(), |entry| &entry.name).to_owned(),
            form: variant_text(facts.format, &model.quantization(library.catalog())),
            draft: entry.and_then(|entry| entry.draft.clone()),
            facts,
            installed: Some(model),
            unverified: Vec::new(),
        })
    }

    /// Why `draft` could not guess for this model, if that can be told.
    pub(super) fn doubt(&self, draft: &Self) -> Option<String> {
        // Some vocabularies of one tokenizer are filled up to different lengths.
        const FILLING: u64 = 128;
        let sizes = self.facts.vocab_size.zip(draft.facts.vocab_size);
        let (title, other) = (&self.title, &draft.title);
        if sizes.is_some_and(|(own, its)| own.abs_diff(its) > FILLING) {
            return Some(format!(
                "{other} has another vocabulary than {title} and cannot guess for it; this plans the \
                 memory of both."
            ));
        }
        (draft.facts.active_weight_bytes >= self.facts.active_weight_bytes).then(|| {
            format!("{other} is no smaller than {title}, so its guesses would gain nothing.")
        })
    }

    fn estimate(&self, case: &Case<'_>, draft: Option<&Self>) -> Estimate {
        let (facts, machine) = (&*self.facts, case.library.machine());
        let kv = case
            .args
            .kv
            .map_or(KvCacheChoice::Automatic, super::Kv::choice);
        let installed = self.installed.as_ref();
        let wish = EstimateRequest {
            kv,
            context_length: case.args.context.unwrap_or(DEFAULT_CONTEXT),
            draft: draft.map(|draft| &*draft.facts),
            measured: installed.and_then(|model| case.library.record(model, facts, kv)),
            ..EstimateRequest::new(facts)
        };
        estimate(&wish, machine.specs(), machine.available_memory())
    }

    /// The smaller model that the list names to guess for this one, where both would fit.
    fn suggestion(&self, case: &Case<'_>) -> Option<Suggestion> {
        let id = self.draft.as_deref()?;
        let draft = self.beside(id, case).ok()?;
        let estimate = self.estimate(case, Some(&draft));
        (estimate.verdict == EstimatedFit::Fits).then(|| Suggestion {
            id: id.to_owned(),
            model: draft.title,
        })
    }

    /// What it needs, with `draft` beside it, on the machine, which is `called` so.
    pub(super) fn report(self, draft: Option<Self>, case: &Case<'_>, called: String) -> Report {
        let estimate = self.estimate(case, draft.as_ref());
        let need = &estimate.need;
        let corrected = need
            .activation_bytes
            .saturating_add_signed(need.correction_bytes);
        let part = |kind, bytes| Part { kind, bytes };
        Report {
            suggested_draft: match draft {
                Some(_) => None,
                None => self.suggestion(case),
            },
            draft: draft.map(|draft| Beside {
                model: draft.title,
                form: draft.form,
            }),
            model: self.title,
            form: self.form,
            machine: called,
            room_bytes: estimate.room_bytes,
            context_length: need.context_length,
            parts: vec![
                part(PartKind::Weights, need.weight_bytes),
                part(PartKind::KvCache, need.kv_cache_bytes),
                part(PartKind::Working, corrected),
                part(PartKind::Draft, need.draft_bytes),
                part(PartKind::PrefixCache, need.cache_bytes),
            ],
            need_bytes: need.total_bytes(),
            is_corrected: estimate.is_corrected,
            verdict: estimate.verdict,
            longest_context: estimate.context_that_fits,
            model_context: self.facts.context_length,
            speed: estimate.speed,
            unverified: self.unverified,
        }
    }
}

/// The variant of an entry for `machine`, in this form if there is one.
fn suited<'a>(
    entry: &'a Entry,
    form: Option<Format>,
    machine: &Machine,
    room_bytes: u64,
) -> Option<&'a Variant> {
    let in_form = |one: &&Variant| form.is_none_or(|form| one.format == form);
    let in_form = entry.variants.iter().filter(in_form);
    let suited = choice::variant_among(entry, in_form, machine, room_bytes);
    let suited = suited.or_else(|| choice::variant_for(entry, machine, room_bytes));
    suited.map(|suited| suited.variant)
}
