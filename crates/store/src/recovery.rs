//! What to do with a damaged file: set it aside, and put the best that there is in its place.
//!
//! That is what SQLite still reads of its tables, with what the newest backup has and they have not:
//! a broken page can lose rows without an error. Deleted chats leave the backups too, so none comes
//! back. If that is no whole history, the newest backup alone takes its place, else an empty store.
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
use rusqlite::config::DbConfig;

use crate::conversation::Timestamp;
use crate::error::StoreError;
use crate::notice::Notice;
use crate::{backup, examine, open, schema, search};

const SET_ASIDE: &str = "transom-damaged-";

/// Puts a sound file in place of the damaged one.
pub(crate) fn recover(
    path: &Path,
    reason: &str,
    now: Timestamp,
    migrations: &[&str],
) -> Result<Notice, StoreError> {
    let part = path.with_extension("db-part");
    let backups = backup::all(path);
    let backups = backups.iter().rev().map(PathBuf::as_path);
    let sources: Vec<&Path> = std::iter::once(path).chain(backups).collect();
    let saved = (0..sources.len()).find_map(|first| {
        let saved = save_from(path, &sources[first..], &part, migrations);
        let failed = |error: &StoreError| {
            let path = sources[first].display();
            tracing::warn!(%path, %error, "the history cannot be restored from here");
        };
        Some((sources[first], saved.inspect_err(failed).ok()?))
    });
    let (source, (conversations, messages)) = match saved {
        Some((source, counts)) => (Some(source), counts),
        None => {
            remove_database(&part);
            backup::create_private(&part).map_err(|error| StoreError::io(&part, &error))?;
            (None, (0, 0))
        }
    };
    let placed = place(path, &part, now).map_err(|error| StoreError::io(path, &error));
    let damaged = placed.inspect_err(|_| remove_database(&part))?;
    Ok(Notice::Recovered {
        damaged,
        reason: reason.to_string(),
        conversations,
        messages,
        backed_up_at: source
            .filter(|source| *source != path)
            .and_then(backup::made_at),
    })
}

/// Makes a new database in `part` of the rows of the first source, and of those rows of the next
/// sources that are missing then, up to the first whole one. Returns the numbers of its
/// conversations and messages.
///
/// # Errors
///
/// When the first source does not tell its version, or the result is no whole history.
fn save_from(
    damaged: &Path,
    sources: &[&Path],
    part: &Path,
    migrations: &[&str],
) -> Result<(u32, u32), StoreError> {
    remove_database(part);
    backup::create_private(part).map_err(|error| StoreError::io(part, &error))?;
    let save = || -> Result<(u32, u32), StoreError> {
        let mut target = open::connect(part)?;
        target.pragma_update(None, "foreign_keys", false)?;
        // Closing must not fold the log of a damaged file into it.
        target.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        for (index, source) in sources.iter().enumerate() {
            target.execute("ATTACH ?1 AS source", [source.to_string_lossy()])?;
            if index == 0 {
                let known = known_migrations(&target, source, migrations)?;
                schema::migrate(&mut target, known)?;
            }
            let is_complete = add_rows(&target, source)?;
            target.execute("DETACH source", [])?;
            // Of the damaged file rows may be missing without an error.
            if is_complete && *source != damaged {
                break;
            }
        }
        search::doubt(&target)?;
        if !is_whole_history(&target)? {
            return Err(examine::damaged(part, "messages are missing"));
        }
        let count = |table: &str| {
            let count = format!("SELECT count(*) FROM {table}");
            target.query_row(&count, [], |row| row.get(0))
        };
        Ok((count("conversation")?, count("message")?))
    };
    let counts = save().map_err(|error| error.at(part))?;
    let to_disk = fs::File::open(part).and_then(|file| file.sync_all());
    to_disk.map_err(|error| StoreError::io(part, &error))?;
    Ok(counts)
}

/// The migrations that the attached source has had.
fn known_migrations<'a>(
    target: &Connection,
    source: &Path,
    migrations: &'a [&'a str],
) -> Result<&'a [&'a str], StoreError> {
    let version: u32 =
        target.pragma_query_value(Some("source"), "user_version", |row| row.get(0))?;
    let known = migrations.get(..version as usize);
    known
        .filter(|known| !known.is_empty())
        .ok_or_else(|| examine::unknown_version(source))
}

/// Adds the rows of the attached source that are missing. Returns false if a table cannot be read.
fn add_rows(target: &Connection, source: &Path) -> Result<bool, StoreError> {
    let mut is_complete = true;
    for (table, columns) in schema::tables(target)? {
        // With a list of columns SQLite reads rows. Else it could copy pages of indexes as they are.
        let added = target.execute_batch(&format!(
            "INSERT OR IGNORE INTO main.{table} ({columns})
             SELECT {columns} FROM source.{table} NOT INDEXED"
        ));
        if let Err(error) = added {
            tracing::warn!(path = %source.display(), table, %error, "a table cannot be read");
            is_complete = false;
        }
    }
    Ok(is_complete)
}

/// Returns true if every row that is pointed to is there, and every message has its text.
fn is_whole_history(target: &Connection) -> Result<bool, StoreError> {
    let is_missing = |query: &str| target.prepare(query)?.exists([]);
    Ok(!is_missing("PRAGMA main.foreign_key_check")?
        && !is_missing("SELECT 1 FROM message WHERE id NOT IN (SELECT message FROM body)")?)
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
