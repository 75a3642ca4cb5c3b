//! A model that a person asks about: installed, in the catalog, or at a path. With a draft model beside
//! it.
//!
//! Rule: the estimate of an installed model uses its files and the measurements of earlier uses. For
//! another model it uses the catalog's data of the variant that suits this machine.

use std::path::Path;
use std::sync::Arc;

use transom_catalog::estimate::{DEFAULT_CONTEXT, Estimate, EstimateRequest, EstimatedFit};
use transom_catalog::machine::Machine;
use transom_catalog::model_files::format_of;
use transom_catalog::{Entry, Format, InstalledModel, ModelFacts, Variant, choice};

use crate::names::{LookupError, is_path, variant_text};
use crate::{Library, LoadSettings};

/// A model to estimate.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Display name, without the quantization.
    pub title: String,
    /// Format and quantization: `GGUF Q4_K_M`.
    pub form: String,
    /// What its files contain, according to themselves or to the catalog.
    pub facts: Arc<ModelFacts>,
    /// Keys of the catalog entry that were not verified.
    pub unverified: Vec<String>,
    installed: Option<InstalledModel>,
    /// The catalog's id of the draft model that makes it faster on this machine.
    draft_id: Option<String>,
}

impl Library {
    /// Finds the model that `text` names.
    ///
    /// # Errors
    /// [`LookupError`].
    pub fn subject(&self, text: &str) -> Result<Subject, LookupError> {
        self.find_subject(text, None, self.machine.available_memory().budget_bytes)
    }

    /// Finds the draft model that `text` names, to be loaded beside `main`: for the memory that is left,
    /// and in the same form if it has that, because one engine runs both.
    ///
    /// # Errors
    /// [`LookupError`].
    pub fn draft_subject(
        &self,
        main: &Subject,
        text: &str,
        settings: &LoadSettings,
    ) -> Result<Subject, LookupError> {
        let alone = self.estimate_subject(main, None, settings);
        let budget_bytes = self.machine.available_memory().budget_bytes;
        let left_bytes = budget_bytes.saturating_sub(alone.need.total_bytes());
        self.find_subject(text, Some(main.facts.format), left_bytes)
    }

    /// Estimates `main`, with `draft` loaded beside it.
    pub fn estimate_subject(
        &self,
        main: &Subject,
        draft: Option<&Subject>,
        settings: &LoadSettings,
    ) -> Estimate {
        let (facts, kv) = (&*main.facts, settings.kv_cache);
        let installed = main.installed.as_ref();
        let request = EstimateRequest {
            kv,
            context_length: settings
                .context_length
                .map_or(DEFAULT_CONTEXT, |n| n as u64),
            draft: draft.map(|draft| &*draft.facts),
            measured: installed.and_then(|model| self.record(model, facts, kv)),
            ..EstimateRequest::new(facts)
        };
        self.estimate_of(&request)
    }

    /// Returns the draft model that the catalog suggests for `main`, with its id, if both would fit.
    pub fn suggested_draft(
        &self,
        main: &Subject,
        settings: &LoadSettings,
    ) -> Option<(String, Subject)> {
        let id = main.draft_id.clone()?;
        let draft = self.draft_subject(main, &id, settings).ok()?;
        let estimate = self.estimate_subject(main, Some(&draft), settings);
        (estimate.fit == EstimatedFit::Fits).then_some((id, draft))
    }

    fn draft_id_of(&self, entry: &Entry) -> Option<String> {
        let memory_bytes = self.machine.specs().memory_bytes;
        let draft = self.catalog.draft_of(entry, memory_bytes);
        draft.map(|draft| draft.id.clone())
    }

    fn find_subject(
        &self,
        text: &str,
        form: Option<Format>,
        room_bytes: u64,
    ) -> Result<Subject, LookupError> {
        if is_path(text) || Path::new(text).exists() {
            return self.installed_subject(self.resolve(text)?, form);
        }
        let has_form =
            |model: &&&InstalledModel| form.is_some_and(|form| model.formats().contains(&form));
        let named = self.named(text);
        if let Some(model) = named.iter().find(has_form).or(named.first()) {
            return self.installed_subject((*model).clone(), form);
        }
        let (id, quantization) = text.split_once('@').unwrap_or((text, ""));
        let entry = self.catalog.find(id).ok_or_else(|| self.not_found(text))?;
        let variant = match quantization {
            "" => suited_variant(entry, form, self.machine.specs(), room_bytes),
            quantization => Some(self.variant_named(entry, quantization)?),
        };
        let Some(variant) = variant else {
            let reason =
                format!("{id} is part of Transom, but its files are not beside the program");
            let id = id.to_owned();
            return Err(LookupError::NoEstimate { id, reason });
        };
        let form = variant_text(variant.format, &variant.quantization);
        if variant.size_bytes().is_none() {
            let reason = format!("the list does not contain the size of {id} as {form}");
            let id = id.to_owned();
            return Err(LookupError::NoEstimate { id, reason });
        }
        let unverified = entry.unverified.iter().chain(&variant.unverified);
        Ok(Subject {
            title: entry.name.clone(),
            form,
            facts: Arc::new(entry.facts(variant)),
            installed: None,
            draft_id: self.draft_id_of(entry),
            unverified: unverified.cloned().collect(),
        })
    }

    fn installed_subject(
        &self,
        model: InstalledModel,
        form: Option<Format>,
    ) -> Result<Subject, LookupError> {
        let mut paths = model.files.paths.iter();
        let path = paths.find(|path| form == Some(format_of(path)));
        let facts = match path.and_then(|path| model.facts_of(path).ok()) {
            Some(facts) => facts,
            None => self.runnable_variant(&model)?.1,
        };
        let entry = model.entry(&self.catalog).map(|(entry, _)| entry);
        Ok(Subject {
            title: entry.map_or(model.name(), |entry| &entry.name).to_owned(),
            form: variant_text(facts.format, &model.quantization(&self.catalog)),
            draft_id: entry.and_then(|entry| self.draft_id_of(entry)),
            facts,
            installed: Some(model),
            unverified: Vec::new(),
        })
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
    choice::variant_among(entry, in_form, machine, room_bytes)
        .or_else(|| choice::variant_among(entry, &entry.variants, machine, room_bytes))
        .map(|suited| suited.variant)
}
