//! Reads and writes `added.json`: `{ "version": 1, "paths": [...] }`.
//!
//! Rule: a change holds a lock from reading to writing, so that concurrent changes of two programs
//! are both kept.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::AddedError;
use crate::versioned_file::{self, VersionedFileError};

/// Name of the file in the data folder.
pub const FILE_NAME: &str = "added.json";
/// Name of the lock file. A file that is replaced can't be locked itself.
const LOCK_NAME: &str = "added.lock";

const VERSION: u64 = 1;

#[derive(Serialize, Deserialize)]
struct Contents {
    version: u64,
    paths: Vec<PathBuf>,
}

/// Returns the paths in the order in which they were added; none if the file doesn't exist.
///
/// # Errors
/// [`AddedError::Damaged`], [`AddedError::Newer`], [`AddedError::Unreadable`].
pub fn read(data_folder: &Path) -> Result<Vec<PathBuf>, AddedError> {
    let path = data_folder.join(FILE_NAME);
    let contents = versioned_file::read::<Contents>(&path, VERSION);
    let contents = contents.map_err(|error| match error {
        VersionedFileError::Unreadable(error) => AddedError::Unreadable {
            path,
            reason: error.to_string(),
        },
        VersionedFileError::Damaged(error) => {
            // Line and column are reported separately.
            let reason = error.to_string();
            let reason = reason.split(" at line ").next().unwrap_or_default();
            AddedError::Damaged {
                path,
                line: error.line(),
                column: error.column(),
                reason: reason.to_owned(),
            }
        }
        VersionedFileError::Newer(version) => AddedError::Newer { path, version },
    })?;
    Ok(contents.map_or_else(Vec::new, |contents| contents.paths))
}

/// Adds those of `paths` that are not on the list. Returns true if there were any.
///
/// # Errors
/// Those of [`read`]; [`AddedError::NotWritable`] and [`AddedError::NotText`]. The list is unchanged
/// then.
pub fn add_paths(data_folder: &Path, paths: &[PathBuf]) -> Result<bool, AddedError> {
    if let Some(path) = paths.iter().find(|path| path.to_str().is_none()) {
        return Err(AddedError::NotText { path: path.clone() });
    }
    change(data_folder, |added| {
        for path in paths {
            if !added.contains(path) {
                added.push(path.clone());
            }
        }
    })
}

/// Removes `path` from the list. Returns true if it was there.
///
/// # Errors
/// Those of [`read`]; [`AddedError::NotWritable`]. The list is unchanged then.
pub fn forget(data_folder: &Path, path: &Path) -> Result<bool, AddedError> {
    change(data_folder, |paths| paths.retain(|other| other != path))
}

/// Changes the list with `with`, and writes it if it differs. Returns true if it does.
fn change(data_folder: &Path, with: impl FnOnce(&mut Vec<PathBuf>)) -> Result<bool, AddedError> {
    let path = data_folder.join(FILE_NAME);
    let failed = |error: io::Error| AddedError::NotWritable {
        path: path.clone(),
        reason: error.to_string(),
    };
    transom_files::create_private_folder(data_folder).map_err(failed)?;
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(data_folder.join(LOCK_NAME))
        .map_err(failed)?;
    lock.lock().map_err(failed)?;
    let before = read(data_folder)?;
    let mut paths = before.clone();
    with(&mut paths);
    if paths == before {
        return Ok(false);
    }
    let contents = Contents {
        version: VERSION,
        paths,
    };
    transom_files::replace_json(&path, &contents).map_err(failed)?;
    Ok(true)
}
