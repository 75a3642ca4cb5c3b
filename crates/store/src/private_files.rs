//! Files and folders that only this user can read.

use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::error::StoreError;

/// Creates the folder if it does not exist. Only this user can read it.
pub(crate) fn make_private_folder(folder: &Path) -> io::Result<()> {
    transom_files::create_private_folder(folder)?;
    narrow(folder, 0o700)
}

/// Creates an empty file if there is none. Only this user can read it; SQLite gives its log the
/// same mode.
pub(crate) fn make_private_file(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(path)?;
    narrow(path, 0o600)
}

/// Creates an empty file that only this user can read.
pub(crate) fn create_private(path: &Path) -> Result<(), StoreError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).map(drop).map_err(StoreError::io(path))
}

/// Removes all permissions that are not in `mode`.
pub(crate) fn narrow(path: &Path, mode: u32) -> io::Result<()> {
    let found = fs::metadata(path)?.permissions().mode() & 0o777;
    if found & !mode == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(found & mode))
}
