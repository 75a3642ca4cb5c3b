//! What to do with a damaged file: save what can be read into a new one, and set the old one aside.
//!
//! The steps are such that a crash between any two loses nothing: the new file is whole on the disk
//! under another name, then the damaged one gets its second name, then the new one takes its place.
//! A new file under [`new_name`] means that only the last step is missing.
//!
//! Rule: the damaged file is never written to and never deleted, unless the person clears all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::conversation::Timestamp;
use crate::error::StoreError;
use crate::notice::Notice;
use crate::{backup, mend, open, salvage};

const SET_ASIDE: &str = "transom-damaged-";

/// Puts a sound file in place of the damaged one.
pub(crate) fn recover(
    path: &Path,
    reason: &str,
    now: Timestamp,
    migrations: &[&str],
) -> Result<Notice, StoreError> {
    let part = path.with_extension("db-part");
    let saved = save_from(path, &part, migrations);
    let mut saved = saved.inspect_err(|_| remove_database(&part))?;
    let mut used_backup = None;
    if saved.n_messages == 0
        && let Some(backup) = backup::all(path).pop()
        && let Ok(from_backup) = save_from(&backup, &part, migrations)
    {
        saved = from_backup;
        used_backup = Some(backup);
    }
    let placed = place(path, &part, now).map_err(|error| StoreError::io(path, &error));
    let damaged = placed.inspect_err(|_| remove_database(&part))?;
    Ok(Notice::Recovered {
        damaged,
        reason: reason.to_string(),
        conversations: saved.n_conversations,
        messages: saved.n_messages,
        backup: used_backup,
    })
}

/// Ends a recovery that was cut short, and removes what it left.
pub(crate) fn tidy_up(path: &Path) -> Result<(), StoreError> {
    remove_database(&path.with_extension("db-part"));
    if !new_name(path).exists() {
        return Ok(());
    }
    take_place(path).map_err(|error| StoreError::io(path, &error))
}

/// Removes the damaged files that were set aside.
pub(crate) fn remove_set_aside(path: &Path) {
    let Some(Ok(entries)) = path.parent().map(fs::read_dir) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(SET_ASIDE));
        if is_ours && let Err(error) = fs::remove_file(entry.path()) {
            tracing::warn!(path = %entry.path().display(), %error, "a damaged file stays");
        }
    }
}

fn save_from(damaged: &Path, part: &Path, migrations: &[&str]) -> Result<mend::Saved, StoreError> {
    remove_database(part);
    backup::create_private(part).map_err(|error| StoreError::io(part, &error))?;
    let save = || -> Result<mend::Saved, StoreError> {
        let mut target = Connection::open(part)?;
        target.pragma_update(None, "synchronous", "FULL")?;
        target.pragma_update(None, "fullfsync", true)?;
        salvage::copy(damaged, &mut target, migrations)?;
        mend::mend(&mut target)
    };
    save().map_err(|error| error.at(damaged))
}

/// Gives the damaged file its second name and puts the new one in its place.
fn place(path: &Path, part: &Path, now: Timestamp) -> io::Result<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let stem = format!("{SET_ASIDE}{}", backup::date(now));
    let aside = backup::free_name(folder, &stem);
    second_name(path, &aside)?;
    let log = with_suffix(path, "-wal");
    if log.exists() {
        second_name(&log, &with_suffix(&aside, "-wal"))?;
    }
    fs::rename(part, new_name(path))?;
    take_place(path)?;
    Ok(aside)
}

/// The log of the damaged file must be gone before the new file stands in its place: SQLite would
/// play it into that one.
fn take_place(path: &Path) -> io::Result<()> {
    for suffix in ["-wal", "-shm"] {
        match fs::remove_file(with_suffix(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(new_name(path), path)?;
    let _ = fs::remove_file(open::suspicion(path));
    if let Some(Ok(folder)) = path.parent().map(fs::File::open) {
        folder.sync_all()?;
    }
    Ok(())
}

/// Not every file system knows second names of a file.
fn second_name(path: &Path, other: &Path) -> io::Result<()> {
    if fs::hard_link(path, other).is_ok() {
        return Ok(());
    }
    let part = with_suffix(other, "-part");
    fs::copy(path, &part)?;
    open::narrow(&part, 0o600)?;
    fs::File::open(&part)?.sync_all()?;
    fs::rename(part, other)
}

fn new_name(path: &Path) -> PathBuf {
    path.with_extension("db-new")
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

fn remove_database(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(with_suffix(path, suffix));
    }
}
