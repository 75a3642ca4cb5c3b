//! Whether a file is a whole store, and of which version.
//!
//! How closely it looks depends on what it costs. SQLite's log makes every change whole, so a crash
//! does not damage a file; a failing disk or another program does. Small files are read through at
//! every opening (tens of milliseconds); large ones once a week, and whenever a call met damage.
//!
//! Rule: nothing is written before everything was found right.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::conversation::Timestamp;
use crate::error::StoreError;
use crate::open::{connect, suspicion};
use crate::store::text;
use crate::{schema, search};

/// Files up to this size are read through at every opening.
const SMALL_BYTES: u64 = 8 << 20;

/// Larger ones when this has passed since the last time.
const CHECK_EVERY_MS: i64 = 7 * 24 * 60 * 60 * 1000;

/// Connects to a file that is empty, or whole and no later than the `migrations`.
///
/// # Errors
///
/// One that [`StoreError::is_damage`] when the file is to be set aside.
pub(crate) fn whole(
    path: &Path,
    now: Timestamp,
    migrations: &[&str],
) -> Result<Connection, StoreError> {
    let connection = connect(path)?;
    // Closing must not fold the log of a later version, or a damaged one, into the file.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    if connection.is_readonly("main")? {
        return Err(StoreError::ReadOnly {
            path: path.to_path_buf(),
        });
    }
    let n_tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if n_tables > 0 || schema::version(&connection)? > 0 {
        let version = check_version(&connection, path, migrations.len())?;
        if !schema::has_tables(&connection, &migrations[..version])? {
            return Err(damaged(path, "its tables are not as they were made"));
        }
        let is_suspected = suspicion(path).exists();
        if is_suspected || is_check_due(&connection, path, now)? {
            // The indexes are compared with their tables only if there is a reason.
            let check = if is_suspected {
                "integrity_check"
            } else {
                "quick_check"
            };
            check_pages(&connection, path, check)?;
            if is_suspected {
                search::doubt(&connection)?;
            }
            if n_bytes(path) > SMALL_BYTES {
                schema::set_meta(&connection, "checked_at", &now.0.to_string())?;
            }
            let _ = fs::remove_file(suspicion(path));
        }
    }
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(connection)
}

/// What was wrong, without the advice for people.
pub(crate) fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Damaged { reason, .. } => reason.clone(),
        StoreError::Database { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

/// The number stands in two places. When they differ one of them is damaged, and the file is not
/// believed to come from a later version.
fn check_version(connection: &Connection, path: &Path, known: usize) -> Result<usize, StoreError> {
    let found = schema::version(connection)?;
    let noted = schema::meta(connection, "schema")?;
    if noted.as_deref() != Some(found.to_string().as_str()) || found == 0 {
        return Err(unknown_version(path));
    }
    if found as usize > known {
        return Err(StoreError::Newer {
            path: path.to_path_buf(),
            found,
            known: u32::try_from(known).unwrap_or(u32::MAX),
            written_by: schema::meta(connection, "app")?.unwrap_or_else(|| "?".to_string()),
        });
    }
    Ok(found as usize)
}

/// The error of a file whose version is damaged.
pub(crate) fn unknown_version(path: &Path) -> StoreError {
    damaged(path, "its version cannot be told")
}

/// The error of a file that is to be set aside.
pub(crate) fn damaged(path: &Path, reason: &str) -> StoreError {
    StoreError::Damaged {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    }
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
