//! Estimates whether models fit on this machine and how fast they are, and suggests variants.
//!
//! The catalog computes and decides; this module chooses the facts, variants and measurements.

use std::path::Path;

use transom_catalog::choice::{self, RepositoryFiles};
use transom_catalog::estimate::{
    DEFAULT_CONTEXT, Estimate, EstimateRequest, EstimatedFit, Speed, estimate,
};
use transom_catalog::measured::Record;
use transom_catalog::model_files::format_of;
use transom_catalog::recommendations::{self, MEMORY_SIZES, Recommendations};
use transom_catalog::{Entry, FileError, Format, InstalledModel, ModelFacts, Variant};
use transom_hub::RepositoryVariant;
use transom_supervisor::KvCacheChoice;

use crate::{Library, LoadSettings, download};

impl Library {
    /// Estimates the variant of an installed model that runs on this machine, with these settings, and its
    /// draft model if both fit.
    ///
    /// # Errors
    /// The problem of its files, if none can be read.
    pub fn estimate(
        &self,
        model: &InstalledModel,
        settings: &LoadSettings,
    ) -> Result<Estimate, FileError> {
        let (path, facts) = self.runnable_variant(model)?;
        let kv = settings.kv_cache;
        let request = EstimateRequest {
            kv,
            context_length: settings
                .context_length
                .map_or(DEFAULT_CONTEXT, |n| n as u64),
            measured: self.machine.record(&facts, &path, kv),
            ..EstimateRequest::new(&facts)
        };
        let drafts = self.drafts_of(model);
        let draft = drafts
            .iter()
            .find(|(_, draft)| draft.format == facts.format);
        if let Some((_, draft)) = draft {
            let request = EstimateRequest {
                draft: Some(&**draft),
                ..request
            };
            let both = self.estimate_of(&request);
            if both.fit == EstimatedFit::Fits {
                return Ok(both);
            }
        }
        Ok(self.estimate_of(&request))
    }

    /// Predicts how fast the files at `path`, a variant of `model`, decode with a context of
    /// `context_length` tokens, half of it full. Uses no measurements of earlier uses, so that it can be
    /// compared with one. `None` if the memory bandwidth of this machine is not known.
    pub fn predicted_speed(
        &self,
        model: &InstalledModel,
        path: &Path,
        context_length: usize,
    ) -> Option<Speed> {
        let facts = model.facts_of(path).ok()?;
        let request = EstimateRequest {
            context_length: context_length as u64,
            ..EstimateRequest::new(&facts)
        };
        self.estimate_of(&request).speed
    }

    /// Estimates a variant of the catalog with default settings, corrected by measurements of an
    /// installed copy. `None` if its size is unknown.
    pub fn estimate_variant(&self, entry: &Entry, variant: &Variant) -> Option<Estimate> {
        variant.size_bytes()?;
        let facts = entry.facts(variant);
        let installed = self.installed_variant(entry, variant);
        let request = EstimateRequest {
            measured: installed
                .and_then(|model| self.record(model, &facts, KvCacheChoice::Automatic)),
            ..EstimateRequest::new(&facts)
        };
        Some(self.estimate_of(&request))
    }

    /// Returns the measurements of an installed model in the format of `facts`.
    pub fn record(
        &self,
        model: &InstalledModel,
        facts: &ModelFacts,
        kv: KvCacheChoice,
    ) -> Option<&Record> {
        let mut paths = model.files.paths.iter();
        let path = paths.find(|path| format_of(path) == facts.format)?;
        self.machine.record(facts, path, kv)
    }

    pub(crate) fn estimate_of(&self, request: &EstimateRequest<'_>) -> Estimate {
        estimate(
            request,
            self.machine.specs(),
            self.machine.available_memory(),
        )
    }

    /// Returns whether weights of this size fit, for a model of which nothing else is known.
    pub fn fit_of_weights(&self, bytes: u64) -> EstimatedFit {
        match bytes.checked_sub(self.machine.available_memory().budget_bytes) {
            None | Some(0) => EstimatedFit::Fits,
            Some(missing_bytes) => EstimatedFit::DoesNotFit { missing_bytes },
        }
    }

    /// Returns the variant to suggest: an installed one, else the one that suits this machine. `None`
    /// only for an entry without variants.
    pub fn suggested_variant<'a>(&self, entry: &'a Entry) -> Option<&'a Variant> {
        let is_installed = |variant: &&Variant| self.installed_variant(entry, variant).is_some();
        let installed = entry.variants.iter().filter(is_installed);
        let installed = self.variant_among(entry, installed);
        installed.or_else(|| self.variant_among(entry, &entry.variants))
    }

    /// Returns the one of these variants of an entry that suits this machine.
    pub fn variant_among<'a>(
        &self,
        entry: &Entry,
        variants: impl IntoIterator<Item = &'a Variant>,
    ) -> Option<&'a Variant> {
        let budget_bytes = self.machine.available_memory().budget_bytes;
        let estimated = choice::variant_among(entry, variants, self.machine.specs(), budget_bytes);
        estimated.map(|estimated| estimated.variant)
    }

    /// Returns the index of the offer of a repository to suggest: an installed one, else the one that
    /// suits this machine. `None` only if there are no offers.
    pub fn suggested_offer(&self, repository: &str, offers: &[RepositoryVariant]) -> Option<usize> {
        let is_installed =
            |place: &usize| self.installed_offer(repository, &offers[*place]).is_some();
        let installed: Vec<usize> = (0..offers.len()).filter(is_installed).collect();
        let places = match installed.is_empty() {
            true => (0..offers.len()).collect(),
            false => installed,
        };
        let files = places.iter().map(|place| RepositoryFiles {
            format: download::format_of(&offers[*place]),
            quantization: &offers[*place].quantization,
            size_bytes: offers[*place].size_bytes,
        });
        let files: Vec<RepositoryFiles<'_>> = files.collect();
        let budget_bytes = self.machine.available_memory().budget_bytes;
        let best = choice::files_among(&files, self.machine.specs(), budget_bytes);
        best.map(|best| places[best])
    }

    /// Returns the installed model that was downloaded as this offer of a repository.
    pub fn installed_offer(
        &self,
        repository: &str,
        offer: &RepositoryVariant,
    ) -> Option<&InstalledModel> {
        let is_it = |model: &&InstalledModel| {
            model.repository.as_deref() == Some(repository)
                && has_quantization(model, &offer.quantization)
        };
        self.installed().iter().find(is_it)
    }

    /// Returns the recommendations for this machine, under its budget.
    pub fn recommended(&self) -> Recommendations {
        let budget_bytes = self.machine.available_memory().budget_bytes;
        recommendations::recommended_for(self.machine.specs(), Some(budget_bytes), &self.catalog)
    }

    /// Returns the recommendations for Macs of every memory size, smallest first. This machine replaces
    /// the Mac with the same memory; compare `memory_bytes` to find it.
    pub fn recommended_by_memory(&self) -> Vec<Recommendations> {
        let own = self.recommended();
        let others = MEMORY_SIZES.into_iter();
        let others = others.filter(|bytes| *bytes != own.memory_bytes);
        let mut all: Vec<Recommendations> = others
            .map(|bytes| recommendations::recommended_for_mac(bytes, &self.catalog))
            .collect();
        all.push(own);
        all.sort_by_key(|recommended| recommended.memory_bytes);
        all
    }
}

/// Returns true if the name of a model's file contains this quantization. A folder has only one.
fn has_quantization(model: &InstalledModel, quantization: &str) -> bool {
    let file = model.id.file_name().unwrap_or_default().to_string_lossy();
    let is_file = model.formats().contains(&Format::Gguf);
    !is_file || file.to_lowercase().contains(&quantization.to_lowercase())
}
