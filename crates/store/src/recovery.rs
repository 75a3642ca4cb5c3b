//! Recovers from a damaged file: sets it aside and replaces it with the best available data.
//!
//! That is the rows that SQLite can still read, completed from the newest backup, because a broken
//! page can lose rows without an error. Deleted chats are not in the backups, so none returns. If
//! the result is not a complete history, the newest backup alone replaces the file, or else an
//! empty store.
//!
//! A crash between any two steps loses nothing: the new file is complete on the disk under another
//! name, then the damaged file gets a second name, then the new file replaces it. If a file named
//! [`new_name`] exists, only the last step is missing.
//!
//! Rule: the damaged file is never written to and never deleted, unless the user clears the
//! history.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::conversation::Timestamp;
use crate::error::StoreError;
use crate::notice::Notice;
use crate::private_files::{create_private, narrow};
use crate::store::{check_marker, connect};
use crate::{backup, check, schema, search_index};

const SET_ASIDE: &str = "transom-damaged-";

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
            create_private(&part)?;
            (None, (0, 0))
        }
    };
    let swapped = swap_in(path, &part, now).map_err(StoreError::io(path));
    let damaged = swapped.inspect_err(|_| remove_database(&part))?;
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

/// Creates a new database in `part` from the rows of the first source, completed with missing rows
/// of the next sources, up to the first intact one. Returns the number of its conversations and
/// messages.
///
/// # Errors
///
/// If the first source has no valid version, or the result is not a complete history.
fn save_from(
    damaged: &Path,
    sources: &[&Path],
    part: &Path,
    migrations: &[&str],
) -> Result<(u32, u32), StoreError> {
    remove_database(part);
    create_private(part)?;
    let save = || -> Result<(u32, u32), StoreError> {
        let mut target = connect(part)?;
        target.pragma_update(None, "foreign_keys", false)?;
        // Closing must not checkpoint the log of a damaged file into it.
        target.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        for (index, source) in sources.iter().enumerate() {
            target.execute("ATTACH ?1 AS source", [source.to_string_lossy()])?;
            if index == 0 {
                let known = known_migrations(&target, source, migrations)?;
                schema::migrate(&mut target, known)?;
            }
            let is_complete = add_rows(&target, source)?;
            target.execute("DETACH source", [])?;
            // Rows of the damaged file may be missing without an error.
            if is_complete && *source != damaged {
                break;
            }
        }
        search_index::mark_stale(&target)?;
        if !is_whole_history(&target)? {
            return Err(check::damaged(part, "messages are missing"));
        }
        let count = |table: &str| {
            let count = format!("SELECT count(*) FROM {table}");
            target.query_row(&count, [], |row| row.get(0))
        };
        Ok((count("conversation")?, count("message")?))
    };
    let counts = save().map_err(|error| error.at(part))?;
    let to_disk = fs::File::open(part).and_then(|file| file.sync_all());
    to_disk.map_err(StoreError::io(part))?;
    Ok(counts)
}

/// Returns the migrations that were applied to the attached source.
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
        .ok_or_else(|| check::unknown_version(source))
}

/// Adds missing rows from the attached source. Returns false if a table cannot be read.
fn add_rows(target: &Connection, source: &Path) -> Result<bool, StoreError> {
    let mut is_complete = true;
    // A backup may have an older format, with fewer columns.
    let in_source = schema::tables(target, "source").unwrap_or_default();
    for (table, mut columns) in schema::tables(target, "main")? {
        if let Some(known) = in_source.get(&table) {
            columns.retain(|column| known.contains(column));
        }
        let columns = columns.into_iter().collect::<Vec<_>>().join(", ");
        // The list of columns makes SQLite read rows. Otherwise it could copy index pages unread.
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

/// Returns true if all referenced rows exist and every message has its text.
fn is_whole_history(target: &Connection) -> Result<bool, StoreError> {
    let is_missing = |query: &str| target.prepare(query)?.exists([]);
    Ok(!is_missing("PRAGMA main.foreign_key_check")?
        && !is_missing("SELECT 1 FROM message WHERE id NOT IN (SELECT message FROM body)")?)
}

/// Finishes an interrupted recovery and removes its temporary files.
pub(crate) fn finish_interrupted(path: &Path) -> Result<(), StoreError> {
    remove_database(&path.with_extension("db-part"));
    if !new_name(path).exists() {
        return Ok(());
    }
    replace_with_new(path).map_err(StoreError::io(path))
}

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
            tracing::warn!(path = %entry.path().display(), %error, "a damaged file could not be removed");
        }
    }
}

/// Gives the damaged file its second name and replaces it with the new one.
fn swap_in(path: &Path, part: &Path, now: Timestamp) -> io::Result<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let stem = format!("{SET_ASIDE}{}", backup::date(now));
    let aside = backup::free_name(folder, &stem);
    link_or_copy(path, &aside)?;
    let log = with_suffix(path, "-wal");
    if log.exists() {
        link_or_copy(&log, &with_suffix(&aside, "-wal"))?;
    }
    fs::rename(part, new_name(path))?;
    replace_with_new(path)?;
    Ok(aside)
}

/// Replaces the damaged file with the new one. Its log must be deleted first, because SQLite would
/// apply it to the new file.
fn replace_with_new(path: &Path) -> io::Result<()> {
    for suffix in ["-wal", "-shm"] {
        match fs::remove_file(with_suffix(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(new_name(path), path)?;
    let _ = fs::remove_file(check_marker(path));
    if let Some(Ok(folder)) = path.parent().map(fs::File::open) {
        folder.sync_all()?;
    }
    Ok(())
}

/// Gives a file a second name. Copies it where the file system has no hard links.
fn link_or_copy(path: &Path, other: &Path) -> io::Result<()> {
    if fs::hard_link(path, other).is_ok() {
        return Ok(());
    }
    let part = with_suffix(other, "-part");
    fs::copy(path, &part)?;
    narrow(&part, 0o600)?;
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
