//! The models of this person on this machine, as every shell shows, loads and installs them.
//!
//! A [`Library`] joins the catalog (which models exist), the installed models (which are here) and
//! this machine (which fit). Shells format what it returns and decide nothing about models themselves,
//! so the app, the command line and the HTTP server give the same answer to the same question.
//!
//! Rule: a library is a snapshot. Make a new one to see what changed; reading one never fails, because
//! a file that can't be read is left out and its problem is returned beside it.

mod disk;
pub mod download;
mod estimates;
mod load;
mod machine;
mod names;
#[cfg(feature = "test-support")]
pub mod test_support;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use transom_catalog::{installed, read_catalog_file};
use transom_signals::Hardware;
use transom_supervisor::settings::Settings;

pub use disk::DiskSpace;
pub use load::{LoadSettings, UsageRecorder};
pub use machine::ThisMachine;
pub use names::{LookupError, format_name, is_path, is_repository, packings_of, variant_text};

// What shells show of models, so that they need not know the catalog.
pub use transom_catalog::entries::{FILE_NAME as CATALOG_FILE, Sampling, Tag};
pub use transom_catalog::estimate::{
    Bandwidth, BandwidthBasis, Estimate, Machine, MemoryFit, Speed,
};
pub use transom_catalog::installed::{
    ADDED_FILE, AddedError, AddedModel, AddedModelsWatcher, FreedSpace, MODELS_FOLDER,
    PARTS_FOLDER, Removal, RemoveError, add_paths, own_executable, read_added, starter_near,
    usable_model_at,
};
pub use transom_catalog::recommendations::{
    MEMORY_SIZES, ModelPair, PairKind, Recommendation, RecommendationReason, Recommendations,
};
pub use transom_catalog::{
    Catalog, CatalogError, CatalogWatcher, Entry, Format, InstalledModel, ModelFacts, Origin,
    Places, Variant,
};

/// A snapshot of the models of one person on one machine.
#[derive(Debug)]
pub struct Library {
    catalog: Arc<Catalog>,
    places: Places,
    machine: ThisMachine,
    installed: OnceLock<Vec<InstalledModel>>,
}

impl Library {
    /// Joins a catalog that was read, the places to look for models in, and a machine. Looks for
    /// models when they are first asked for.
    pub fn new(catalog: Arc<Catalog>, places: Places, machine: ThisMachine) -> Self {
        Self {
            catalog,
            places,
            machine,
            installed: OnceLock::new(),
        }
    }

    /// Reads the library of `data_folder` on the machine with this `hardware`, under the budget that the
    /// user chose. Returns the problems of files that the user may have edited: their own `models.toml`,
    /// the list of added models and the settings. The rest of the library works without them.
    pub fn open(data_folder: &Path, hardware: &Hardware) -> (Self, Vec<String>) {
        let (catalog, error) = read_catalog(data_folder);
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

    /// Returns the same library with the models that are installed now.
    pub fn refreshed(&self) -> Self {
        self.with_machine(self.machine.clone())
    }

    /// Returns the same models on another machine.
    pub fn with_machine(&self, machine: ThisMachine) -> Self {
        Self::new(self.catalog.clone(), self.places.clone(), machine)
    }

    /// Returns the models that exist: the built-in list with the user's own over it.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns where models are looked for.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Returns this machine.
    pub fn machine(&self) -> &ThisMachine {
        &self.machine
    }

    /// Returns every model that is installed, the starter first.
    pub fn installed(&self) -> &[InstalledModel] {
        self.installed.get_or_init(|| installed::list(&self.places))
    }

    /// Returns the folder that downloads go to; `None` without a data folder.
    pub fn models_folder(&self) -> Option<PathBuf> {
        let data_folder = self.places.data_folder.as_ref()?;
        Some(data_folder.join(MODELS_FOLDER))
    }

    /// Puts the model at `path` on the list of added models; it is used where it lies.
    ///
    /// # Errors
    /// [`AddedError`], if nothing there is a model for text, or the list can't be written.
    pub fn add(&self, path: &Path) -> Result<AddedModel, AddedError> {
        installed::add(path, &self.places)
    }

    /// Takes an added model off the list, with those that were added by the same path, and keeps their
    /// files. Returns how many others go with it; `None` if the model was not added.
    ///
    /// # Errors
    /// [`AddedError`], if the list can't be written.
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

    /// Returns what removing a model would delete.
    ///
    /// # Errors
    /// [`RemoveError`], if it does not lie in the models folder.
    pub fn removal(&self, model: &InstalledModel) -> Result<Removal, RemoveError> {
        installed::removal(model, &self.places)
    }

    /// Deletes the files of a model.
    ///
    /// # Errors
    /// [`RemoveError`].
    pub fn remove(&self, model: &InstalledModel) -> Result<FreedSpace, RemoveError> {
        installed::remove(model, &self.places)
    }

    /// Returns the starter that comes with the program, without looking for other models.
    pub fn starter(&self) -> Option<InstalledModel> {
        let executable = self.places.executable.clone().or_else(own_executable)?;
        InstalledModel::at(&starter_near(&executable)?, Origin::Starter).ok()
    }

    /// Returns the installed model that has the files of this variant.
    pub fn installed_variant(&self, entry: &Entry, variant: &Variant) -> Option<&InstalledModel> {
        self.installed().iter().find(|model| {
            let known = model.entry(&self.catalog);
            known.is_some_and(|(of, its)| of.id == entry.id && its == Some(variant))
        })
    }
}

/// Reads the built-in catalog with the user's own list over it. A error in that list leaves the
/// built-in catalog in force and is returned with its line.
fn read_catalog(data_folder: &Path) -> (Arc<Catalog>, Option<String>) {
    let built_in = Catalog::built_in();
    let file = data_folder.join(CATALOG_FILE);
    let merged = read_catalog_file(&file).and_then(|text| match text {
        Some(text) => built_in.merged_with(&text, &file).map(Arc::new),
        None => Ok(built_in.clone()),
    });
    match merged {
        Ok(merged) => (merged, None),
        Err(error) => {
            let problem = format!("{error}; your own list is left out until you fix it");
            (built_in, Some(problem))
        }
    }
}
