//! The models of this person on this machine, as every shell shows, loads and downloads them.
//!
//! A [`Library`] joins the catalog (the models that exist), the installed models and this machine
//! (what fits). Shells format its results and decide nothing about models, so the app, the command
//! line and the HTTP server give the same answer to the same question.
//!
//! Rule: a library is a snapshot. Create a new one to see changes. Reading one never fails: a file
//! that can't be read is left out, and its problem is returned.

pub mod benchmarks;
pub mod diagnostics;
mod disk;
pub mod download;
mod embedding;
mod estimates;
mod load;
mod machine;
mod names;
mod offer;
mod subject;
mod template;
#[cfg(feature = "test-support")]
pub mod test_support;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use transom_catalog::{installed, read_catalog};
use transom_signals::Hardware;
use transom_supervisor::settings::Settings;

pub use disk::DiskSpace;
pub use embedding::TextSide;
pub use load::{LoadSettings, UsageRecorder};
pub use machine::ThisMachine;
pub use names::{LookupError, format_name, is_path, is_repository, quantizations_of, variant_text};
pub use subject::Subject;
pub use template::{always_reasons, default_thinking, has_reasoning_marks, knows_names};

// Types of the catalog that shells show, so that they don't need the catalog itself.
pub use transom_catalog::entries::{FILE_NAME as CATALOG_FILE, Sampling, Tag};
pub use transom_catalog::estimate::{Estimate, EstimatedFit, Speed};
pub use transom_catalog::installed::{
    ADDED_FILE, AddedError, AddedModel, AddedModelsWatcher, MODELS_FOLDER, PARTS_FOLDER, Removal,
    RemoveError, add_paths, read_added, usable_model_at,
};
pub use transom_catalog::machine::{Bandwidth, BandwidthBasis, Machine};
pub use transom_catalog::model_files::looks_like_a_model;
pub use transom_catalog::recommendations::{
    MEMORY_SIZES, ModelPair, PairKind, Recommendation, RecommendationReason, Recommendations,
};
pub use transom_catalog::{
    Catalog, CatalogError, CatalogWatcher, Entry, FileError, Format, InstalledModel, ModelFacts,
    Origin, Places, Variant,
};

/// A snapshot of the models of a person on a machine.
#[derive(Debug)]
pub struct Library {
    catalog: Arc<Catalog>,
    places: Places,
    machine: ThisMachine,
    installed: OnceLock<Vec<InstalledModel>>,
}

impl Library {
    /// Joins a catalog, the places to search for models, and a machine. Searches for models when they
    /// are first needed.
    pub fn new(catalog: Arc<Catalog>, places: Places, machine: ThisMachine) -> Self {
        Self {
            catalog,
            places,
            machine,
            installed: OnceLock::new(),
        }
    }

    /// Reads the library of `data_folder` on the machine with this `hardware` and the user's memory
    /// budget. Returns the problems of files that the user may have edited: their own `models.toml`, the
    /// list of added models, and the settings. The rest of the library works without these files.
    pub fn open(data_folder: &Path, hardware: &Hardware) -> (Self, Vec<String>) {
        let (catalog, error) = read_catalog(data_folder.join(CATALOG_FILE));
        let error =
            error.map(|error| format!("{error}; your own catalog is left out until you fix it"));
        let added = installed::read_added(data_folder).err();
        let added = added.map(|error| format!("{error}; the models that you added are left out"));
        let (settings, damaged) = match Settings::read(data_folder) {
            Ok(settings) => (settings.unwrap_or_default(), None),
            Err(error) => (Settings::default(), Some(error.to_string())),
        };
        let machine = ThisMachine::read(hardware, data_folder, settings.memory_budget_bytes);
        let library = Self::new(catalog, Places::of(data_folder), machine);
        let problems = [error, added, damaged].into_iter().flatten();
        (library, problems.collect())
    }

    /// Returns a new snapshot of the installed models.
    pub fn refreshed(&self) -> Self {
        self.with_machine(self.machine.clone())
    }

    /// Returns the same models on another machine.
    pub fn with_machine(&self, machine: ThisMachine) -> Self {
        Self::new(self.catalog.clone(), self.places.clone(), machine)
    }

    /// Returns the catalog: the built-in one merged with the user's own.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns this machine.
    pub fn machine(&self) -> &ThisMachine {
        &self.machine
    }

    /// Returns all installed models, the starter first.
    pub fn installed(&self) -> &[InstalledModel] {
        self.installed.get_or_init(|| installed::list(&self.places))
    }

    /// Returns the folder for downloads; `None` without a data folder.
    pub fn models_folder(&self) -> Option<PathBuf> {
        let data_folder = self.places.data_folder.as_ref()?;
        Some(data_folder.join(MODELS_FOLDER))
    }

    /// Adds the model at `path` to the list of added models. It is used in place.
    ///
    /// # Errors
    /// [`AddedError`] if there is no text model at `path`, or the list can't be written.
    pub fn add(&self, path: &Path) -> Result<AddedModel, AddedError> {
        installed::add(path, &self.places)
    }

    /// Removes an added model from the list, with all models that were added by the same path, and keeps
    /// their files. Returns the number of the other models; `None` if the model was not added.
    ///
    /// # Errors
    /// [`AddedError`] if the list can't be written.
    pub fn forget(&self, model: &InstalledModel) -> Result<Option<usize>, AddedError> {
        let (Origin::Added { path }, Some(data_folder)) = (&model.origin, &self.places.data_folder)
        else {
            return Ok(None);
        };
        let others = self.installed().iter();
        let others = others.filter(|other| other.origin == model.origin && other.id != model.id);
        let n_others = others.count();
        installed::forget(data_folder, path)?;
        Ok(Some(n_others))
    }

    /// Returns what [`Self::remove`] would delete.
    ///
    /// # Errors
    /// [`RemoveError`] if the model is not in the models folder.
    pub fn removal(&self, model: &InstalledModel) -> Result<Removal, RemoveError> {
        installed::removal(model, &self.places)
    }

    /// Deletes the files of a model, and returns the bytes on the disk that this freed.
    ///
    /// # Errors
    /// [`RemoveError`].
    pub fn remove(&self, model: &InstalledModel) -> Result<u64, RemoveError> {
        installed::remove(model, &self.places)
    }

    /// Returns the starter that comes with the program, without a search for other models.
    pub fn starter(&self) -> Option<InstalledModel> {
        let starter = installed::starter_near(self.places.executable.as_deref()?)?;
        InstalledModel::at(&starter, Origin::Starter).ok()
    }

    /// Returns the model to use if nobody has chosen one: the starter, else the first installed one that
    /// generates text. Searches for other models only if there is no starter.
    pub fn default_model(&self) -> Option<InstalledModel> {
        // The starter is listed first.
        let generates = |model: &&InstalledModel| !self.is_embedder(model);
        let first = || self.installed().iter().find(generates).cloned();
        match self.installed.get() {
            Some(_) => first(),
            None => self.starter().or_else(first),
        }
    }

    /// Returns the installed model with the files of this variant.
    pub fn installed_variant(&self, entry: &Entry, variant: &Variant) -> Option<&InstalledModel> {
        self.installed().iter().find(|model| {
            let entry_and_variant = model.entry(&self.catalog);
            entry_and_variant.is_some_and(|(of, its)| of.id == entry.id && its == Some(variant))
        })
    }
}
