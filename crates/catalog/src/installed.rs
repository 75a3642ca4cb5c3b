//! Which models are there: the starter that ships with the program, those in the models folder of
//! the data folder, those that the user added by path, and those that other apps have.
//!
//! Rule: listing never fails and loads nothing. A folder that cannot be read holds no models; a model
//! that cannot be used is listed with its problem. Headers are read once, until files change.

mod added;
mod catalog_entry;
mod hugging_face;
mod llama_cpp;
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
pub use remove::{FreedSpace, Removal, RemoveError, removal, remove};

use crate::facts::{Format, ModelFacts};
use crate::facts_cache;
use crate::model_files::{self, ModelFiles};

/// Name of the folder of models in the data folder.
pub const MODELS_FOLDER: &str = "models";

/// Name of the folder in it for parts of models that are coming: on the disk of the models, and hidden,
/// so that no list shows them.
pub const PARTS_FOLDER: &str = ".downloads";

/// Folders below a folder that the user added that are looked into: `name` and `owner/name`.
const ADDED_DEPTH: usize = 2;
/// Below the models folder one more, for files that lie in a folder of their repository.
const MODELS_DEPTH: usize = 3;

/// A model that was found, before its files were looked at.
pub(crate) struct FoundModel {
    files: ModelFiles,
    /// `owner/name` on the hub, where its place says so.
    repository: Option<String>,
}

/// Where to look for models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// The program, as [`own_executable`] finds it: the starter lies near it.
    pub executable: Option<PathBuf>,
    /// The data folder: its folder `models` holds models, or folders of an owner's models, and its
    /// `added.json` the paths that the user added.
    pub data_folder: Option<PathBuf>,
    /// Files and folders to look at beside those in `added.json`, as if the user had added them.
    pub added: Vec<PathBuf>,
    /// Folders of other apps, as [`app_folders()`] finds them.
    pub app_folders: Vec<AppFolder>,
}

impl Places {
    /// Where this program and its user have models, and other apps. Reads what tells where those
    /// keep theirs.
    pub fn of(data_folder: &Path) -> Self {
        Self {
            executable: own_executable(),
            data_folder: Some(data_folder.to_owned()),
            added: Vec::new(),
            app_folders: app_folders(),
        }
    }

    /// The folder that downloads go to, from the root.
    fn models_folder(&self) -> Option<PathBuf> {
        let data_folder = self.data_folder.as_ref()?;
        Some(model_files::absolute(&data_folder.join(MODELS_FOLDER)))
    }

    /// What the user added; of a list that cannot be read nothing, as [`read_added`] says.
    fn all_added(&self) -> Vec<PathBuf> {
        let mut all = match &self.data_folder {
            Some(data_folder) => added::read(data_folder).unwrap_or_default(),
            None => Vec::new(),
        };
        all.extend_from_slice(&self.added);
        all
    }
}

/// Where a model was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It came with the program.
    Starter,
    /// It lies in the models folder.
    ModelsFolder,
    /// It is, or lies in, what the user added.
    Added {
        /// As the user added it.
        path: PathBuf,
    },
    /// Another app has it; it is used where it lies.
    OtherApp {
        /// Whose it is.
        app: App,
    },
}

/// A model that is there.
#[derive(Debug, Clone, PartialEq)]
pub struct InstalledModel {
    /// Its folder or file, from the root: what commands and settings know it by. Of a split file the
    /// first part.
    pub id: PathBuf,
    /// Its name and its forms.
    pub files: ModelFiles,
    /// Where it was found.
    pub origin: Origin,
    /// What the first form that can be read says of it; else why the first cannot.
    pub facts: Result<Arc<ModelFacts>, String>,
    /// Bytes of all its files.
    pub size_bytes: u64,
    /// `owner/name` on the hub, where the place of its files says so.
    pub repository: Option<String>,
}

impl InstalledModel {
    /// The model at `path`, wherever that is. Nothing there is a model with a problem.
    ///
    /// # Errors
    /// As [`model_files::of`].
    pub fn at(path: &Path, origin: Origin) -> Result<Self, crate::InspectError> {
        let files = model_files::of(path)?;
        let repository = cached_repository(&files.paths[0]);
        Ok(Self::new(FoundModel { files, repository }, origin))
    }

    /// The model at `path`, wherever that is, as it stands in the list of `places`; no other is
    /// looked at.
    ///
    /// # Errors
    /// As [`model_files::of`].
    pub fn of_places(path: &Path, places: &Places) -> Result<Self, crate::InspectError> {
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
        let mut known = files.paths.iter().map(|path| facts_cache::facts(path));
        let first = known.next().unwrap_or_else(|| Err(String::new()));
        Self {
            id: files.paths[0].clone(),
            facts: first.or_else(|problem| known.find_map(Result::ok).ok_or(problem)),
            size_bytes: facts_cache::size_bytes(&files.paths),
            files,
            origin,
            repository,
        }
    }

    /// Its folder's or file's own name. [`Self::title`] is for people.
    pub fn name(&self) -> &str {
        &self.files.name
    }

    /// Its forms, for an engine to load one of them; never empty.
    pub fn variants(&self) -> Vec<PathBuf> {
        self.files.paths.clone()
    }

    /// What the form at `path`, one of its own, says of the model: forms may be packed differently.
    ///
    /// # Errors
    /// Its problem, in words.
    pub fn facts_of(&self, path: &Path) -> Result<Arc<ModelFacts>, String> {
        facts_cache::facts(path)
    }

    /// The formats of its forms, each once.
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

/// Every model in `places`, each once however many links lead to its files: the starter first, then
/// the others by name. Of one that lies in several places ours counts, then what the user added.
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
    keep_one_of_each(&mut models);
    models.sort_by_cached_key(|model| {
        let is_other = model.origin != Origin::Starter;
        (is_other, model.name().to_lowercase(), model.id.clone())
    });
    models
}

/// Leaves out models whose files are all those of one before, under another name or as its form.
fn keep_one_of_each(models: &mut Vec<InstalledModel>) {
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

/// The program's own path with symbolic links resolved: a link in a `bin` folder leads back to the
/// app that holds the assets.
pub fn own_executable() -> Option<PathBuf> {
    std::env::current_exe().ok()?.canonicalize().ok()
}

/// The folder of the starter model in an app bundle (`Contents/MacOS/..` holds `Resources`), beside
/// the executable, or in a folder above it, as in a source checkout.
pub fn starter_near(executable: &Path) -> Option<PathBuf> {
    let folder = executable.parent()?;
    let bundle = folder.parent().map(|contents| contents.join("Resources"));
    bundle
        .into_iter()
        .chain(folder.ancestors().map(Path::to_path_buf))
        .map(|place| place.join("assets/starter"))
        .find(|starter| starter.join("config.json").is_file())
        .and_then(|starter| starter.canonicalize().ok())
}

/// At a path that the user added: a model, or a folder of models; if it is neither, itself, with its
/// problem.
fn models_at(path: &Path) -> Vec<FoundModel> {
    let path = model_files::absolute(path);
    let models = match path.is_dir() {
        true => models_in(&path, ADDED_DEPTH),
        false => Vec::new(),
    };
    let mut models = match (models.is_empty(), model_files::of(&path)) {
        (true, Ok(files)) => {
            let repository = None;
            vec![FoundModel { files, repository }]
        }
        (true, Err(_)) | (false, _) => models,
    };
    for found in &mut models {
        let id = &found.files.paths[0];
        found.repository = found.repository.take().or_else(|| cached_repository(id));
    }
    models
}

/// The models in `folder`, and in the folders below it to this depth. Two folders below it are taken
/// for an owner and a repository.
fn models_in(folder: &Path, depth: usize) -> Vec<FoundModel> {
    let models = models_below(folder, depth).into_iter();
    let models = models.map(|files| FoundModel {
        repository: repository_of(&files.paths[0], folder),
        files,
    });
    models.collect()
}

/// `owner/name`, of a model below the folders `owner` and `name` of `root`.
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

/// `owner/name`, of a model in a cache of Hugging Face.
fn cached_repository(path: &Path) -> Option<String> {
    let mut folders = path.ancestors().skip(1);
    folders.find_map(|folder| model_files::cached_repository(Some(folder)))
}

fn models_below(folder: &Path, depth: usize) -> Vec<ModelFiles> {
    let mut files = model_files::gguf_models(folder);
    // A folder without weights is listed too, and says what is missing.
    let has_config = folder.join("config.json").is_file();
    let is_model = model_files::is_safetensors_folder(folder) || (has_config && files.is_empty());
    let own = is_model.then(|| ModelFiles::of_folder(folder.to_owned()));
    if let Some(own) = &own {
        files.retain(|file| !own.paths.contains(file));
    }
    let files = files.into_iter().map(ModelFiles::of_file);
    let mut models: Vec<ModelFiles> = own.into_iter().chain(files).collect();
    if depth > 0 && !is_model {
        let entries = folder.read_dir().into_iter().flatten().flatten();
        let folders = entries
            .map(|entry| entry.path())
            .filter(|path| is_visible_folder(path));
        models.extend(
            folders.flat_map(|folder| models_below(&model_files::absolute(&folder), depth - 1)),
        );
    }
    models
}

fn is_visible_folder(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    !name.as_encoded_bytes().starts_with(b".") && path.is_dir()
}
