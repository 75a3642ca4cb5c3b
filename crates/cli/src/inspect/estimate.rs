//! Finds the model to estimate, and the draft model beside it: installed, in the catalog, or at a path.
//!
//! Rule: the estimate of an installed model uses its files and the measurements of earlier uses. For
//! another model it uses the catalog's data of the variant that suits the machine in question.

use std::path::Path;
use std::sync::Arc;

use transom_catalog::estimate::{
    DEFAULT_CONTEXT, Estimate, EstimateRequest, EstimatedFit, Machine, estimate,
};
use transom_catalog::model_files::format_of;
use transom_catalog::{Entry, Format, InstalledModel, ModelFacts, Variant, choice};
use transom_engine::KvCacheChoice;
use transom_library::{Library, is_path, variant_text};

use crate::inspect::InspectArgs;
use crate::inspect::report::{DraftModel, Part, PartKind, Report, Suggestion};
use crate::{Failure, Result};

/// The options of an estimate.
pub(super) struct Query<'a> {
    pub(super) args: &'a InspectArgs,
    /// The library on the machine in question.
    pub(super) library: &'a Library,
}

/// The model to estimate.
pub(super) struct Subject {
    title: String,
    form: String,
    facts: Arc<ModelFacts>,
    installed: Option<InstalledModel>,
    /// The catalog's id of its draft model.
    draft_id: Option<String>,
    unverified: Vec<String>,
}

impl Subject {
    /// Finds the model that `text` names.
    pub(super) fn find(text: &str, query: &Query<'_>) -> Result<Self> {
        let budget_bytes = query.library.machine().available_memory().budget_bytes;
        Self::of(text, None, budget_bytes, query)
    }

    /// Finds the draft model that `text` names, to be loaded beside this model: for the memory that is
    /// left, and in the same form if it has that, because one engine runs both.
    pub(super) fn draft_model(&self, text: &str, query: &Query<'_>) -> Result<Self> {
        let alone = self.estimate(query, None);
        let budget_bytes = query.library.machine().available_memory().budget_bytes;
        let left_bytes = budget_bytes.saturating_sub(alone.need.total_bytes());
        Self::of(text, Some(self.facts.format), left_bytes, query)
    }

    fn of(text: &str, form: Option<Format>, room_bytes: u64, query: &Query<'_>) -> Result<Self> {
        let library = query.library;
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
            "" => suited_variant(entry, form, library.machine().specs(), room_bytes),
            packing => Some(library.variant_named(entry, packing)?),
        };
        let Some(variant) = variant else {
            return Err(Failure::Model(format!(
                "{id} is part of Transom, but its files are not beside the program"
            )));
        };
        if variant.size_bytes().is_none() {
            return Err(Failure::Model(format!(
                "the list does not contain the size of {id} as {}",
                variant_text(variant.format, &variant.quantization)
            )));
        }
        let unverified = entry.unverified.iter().chain(&variant.unverified);
        Ok(Self {
            title: entry.name.clone(),
            form: variant_text(variant.format, &variant.quantization),
            facts: Arc::new(entry.facts(variant)),
            installed: None,
            draft_id: entry.draft.clone(),
            unverified: unverified.cloned().collect(),
        })
    }

    fn of_installed(
        model: InstalledModel,
        form: Option<Format>,
        library: &Library,
    ) -> Result<Self> {
        let mut paths = model.files.paths.iter();
        let path = paths.find(|path| form == Some(format_of(path)));
        let in_form = path.and_then(|path| model.facts_of(path).ok());
        let facts = match in_form {
            Some(facts) => facts,
            None => {
                let runnable = library.runnable_variant(&model);
                let (_, facts) = runnable.map_err(|error| Failure::Model(error.to_string()))?;
                facts
            }
        };
        let entry = model.entry(library.catalog()).map(|(entry, _)| entry);
        Ok(Self {
            title: entry.map_or(model.name(), |entry| &entry.name).to_owned(),
            form: variant_text(facts.format, &model.quantization(library.catalog())),
            draft_id: entry.and_then(|entry| entry.draft.clone()),
            facts,
            installed: Some(model),
            unverified: Vec::new(),
        })
    }

    /// Returns why `draft` is no useful draft model for this model, if that is known.
    pub(super) fn doubt(&self, draft: &Self) -> Option<String> {
        // Some vocabularies of the same tokenizer are padded to different lengths.
        const MAX_PADDING: u64 = 128;
        let sizes = self.facts.vocab_size.zip(draft.facts.vocab_size);
        let (title, other) = (&self.title, &draft.title);
        if sizes.is_some_and(|(own, its)| own.abs_diff(its) > MAX_PADDING) {
            return Some(format!(
                "{other} has another vocabulary than {title} and cannot be its draft model; this plans \
                 the memory of both."
            ));
        }
        (draft.facts.active_weight_bytes >= self.facts.active_weight_bytes).then(|| {
            format!(
                "{other} is no smaller than {title}, so it would gain nothing as its draft model."
            )
        })
    }

    fn estimate(&self, query: &Query<'_>, draft: Option<&Self>) -> Estimate {
        let (facts, machine) = (&*self.facts, query.library.machine());
        let kv = query.args.kv.map_or(KvCacheChoice::Automatic, Into::into);
        let installed = self.installed.as_ref();
        let wish = EstimateRequest {
            kv,
            context_length: query.args.context.unwrap_or(DEFAULT_CONTEXT),
            draft: draft.map(|draft| &*draft.facts),
            measured: installed.and_then(|model| query.library.record(model, facts, kv)),
            ..EstimateRequest::new(facts)
        };
        estimate(&wish, machine.specs(), machine.available_memory())
    }

    /// Returns the draft model that the catalog suggests, if both would fit.
    fn suggestion(&self, query: &Query<'_>) -> Option<Suggestion> {
        let id = self.draft_id.as_deref()?;
        let draft = self.draft_model(id, query).ok()?;
        let estimate = self.estimate(query, Some(&draft));
        (estimate.verdict == EstimatedFit::Fits).then(|| Suggestion {
            id: id.to_owned(),
            model: draft.title,
        })
    }

    /// Returns what it needs, with `draft` beside it, on the machine of this name.
    pub(super) fn report(self, draft: Option<Self>, query: &Query<'_>, machine: String) -> Report {
        let estimate = self.estimate(query, draft.as_ref());
        let need = &estimate.need;
        let corrected = need
            .activation_bytes
            .saturating_add_signed(need.correction_bytes);
        let part = |kind, bytes| Part { kind, bytes };
        Report {
            suggested_draft: match draft {
                Some(_) => None,
                None => self.suggestion(query),
            },
            draft: draft.map(|draft| DraftModel {
                model: draft.title,
                form: draft.form,
            }),
            model: self.title,
            form: self.form,
            machine,
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

/// Returns the variant of an entry for `machine`, in this form if there is one.
fn suited_variant<'a>(
    entry: &'a Entry,
    form: Option<Format>,
    machine: &Machine,
    room_bytes: u64,
) -> Option<&'a Variant> {
    let has_form = |variant: &&Variant| form.is_none_or(|form| variant.format == form);
    let in_form = entry.variants.iter().filter(has_form);
    let suited = choice::variant_among(entry, in_form, machine, room_bytes);
    let suited =
        suited.or_else(|| choice::variant_among(entry, &entry.variants, machine, room_bytes));
    suited.map(|suited| suited.variant)
}
