//! The file itself: `{ "version": 1, "paths": [...] }`.
//!
//! Rule: who changes it holds a lock from reading to writing, so that of two programs that add
//! something at once neither's is lost.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::AddedError;

/// Its name in the data folder.
pub const FILE_NAME: &str = "added.json";
/// Beside it, for the lock: a file that is replaced cannot be locked itself.
const LOCK_NAME: &str = "added.lock";

const VERSION: u64 = 1;
/// Longest file; Transom writes no longer one.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Serialize, Deserialize)]
struct Contents {
    version: u64,
    paths: Vec<PathBuf>,
}

/// As much of the file as every version's has.
#[derive(Deserialize)]
struct VersionOnly {
    version: u64,
}

/// The paths, in the order in which they were added; none where there is no file.
///
/// # Errors
/// [`AddedError::Damaged`], [`AddedError::Newer`], [`AddedError::Unreadable`].
pub fn read(data_folder: &Path) -> Result<Vec<PathBuf>, AddedError> {
    let path = data_folder.join(FILE_NAME);
    let text = match transom_files::read(&path, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => {
            let reason = error.to_string();
            return Err(AddedError::Unreadable { path, reason });
        }
    };
    let wrong = |error: serde_json::Error| {
        // Its place is said apart.
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default();
        AddedError::Damaged {
            path: path.clone(),
            line: error.line(),
            column: error.column(),
            reason: reason.to_owned(),
        }
    };
    let VersionOnly { version } = serde_json::from_slice(&text).map_err(wrong)?;
    if version > VERSION {
        return Err(AddedError::Newer { path, version });
    }
    let contents: Contents = serde_json::from_slice(&text).map_err(wrong)?;
    Ok(contents.paths)
}

/// Puts those of `paths` on the list that are not there yet. Returns whether there were any.
///
/// # Errors
/// As [`read`]; [`AddedError::NotWritable`] and [`AddedError::NotText`]. Nothing was changed then.
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

/// Takes `path` off the list. Returns whether it was there.
///
/// # Errors
/// As [`read`]; [`AddedError::NotWritable`]. Nothing was changed then.
pub fn forget(data_folder: &Path, path: &Path) -> Result<bool, AddedError> {
    change(data_folder, |paths| paths.retain(|other| other != path))
}

/// Writes the list anew as `with` makes it, if that is another one. Returns whether it is.
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
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(data_folder)?;
        serde_json::to_writer_pretty(&mut file, &contents)?;
        file.write_all(b"\n")?;
        // On the disk before it takes the old one's place, so that a power cut leaves one of them.
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(failed)?;
    Ok(true)
}
