//! Lists the models on this machine: the starter that comes with the program, those in the models
//! folder of the data folder, those that the user added by path, and those of other apps.
//!
//! Rule: listing never fails and loads no model. A folder that can't be read counts as empty, and a
//! model that can't be used is listed with its problem. Headers are read again only if files change.

mod added;
mod catalog_entry;
mod hugging_face;
mod llama_cpp;
mod ollama;
mod other_apps;
mod remove;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use added::{
    AddedError, AddedModel, AddedModelsWatcher, FILE_NAME as ADDED_FILE, add, add_paths, forget,
    read as read_added, usable_model_at,
};
pub use other_apps::{App, AppFolder, app_folders};
pub use remove::{Removal, RemoveError, removal, remove};

use crate::facts::{Format, ModelFacts};
use crate::facts_cache;
use crate::file_error::FileError;
use crate::model_files::{self, ModelFiles};
use crate::weight_files;

/// Name of the models folder in the data folder.
pub const MODELS_FOLDER: &str = "models";

/// Name of the folder for part files in the models folder: on the same disk as the models, and
/// hidden, so that it is never listed.
pub const PARTS_FOLDER: &str = ".downloads";

/// Levels of subfolders to search in a folder that the user added: `name` and `owner/name`.
const ADDED_DEPTH: usize = 2;
/// One level more in the models folder, for files in a folder of their repository.
const MODELS_DEPTH: usize = 3;

/// A model that was found, before its headers are read.
pub(crate) struct FoundModel {
    files: ModelFiles,
    /// `owner/name` on the hub, if the path says it.
    repository: Option<String>,
}

/// The places to search for models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// Path of the program, see [`own_executable`]; the starter is near it.
    pub executable: Option<PathBuf>,
    /// The data folder. Its folder `models` contains models, or folders of an owner's models, and its
    /// `added.json` the paths that the user added.
    pub data_folder: Option<PathBuf>,
    /// More files and folders to search, as if the user had added them.
    pub added: Vec<PathBuf>,
    /// Model folders of other apps, see [`app_folders()`].
    pub app_folders: Vec<AppFolder>,
}

impl Places {
    /// Returns the places for this program, its user and other apps. Reads the settings of other apps.
    pub fn of(data_folder: &Path) -> Self {
        Self {
            executable: own_executable(),
            data_folder: Some(data_folder.to_owned()),
            added: Vec::new(),
            app_folders: app_folders(),
        }
    }

    fn models_folder(&self) -> Option<PathBuf> {
        let data_folder = self.data_folder.as_ref()?;
        Some(model_files::absolute(&data_folder.join(MODELS_FOLDER)))
    }

    /// Returns what the user added; nothing if that list can't be read, which [`read_added`] reports.
    fn all_added(&self) -> Vec<PathBuf> {
        let added = self.data_folder.as_deref().map(added::read);
        let added = added.and_then(Result::ok).unwrap_or_default();
        [&*added, &*self.added].concat()
    }
}

/// The place where a model was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It came with the program.
    Starter,
    /// It is in the models folder.
    ModelsFolder,
    /// The user added it, or a folder that contains it.
    Added {
        /// The path that the user added.
        path: PathBuf,
    },
    /// It belongs to another app and is used in place.
    OtherApp {
        /// The app.
        app: App,
    },
}

/// A model on this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct InstalledModel {
    /// Absolute path of its folder or file, which identifies it in commands and settings. For a split
    /// file the first part.
    pub id: PathBuf,
    /// Its name and the paths of its variants.
    pub files: ModelFiles,
    /// The place where it was found.
    pub origin: Origin,
    /// The facts of the first variant that can be read, else the problem of the first one.
    pub facts: Result<Arc<ModelFacts>, FileError>,
    /// Bytes of all its files.
    pub size_bytes: u64,
    /// `owner/name` on the hub, if the path of its files says it.
    pub repository: Option<String>,
}

impl InstalledModel {
    /// Returns the model at `path`. If nothing exists there, it is a model with a problem.
    ///
    /// # Errors
    /// Those of [`model_files::of`].
    pub fn at(path: &Path, origin: Origin) -> Result<Self, FileError> {
        let files = model_files::of(path)?;
        let repository = cached_repository(&files.paths[0]);
        Ok(Self::new(FoundModel { files, repository }, origin))
    }

    /// Returns the model at `path` as [`list`] returns it for `places`, without reading other models.
    ///
    /// # Errors
    /// Those of [`model_files::of`].
    pub fn of_places(path: &Path, places: &Places) -> Result<Self, FileError> {
        let files = model_files::of(path)?;
        let id = files.paths[0].clone();
        let found = |repository| FoundModel { files, repository };
        let starter = places.executable.as_deref().and_then(starter_near);
        if starter.is_some_and(|starter| id.starts_with(starter)) {
            return Ok(Self::new(found(None), Origin::Starter));
        }
        if let Some(root) = places.models_folder().filter(|root| id.starts_with(root)) {
            let repository = repository_of(&id, &root);
            return Ok(Self::new(found(repository), Origin::ModelsFolder));
        }
        let mut added = places.all_added().into_iter();
        let added = added.find(|added| id.starts_with(model_files::absolute(added)));
        let of_app = |place: &AppFolder| {
            let is_there = id.starts_with(model_files::absolute(&place.folder));
            is_there.then(|| place.models().find(|model| model.id == id))?
        };
        if added.is_none()
            && let Some(model) = places.app_folders.iter().find_map(of_app)
        {
            return Ok(model);
        }
        let path = added.unwrap_or_else(|| path.to_owned());
        let repository = repository_of(&id, &model_files::absolute(&path));
        let found = found(repository.or_else(|| cached_repository(&id)));
        Ok(Self::new(found, Origin::Added { path }))
    }

    fn new(found: FoundModel, origin: Origin) -> Self {
        let FoundModel { files, repository } = found;
        let (first, others) = (&files.paths[0], &files.paths[1..]);
        let other = || others.iter().find_map(|path| facts_cache::facts(path).ok());
        Self {
            id: first.clone(),
            facts: facts_cache::facts(first).or_else(|problem| other().ok_or(problem)),
            size_bytes: facts_cache::size_bytes(&files.paths),
            files,
            origin,
            repository,
        }
    }

    /// Returns the name of its folder or file. [`Self::title`] is the display name.
    pub fn name(&self) -> &str {
        &self.files.name
    }

    /// Returns the facts of the variant at `path`. Variants may have different quantizations.
    ///
    /// # Errors
    /// The variant's problem.
    pub fn facts_of(&self, path: &Path) -> Result<Arc<ModelFacts>, FileError> {
        facts_cache::facts(path)
    }

    /// Returns the formats of its variants, each once.
    pub fn formats(&self) -> Vec<Format> {
        let mut formats = Vec::new();
        for path in &self.files.paths {
            let format = model_files::format_of(path);
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        formats
    }
}

/// Returns all models in `places`, each once even if several links lead to its files. The starter is
/// first, the others are sorted by name. If a model is in several places, our models folder counts,
/// then what the user added.
pub fn list(places: &Places) -> Vec<InstalledModel> {
    let starter = places.executable.as_deref().and_then(starter_near);
    let starter = starter.and_then(|path| InstalledModel::at(&path, Origin::Starter).ok());
    let mut others = Vec::new();
    if let Some(folder) = places.models_folder() {
        let models = models_in(&folder, MODELS_DEPTH).into_iter();
        others.extend(models.map(|found| InstalledModel::new(found, Origin::ModelsFolder)));
    }
    for path in places.all_added() {
        let models = models_at(&path).into_iter();
        let origin = Origin::Added { path };
        others.extend(models.map(|found| InstalledModel::new(found, origin.clone())));
    }
    others.extend(places.app_folders.iter().flat_map(AppFolder::models));
    let mut models: Vec<InstalledModel> = starter.into_iter().chain(others).collect();
    remove_duplicates(&mut models);
    models.sort_by_cached_key(|model| {
        let is_other = model.origin != Origin::Starter;
        (is_other, model.name().to_lowercase(), model.id.clone())
    });
    models
}

/// Removes models whose files all belong to an earlier one, under another name or as its variant.
fn remove_duplicates(models: &mut Vec<InstalledModel>) {
    let mut seen = HashSet::new();
    models.retain(|model| {
        let mut files = facts_cache::weights_identity(&model.id).into_iter();
        if files.all(|file| seen.contains(&file)) {
            return false;
        }
        let files = model.files.paths.iter();
        seen.extend(files.flat_map(|path| facts_cache::weights_identity(path)));
        true
    });
}

/// Returns the program's own path with symbolic links resolved: a link in a `bin` folder leads to the
/// app that contains the assets.
pub fn own_executable() -> Option<PathBuf> {
    std::env::current_exe().ok()?.canonicalize().ok()
}

/// Returns the folder of the starter model: in an app bundle (`Resources` next to `Contents/MacOS`), in
/// a Linux package (`lib/transom` next to `bin`), next to the executable, or in a folder above it, as
/// in a source checkout.
pub fn starter_near(executable: &Path) -> Option<PathBuf> {
    let folder = executable.parent()?;
    let places = folder
        .parent()
        .map(|prefix| ["Resources", "lib/transom"].map(|name| prefix.join(name)));
    places
        .into_iter()
        .flatten()
        .chain(folder.ancestors().map(Path::to_path_buf))
        .map(|place| place.join("assets/starter"))
        .find(|starter| starter.join("config.json").is_file())
        .and_then(|starter| starter.canonicalize().ok())
}

/// Returns the model or the models at a path that the user added; if there are none, the path itself
/// with its problem.
fn models_at(path: &Path) -> Vec<FoundModel> {
    let path = model_files::absolute(path);
    let mut models = models_in(&path, ADDED_DEPTH);
    if models.is_empty()
        && let Ok(files) = model_files::of(&path)
    {
        let repository = None;
        models.push(FoundModel { files, repository });
    }
    for found in &mut models {
        let id = &found.files.paths[0];
        found.repository = found.repository.take().or_else(|| cached_repository(id));
    }
    models
}

/// Returns the models in `folder` and its subfolders to this depth. Two levels of subfolders count
/// as owner and repository.
fn models_in(folder: &Path, depth: usize) -> Vec<FoundModel> {
    let models = models_below(folder, depth).into_iter();
    let models = models.map(|files| FoundModel {
        repository: repository_of(&files.paths[0], folder),
        files,
    });
    models.collect()
}

/// Returns `owner/name` of a model in the folders `owner` and `name` of `root`.
fn repository_of(path: &Path, root: &Path) -> Option<String> {
    let below = path.strip_prefix(root).ok()?;
    let folder = match model_files::format_of(path) {
        Format::Gguf => below.parent()?,
        Format::Safetensors => below,
    };
    let mut names = folder.iter().map(|name| name.to_str());
    let (owner, name) = (names.next()??, names.next()??);
    Some(format!("{owner}/{name}"))
}

/// Returns `owner/name` of a model in the Hugging Face cache.
fn cached_repository(path: &Path) -> Option<String> {
    let mut folders = path.ancestors().skip(1);
    folders.find_map(|folder| model_files::cached_repository(Some(folder)))
}

fn models_below(folder: &Path, depth: usize) -> Vec<ModelFiles> {
    let mut files = model_files::gguf_models(folder);
    // A folder without weights is listed too, with a problem that says what is missing.
    let has_config = folder.join("config.json").is_file();
    let is_model = model_files::is_safetensors_folder(folder) || (has_config && files.is_empty());
    let own = is_model.then(|| ModelFiles::of_folder(folder.to_owned()));
    if let Some(own) = &own {
        files.retain(|file| !own.paths.contains(file));
    }
    let files = files.into_iter().map(ModelFiles::of_file);
    let mut models: Vec<ModelFiles> = own.into_iter().chain(files).collect();
    if depth > 0 && !is_model {
        let folders = weight_files::paths_in(folder).filter(|path| is_visible_folder(path));
        let folders = folders.map(|folder| model_files::absolute(&folder));
        models.extend(folders.flat_map(|folder| models_below(&folder, depth - 1)));
    }
    models
}

fn is_visible_folder(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    !name.as_encoded_bytes().starts_with(b".") && path.is_dir()
}
