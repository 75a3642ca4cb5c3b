//! Backups: copies of the database, one per day and one before each migration.
//!
//! Rule: the newest seven are kept, readable only by this user. What a user deletes leaves the
//! backups too. An unfinished copy, which a killed process leaves, is removed before anything else
//! is done.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::conversation::Timestamp;
use crate::error::StoreError;
use crate::private_files::{create_private, make_private_folder};
use crate::store::{Store, connect};
use crate::{check, conversations, schema};

/// The extension of an unfinished copy.
const PART: &str = "part";

const MAX_BACKUPS: usize = 7;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

impl Store {
    /// Makes a backup unless there is one from the last 24 hours, and returns its path. Reads the
    /// database on a separate connection, so other calls continue. If it fails, earlier backups
    /// stay.
    pub fn back_up_if_due(&self, now: Timestamp) -> Result<Option<PathBuf>, StoreError> {
        let Some(path) = &self.inner.path else {
            return Ok(None);
        };
        let _turn = self.inner.backups.lock();
        let is_recent = |at: Timestamp| (0..DAY_MS).contains(&(now.0 - at.0));
        let mut dates = all(path).into_iter().filter_map(|backup| made_at(&backup));
        if dates.any(is_recent) {
            return Ok(None);
        }
        make(path, "transom", now).map(Some)
    }
}

/// Copies the entire database, log included, while it is open.
pub(crate) fn make(path: &Path, stem: &str, now: Timestamp) -> Result<PathBuf, StoreError> {
    let folder = folder(path);
    make_private_folder(&folder).map_err(StoreError::io(&folder))?;
    remove_unfinished(path);
    let backup = free_name(&folder, &format!("{stem}-{}", date(now)));
    let part = backup.with_extension(PART);
    copy(path, &part)?;
    fs::rename(&part, &backup).map_err(StoreError::io(&backup))?;
    for old in all(path).into_iter().rev().skip(MAX_BACKUPS) {
        let _ = fs::remove_file(old);
    }
    Ok(backup)
}

/// Writes a database, log included, to a new file, which is synced when this returns. If a page
/// cannot be read, it fails and leaves no file.
fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let copy = || -> Result<(), StoreError> {
        create_private(to)?;
        connect(from)?.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
        let to_disk = fs::File::open(to).and_then(|file| file.sync_all());
        to_disk.map_err(StoreError::io(to))
    };
    copy().map_err(|error| {
        let _ = fs::remove_file(to);
        error.at(from)
    })
}

/// Deletes a conversation from every backup. A backup from which it cannot be deleted is deleted
/// itself.
pub(crate) fn delete_conversation(path: &Path, key: &str) {
    remove_unfinished(path);
    for backup in all(path) {
        if let Err(error) = delete_conversation_in(&backup, key) {
            tracing::info!(path = %backup.display(), %error, "removing a backup, because a deleted chat cannot be removed from it");
            remove(&backup);
        }
    }
}

fn delete_conversation_in(backup: &Path, key: &str) -> Result<(), StoreError> {
    let mut connection = connect(backup)?;
    let version = schema::version(&connection)? as usize;
    if version != schema::MIGRATIONS.len() {
        return Err(check::damaged(backup, "it has an older format"));
    }
    let tx = connection.transaction()?;
    if let Some(id) = conversations::find_by_key(&tx, key)? {
        conversations::delete_rows(&tx, id)?;
    }
    tx.commit()?;
    Ok(())
}

/// Returns the backups, oldest first.
pub(crate) fn all(path: &Path) -> Vec<PathBuf> {
    let mut dated: Vec<_> = files(path)
        .filter(|path| path.extension().is_some_and(|kind| kind == "db"))
        .map(|path| (made_at(&path), path))
        .collect();
    dated.sort();
    dated.into_iter().map(|(_, path)| path).collect()
}

/// Returns when a backup was made, from its file name.
pub(crate) fn made_at(backup: &Path) -> Option<Timestamp> {
    let stem = backup.file_stem()?.to_str()?;
    let digits = stem.get(stem.find("-20")? + 1..)?.get(..DATE_LENGTH)?;
    let time = jiff::civil::DateTime::strptime(DATE, digits).ok()?;
    let time = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(Timestamp(time.timestamp().as_millisecond()))
}

/// Removes unfinished copies, also with the name of a log of SQLite.
pub(crate) fn remove_unfinished(path: &Path) {
    let is_unfinished = |path: &PathBuf| {
        let kind = path.extension().and_then(OsStr::to_str);
        kind.is_some_and(|kind| kind.starts_with(PART))
    };
    files(path)
        .filter(is_unfinished)
        .for_each(|part| remove(&part));
}

fn files(path: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder(path)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

pub(crate) fn remove_all(path: &Path) {
    remove_unfinished(path);
    all(path).iter().for_each(|backup| remove(backup));
}

fn remove(backup: &Path) {
    if let Err(error) = fs::remove_file(backup) {
        tracing::warn!(path = %backup.display(), %error, "a backup could not be removed");
    }
}

fn folder(path: &Path) -> PathBuf {
    path.with_file_name("backups")
}

/// Returns an unused path with the extension `.db`.
pub(crate) fn free_name(folder: &Path, stem: &str) -> PathBuf {
    let mut path = folder.join(format!("{stem}.db"));
    let mut n = 2;
    while path.exists() {
        path = folder.join(format!("{stem}-{n}.db"));
        n += 1;
    }
    path
}

/// The format of the date in a file name, such as `2026-11-21-125443`, in UTC.
const DATE: &str = "%Y-%m-%d-%H%M%S";
const DATE_LENGTH: usize = 17;

pub(crate) fn date(now: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(now.0).map_or_else(
        |_| now.0.to_string(),
        |time| time.strftime(DATE).to_string(),
    )
}
