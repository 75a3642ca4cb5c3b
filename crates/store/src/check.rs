//! Checks whether a file is an intact store, and which version wrote it.
//!
//! How much is checked depends on the cost. SQLite's log makes every change atomic, so a crash does
//! not damage a file; a failing disk or another program does. Small files are checked completely at
//! every start (tens of milliseconds), large ones once a week and after a call found damage.
//!
//! Rule: nothing is written until all checks have passed.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::conversation::Timestamp;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{check_marker, connect, text};
use crate::{schema, search_index};

/// Files up to this size are checked at every start.
const SMALL_BYTES: u64 = 8 << 20;

const CHECK_EVERY_MS: i64 = 7 * 24 * 60 * 60 * 1000;

/// Opens a file that is empty, or intact and no newer than the `migrations`.
///
/// # Errors
///
/// An error for which [`StoreError::is_damage`] is true if the file must be set aside.
pub(crate) fn open_checked(
    path: &Path,
    now: Timestamp,
    migrations: &[&str],
) -> Result<Connection, StoreError> {
    let connection = connect(path)?;
    // Closing must not checkpoint the log of a newer version, or a damaged one, into the file.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    if connection.is_readonly("main")? {
        return Err(StoreError::file(StoreErrorKind::ReadOnly, path, ""));
    }
    let n_tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if n_tables > 0 || schema::version(&connection)? > 0 {
        let version = check_version(&connection, path, migrations.len())?;
        if !schema::has_tables(&connection, &migrations[..version])? {
            return Err(damaged(path, "its tables are not as they were made"));
        }
        let is_check_requested = check_marker(path).exists();
        if is_check_requested || is_check_due(&connection, path, now)? {
            // Comparing the indexes with their tables takes longer, so it is done only after damage
            // was found.
            let check = if is_check_requested {
                "integrity_check"
            } else {
                "quick_check"
            };
            check_pages(&connection, path, check)?;
            if is_check_requested {
                search_index::mark_stale(&connection)?;
            }
            if n_bytes(path) > SMALL_BYTES {
                schema::set_meta(&connection, "checked_at", &now.0.to_string())?;
            }
            let _ = fs::remove_file(check_marker(path));
        }
    }
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(connection)
}

/// Returns what is wrong with the file, without the advice for users.
pub(crate) fn reason(error: &StoreError) -> String {
    match error {
        StoreError::File { reason, .. } if error.is_damage() => reason.clone(),
        StoreError::Database { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

/// Checks the version, which is stored in two places. If they differ, one of them is damaged, and
/// the file does not count as one of a newer version.
fn check_version(connection: &Connection, path: &Path, known: usize) -> Result<usize, StoreError> {
    let found = schema::version(connection)?;
    let noted = schema::meta(connection, "schema")?;
    if noted.as_deref() != Some(found.to_string().as_str()) || found == 0 {
        return Err(unknown_version(path));
    }
    if found as usize > known {
        let written_by = schema::meta(connection, "app")?.unwrap_or_else(|| "?".to_string());
        let versions = format!(
            "Transom {written_by} (format {found}); this version reads up to format {known}"
        );
        return Err(StoreError::file(StoreErrorKind::Newer, path, versions));
    }
    Ok(found as usize)
}

/// The error for a file whose version is damaged.
pub(crate) fn unknown_version(path: &Path) -> StoreError {
    damaged(path, "its version is unknown")
}

/// The error for a file that must be set aside.
pub(crate) fn damaged(path: &Path, reason: &str) -> StoreError {
    StoreError::file(StoreErrorKind::Damaged, path, reason)
}

fn is_check_due(connection: &Connection, path: &Path, now: Timestamp) -> Result<bool, StoreError> {
    if n_bytes(path) <= SMALL_BYTES {
        return Ok(true);
    }
    let checked_at = schema::meta(connection, "checked_at")?.and_then(|at| at.parse().ok());
    Ok(checked_at.is_none_or(|at: i64| !(0..CHECK_EVERY_MS).contains(&(now.0 - at))))
}

fn n_bytes(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

fn check_pages(connection: &Connection, path: &Path, check: &str) -> Result<(), StoreError> {
    let found = connection.query_row(&format!("PRAGMA {check}(1)"), [], |row| text(row, 0))?;
    if found == "ok" {
        return Ok(());
    }
    Err(damaged(path, &found.replace('\n', " ")))
}
