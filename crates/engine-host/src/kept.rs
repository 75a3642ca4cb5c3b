//! A conversation on disk, between two processes of one model.
//!
//! The child writes it when its model goes and takes it up when the model is loaded again; the
//! parent says where. Rule: a file is whole or not there (it is written beside its place and then
//! moved), and it is moved away before an engine reads it, so that one that ends the process is
//! read only once.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use transom_engine::{EngineError, LoadedModel};

/// Writes the conversation of `model` to `path`. Returns its tokens; 0, and no file, when there is
/// nothing to keep.
///
/// # Errors
/// As [`LoadedModel::save_state`]; no file is left then.
pub(crate) fn save(model: &dyn LoadedModel, path: &Path) -> Result<usize, EngineError> {
    let unfinished = unfinished(path);
    remove(&unfinished);
    let n_tokens = model.save_state(&unfinished)?;
    if n_tokens > 0 {
        fs::rename(&unfinished, path).map_err(|error| {
            remove(&unfinished);
            bad_file(path, &error)
        })?;
    }
    Ok(n_tokens)
}

/// Has `model` take up the conversation at `path`, if there is one. Returns its tokens. Its file is
/// gone in any case.
///
/// # Errors
/// As [`LoadedModel::restore_state`]; [`EngineError::BadFile`] when it cannot be moved away.
pub(crate) fn restore(model: &mut dyn LoadedModel, path: &Path) -> Result<usize, EngineError> {
    let taken = taken(path);
    match fs::rename(path, &taken) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => {
            remove(path);
            return Err(bad_file(path, &error));
        }
    }
    let result = model.restore_state(&taken);
    remove(&taken);
    result
}

/// Removes what a process left that ended while it wrote or read the conversation at `path`.
pub fn remove_leftovers(path: &Path) {
    remove(&unfinished(path));
    remove(&taken(path));
}

fn unfinished(path: &Path) -> PathBuf {
    beside(path, ".unfinished")
}

fn taken(path: &Path) -> PathBuf {
    beside(path, ".taken")
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a kept conversation could not be removed");
        }
    }
}

fn bad_file(path: &Path, error: &std::io::Error) -> EngineError {
    EngineError::BadFile {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}
