//! Reads Transom's small JSON files in the data folder, such as `{ "version": 1, … }`.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Maximum size of such a file. Transom writes no longer one.
pub const MAX_BYTES: u64 = 1 << 20;

/// Why a file can't be used.
#[derive(Debug)]
pub enum VersionedFileError {
    /// The file can't be read.
    Unreadable(io::Error),
    /// The file is not JSON of this form.
    Damaged(serde_json::Error),
    /// A newer version of the program wrote the file; its version.
    Newer(u64),
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u64,
}

/// Returns the contents of a file of at most `version`; `None` if there is no file.
///
/// # Errors
/// [`VersionedFileError`].
pub fn read<T: DeserializeOwned>(
    path: &Path,
    version: u64,
) -> Result<Option<T>, VersionedFileError> {
    let text = match transom_files::read(path, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(VersionedFileError::Unreadable(error)),
    };
    let found: VersionOnly = serde_json::from_slice(&text).map_err(VersionedFileError::Damaged)?;
    if found.version > version {
        return Err(VersionedFileError::Newer(found.version));
    }
    let contents = serde_json::from_slice(&text);
    contents.map(Some).map_err(VersionedFileError::Damaged)
}

/// As [`read`], for a file that is helpful but not required: a damaged or newer file, or one that is
/// too large, is renamed to `.json.damaged`, over an older renamed one.
pub fn read_or_set_aside<T: DeserializeOwned>(path: &Path, version: u64) -> Option<T> {
    let error = match read(path, version) {
        Ok(contents) => return contents,
        Err(error) => error,
    };
    let is_useless = match error {
        VersionedFileError::Unreadable(error) => {
            matches!(
                error.kind(),
                ErrorKind::FileTooLarge | ErrorKind::InvalidInput
            )
        }
        VersionedFileError::Damaged(_) | VersionedFileError::Newer(_) => true,
    };
    if is_useless {
        // If that fails, the next write replaces the file.
        let _ = fs::rename(path, path.with_extension("json.damaged"));
    }
    None
}
