//! What the user added: files and folders anywhere, by their paths, in `added.json` of the data
//! folder, for every program of theirs at once.
//!
//! Rule: the file is replaced whole or not at all, by one program at a time, and one that cannot be
//! read is never written over: what is in it is the user's. Adding copies nothing, and forgetting
//! deletes nothing.

mod file;
mod watch;

use std::path::{Path, PathBuf};

use super::{InstalledModel, Origin, Places, list};
use crate::facts_cache::weights_identity;
use crate::model_files;

pub use file::{FILE_NAME, add_paths, forget, read};
pub use watch::AddedModelsWatcher;

/// Why something was not added or forgotten, or what was added is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddedError {
    /// There is no model that can be used.
    #[error("{reason}")]
    NoModel {
        /// As it was given.
        path: PathBuf,
        /// Why, with the file's name.
        reason: String,
    },
    /// The file does not say what it should.
    #[error(
        "{path}, line {line}, column {column}: {reason}; mend the file, or delete it and add your \
         models again"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1; 0 before the first character.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A later version of the program wrote it, and only that one knows how to change it.
    #[error("{path} is of a newer version of Transom (its format is {version}); use that one")]
    Newer {
        /// The file.
        path: PathBuf,
        /// The number of its format.
        version: u64,
    },
    /// The system does not let it be read.
    #[error("{path} cannot be read: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// The system does not let it be written; what was in it is still there.
    #[error("{path} cannot be written: {reason}")]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// A name that is no text cannot be written down.
    #[error("{path} has a name that is not UTF-8; rename it, and add it then")]
    NotText {
        /// As it was given.
        path: PathBuf,
    },
}

/// What became of a request to add a model.
#[derive(Debug, Clone, PartialEq)]
pub struct AddedModel {
    /// The model, as lists show it.
    pub model: InstalledModel,
    /// It was not on the list before.
    pub is_new: bool,
}

/// The model at a path that a person gave, if it can be used: as [`add`] would take it.
///
/// # Errors
/// [`AddedError::NoModel`].
pub fn usable_model_at(path: &Path) -> Result<InstalledModel, AddedError> {
    let path = model_files::absolute(path);
    let refused = |reason: String| AddedError::NoModel {
        path: path.clone(),
        reason,
    };
    let origin = Origin::Added { path: path.clone() };
    let model = InstalledModel::at(&path, origin).map_err(|error| refused(error.to_string()))?;
    match &model.facts {
        Ok(_) => Ok(model),
        Err(problem) => Err(refused(problem.clone())),
    }
}

/// Puts the model at `path` on the list of what the user added; it is used where it lies. One that
/// is there already, by whatever path, stays as it is.
///
/// # Errors
/// When there is no model that can be used, or the list cannot be changed.
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
