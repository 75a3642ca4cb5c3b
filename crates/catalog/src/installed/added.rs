//! What the user added: files and folders anywhere, by their paths, in `added.json` of the data
//! folder, for every program of theirs at once.
//!
//! Rule: the file is replaced whole or not at all, by one program at a time, and one that cannot be
//! read is never written over: what is in it is the user's. Adding copies nothing, and forgetting
//! deletes nothing.

mod file;
mod watch;

use std::path::{Path, PathBuf};

use super::{Installed, Origin, Places, list};
use crate::forms;
use crate::remembered::weights_identity;

pub use file::{FILE_NAME, forget, keep, read};
pub use watch::AddedWatch;

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

/// What became of a wish to add a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Addition {
    /// The model, as lists show it.
    pub model: Installed,
    /// It was not on the list before.
    pub is_new: bool,
}

/// The model at a path that a person gave, if it can be used: as [`add`] would take it.
///
/// # Errors
/// [`AddedError::NoModel`].
pub fn given(path: &Path) -> Result<Installed, AddedError> {
    let path = forms::absolute(path);
    let refused = |reason: String| AddedError::NoModel {
        path: path.clone(),
        reason,
    };
    let origin = Origin::Added { path: path.clone() };
    let model = Installed::at(&path, origin).map_err(|error| refused(error.to_string()))?;
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
pub fn add(path: &Path, places: &Places) -> Result<Addition, AddedError> {
    let model = given(path)?;
    let files = weights_identity(&model.id);
    let is_it = |known: &Installed| {
        let mut forms = known.forms.paths.iter();
        forms.any(|form| weights_identity(form) == files)
    };
    if let Some(model) = list(places).into_iter().find(is_it) {
        let is_new = false;
        return Ok(Addition { model, is_new });
    }
    if let (Origin::Added { path }, Some(data_folder)) = (&model.origin, &places.data_folder) {
        keep(data_folder, std::slice::from_ref(path))?;
    }
    let is_new = true;
    Ok(Addition { model, is_new })
}
