//! Copies of the file that are made before it is brought to a newer format.
//!
//! Rule: the last few are kept, for this user only, until something is deleted: what a person
//! deletes must not live on in a copy.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::conversation::Timestamp;
use crate::error::StoreError;
use crate::open::make_private_folder;

/// Migrations are months apart.
const N_KEPT: usize = 3;

/// Copies the whole database, log included, while it is open.
pub(crate) fn make(
    connection: &Connection,
    path: &Path,
    schema: u32,
    now: Timestamp,
) -> Result<PathBuf, StoreError> {
    let folder = folder(path);
    make_private_folder(&folder).map_err(|source| StoreError::io(&folder, &source))?;
    let backup = free_name(&folder, &format!("transom-format{schema}-{}", date(now)));
    let part = backup.with_extension("part");
    let copy = || -> Result<(), StoreError> {
        create_private(&part).map_err(|source| StoreError::io(&part, &source))?;
        connection
            .backup("main", &part, None::<fn(rusqlite::backup::Progress)>)
            .map_err(|source| StoreError::from(source).at(&part))?;
        // The log's mode goes along with the pages, but a copy needs no log beside it.
        let to_disk = fs::File::open(&part).and_then(|file| file.sync_all());
        to_disk.map_err(|source| StoreError::io(&part, &source))?;
        fs::rename(&part, &backup).map_err(|source| StoreError::io(&backup, &source))
    };
    copy().inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })?;
    for old in all(path).into_iter().rev().skip(N_KEPT) {
        let _ = fs::remove_file(old);
    }
    Ok(backup)
}

/// Those that are there, oldest first.
pub(crate) fn all(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder(path)) else {
        return Vec::new();
    };
    let mut dated: Vec<_> = entries
        .flatten()
        .map(|entry| {
            let changed = entry.metadata().and_then(|file| file.modified()).ok();
            (changed, entry.path())
        })
        .filter(|(_, path)| path.extension().is_some_and(|kind| kind == "db"))
        .collect();
    dated.sort();
    dated.into_iter().map(|(_, path)| path).collect()
}

/// Removes all of them.
pub(crate) fn remove_all(path: &Path) {
    for backup in all(path) {
        if let Err(error) = fs::remove_file(&backup) {
            tracing::warn!(path = %backup.display(), %error, "a backup could not be removed");
        }
    }
}

fn folder(path: &Path) -> PathBuf {
    path.with_file_name("backups")
}

/// An empty file that only this user reads.
pub(crate) fn create_private(path: &Path) -> std::io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

/// A name with `.db` that no file has.
pub(crate) fn free_name(folder: &Path, stem: &str) -> PathBuf {
    let mut path = folder.join(format!("{stem}.db"));
    let mut n = 2;
    while path.exists() {
        path = folder.join(format!("{stem}-{n}.db"));
        n += 1;
    }
    path
}

/// For names of files: `2026-11-21-125443`.
pub(crate) fn date(now: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(now.0).map_or_else(
        |_| now.0.to_string(),
        |time| time.strftime("%Y-%m-%d-%H%M%S").to_string(),
    )
}
