//! A KV cache on disk, which one process of a model saves and the next one restores.
//!
//! The child saves it at the unload and restores it after the next load; the parent decides where.
//! Rule: a file is complete or does not exist, because it is written next to its final path and
//! then renamed. It is renamed again before an engine reads it, so a file that crashes the process
//! is read only once.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use transom_engine::{EngineError, LoadedModel};

/// Extensions of a file that is being written or read.
const UNFINISHED: &str = "unfinished";
const TAKEN: &str = "taken";

/// Saves the KV cache of `model` to `path` and returns its number of tokens. If that is 0, there is
/// no file.
///
/// # Errors
/// The errors of [`LoadedModel::save_state`]. No file is left then.
pub(crate) fn save(model: &dyn LoadedModel, path: &Path) -> Result<usize, EngineError> {
    let unfinished = path.with_added_extension(UNFINISHED);
    remove(&unfinished);
    let n_tokens = model.save_state(&unfinished)?;
    if n_tokens > 0 {
        fs::rename(&unfinished, path).map_err(|error| {
            remove(&unfinished);
            EngineError::bad_file(path, error)
        })?;
    }
    Ok(n_tokens)
}

/// Restores the KV cache of `model` from `path`, if the file exists, and returns its number of
/// tokens. Removes the file in every case.
///
/// # Errors
/// The errors of [`LoadedModel::restore_state`], and [`EngineError::BadFile`] if the file cannot be
/// renamed.
pub(crate) fn restore(model: &mut dyn LoadedModel, path: &Path) -> Result<usize, EngineError> {
    let taken = path.with_added_extension(TAKEN);
    match fs::rename(path, &taken) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => {
            remove(path);
            return Err(EngineError::bad_file(path, error));
        }
    }
    let result = model.restore_state(&taken);
    remove(&taken);
    result
}

/// Removes the files of a process that ended while it wrote or read the saved KV cache at `path`.
pub fn remove_leftovers(path: &Path) {
    remove(&path.with_added_extension(UNFINISHED));
    remove(&path.with_added_extension(TAKEN));
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a saved KV cache could not be removed");
        }
    }
}
