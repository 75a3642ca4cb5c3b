//! The files and folders that the user added by path, in `added.json` of the data folder, for all
//! programs.
//!
//! Rule: a program changes the file under a lock and replaces it as a whole. A file that can't be
//! read is never overwritten, because its content is the user's. Adding copies nothing, and
//! forgetting deletes nothing.

mod file;

use std::path::{Path, PathBuf};

use super::{InstalledModel, Origin, Places, list};
use crate::facts_cache::weights_identity;
use crate::file_error::FileError;
use crate::model_files;
use crate::watch::FileWatcher;

pub use file::{FILE_NAME, add_paths, forget, read};

/// Why something can't be added or forgotten, or why the list can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum AddedError {
    /// There is no usable model.
    #[error(transparent)]
    NoModel(#[from] FileError),
    /// The file is damaged.
    #[error(
        "{path}, line {line}, column {column}: {reason}; fix the file, or delete it and add your \
         models again"
    )]
    Damaged {
        path: PathBuf,
        line: usize,
        /// Column, from 1; 0 before the first character.
        column: usize,
        reason: String,
    },
    /// A newer version of the program wrote the file, and only that version can change it.
    #[error("{path} is from a newer version of Transom (format {version}); use that version")]
    Newer { path: PathBuf, version: u64 },
    /// The file can't be read.
    #[error("{path} cannot be read: {reason}")]
    Unreadable { path: PathBuf, reason: String },
    /// The file can't be written; its content is unchanged.
    #[error("{path} cannot be written: {reason}")]
    NotWritable { path: PathBuf, reason: String },
    /// The path is not UTF-8, so it can't be stored.
    #[error("{path} has a name that is not UTF-8; rename it before you add it")]
    NotText { path: PathBuf },
}

/// The result of adding a model.
#[derive(Debug, Clone, PartialEq)]
pub struct AddedModel {
    /// The model as [`list`] returns it.
    pub model: InstalledModel,
    /// True if it was not on the list before.
    pub is_new: bool,
}

/// Returns the model at a path, if it can be used. [`add`] accepts the same paths.
///
/// # Errors
/// [`AddedError::NoModel`].
pub fn usable_model_at(path: &Path) -> Result<InstalledModel, AddedError> {
    let path = model_files::absolute(path);
    let model = InstalledModel::at(&path, Origin::Added { path: path.clone() })?;
    match &model.facts {
        Ok(_) => Ok(model),
        Err(problem) => Err(problem.clone().into()),
    }
}

/// Adds the model at `path` to the user's list. It is used in place. A model that is already listed,
/// under any path, stays as it is.
///
/// # Errors
/// [`AddedError`] if there is no usable model, or the list can't be changed.
pub fn add(path: &Path, places: &Places) -> Result<AddedModel, AddedError> {
    let model = usable_model_at(path)?;
    let files = weights_identity(&model.id);
    let is_it = |known: &InstalledModel| {
        let mut paths = known.files.paths.iter();
        paths.any(|path| weights_identity(path) == files)
    };
    if let Some(model) = list(places).into_iter().find(is_it) {
        let is_new = false;
        return Ok(AddedModel { model, is_new });
    }
    if let (Origin::Added { path }, Some(data_folder)) = (&model.origin, &places.data_folder) {
        add_paths(data_folder, std::slice::from_ref(path))?;
    }
    let is_new = true;
    Ok(AddedModel { model, is_new })
}

/// Watches the list of added models for changes by other programs until it is dropped.
#[derive(Debug)]
pub struct AddedModelsWatcher {
    _watcher: FileWatcher,
}

impl AddedModelsWatcher {
    /// Calls `on_change` on a separate thread when the result of [`read`] changes, also from one error
    /// to another. Writing the same paths again is no change. The folder need not exist.
    pub fn start(data_folder: PathBuf, mut on_change: impl FnMut() + Send + 'static) -> Self {
        let mut last = read(&data_folder);
        let files = vec![data_folder.join(FILE_NAME)];
        let watcher = FileWatcher::start(FILE_NAME, files, move || {
            let now = read(&data_folder);
            if last != now {
                last = now;
                on_change();
            }
        });
        Self { _watcher: watcher }
    }
}
