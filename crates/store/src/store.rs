//! The opened store: two connections to one file, one for writing and one for reading.
//!
//! With the write-ahead log, a long search does not block a growing response. Rule: every change is
//! one transaction that begins as a writer (`BEGIN IMMEDIATE`), and the caller says whether it must
//! survive a power cut when the call returns.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Params, Row, Transaction, TransactionBehavior};

use crate::conversation::MessageRole;
use crate::error::{StoreError, StoreErrorKind};

/// Conversations and settings. Clones share the connections. Calls block.
///
/// A method that takes an id fails with [`StoreError::NoConversation`] or [`StoreError::NoMessage`]
/// if nothing has this id. Every method fails if the file cannot be read or written.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

/// The state that clones share.
pub(crate) struct Inner {
    /// The database; `None` in memory.
    pub(crate) path: Option<PathBuf>,
    pub(crate) writer: Mutex<Writer>,
    /// `None` in memory, where the writer also reads.
    pub(crate) reader: Option<Mutex<Connection>>,
    /// Locked while backups are made or changed, so that no backup contains text that was just
    /// deleted.
    pub(crate) backups: Mutex<()>,
}

/// Another process locks the file for so long only if it hangs.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// After so many unsynced changes, the next change is synced with all of them. At two changes per
/// second, a power cut loses at most eight seconds of a growing response.
const MAX_UNFLUSHED: u32 = 16;

/// The connection for writing.
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    /// The current value of `PRAGMA synchronous`.
    flush: Option<Flush>,
    /// The number of changes that may not be synced yet.
    n_unflushed: u32,
}

/// When a change is synced to the disk. A change is always atomic, and always survives a crash of
/// this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// When the call returns: the change survives a power cut.
    Now,
    /// With a later change, or at the next checkpoint of the log.
    Later,
}

impl Store {
    pub(crate) fn write<T>(
        &self,
        flush: Flush,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut writer = self.inner.writer.lock();
        self.with_path(writer.write(flush, work))
    }

    /// Reads a consistent snapshot.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut writer;
        let mut reader;
        let connection = match &self.inner.reader {
            Some(mutex) => {
                reader = mutex.lock();
                &mut *reader
            }
            None => {
                writer = self.inner.writer.lock();
                &mut writer.connection
            }
        };
        let read = || -> Result<T, StoreError> {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
            let value = work(&tx)?;
            tx.finish()?;
            Ok(value)
        };
        self.with_path(read())
    }

    /// Adds the file to an error. After damage, requests a check at the next opening.
    pub(crate) fn with_path<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        let Some(path) = &self.inner.path else {
            return result.map_err(|error| error.at(Path::new("in memory")));
        };
        result.map_err(|error| {
            let error = error.at(path);
            if error.kind() == Some(StoreErrorKind::Damaged) {
                request_check(path);
            }
            error
        })
    }
}

impl Writer {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            flush: None,
            n_unflushed: 0,
        }
    }

    pub(crate) fn write<T>(
        &mut self,
        flush: Flush,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let flush = match self.n_unflushed < MAX_UNFLUSHED {
            true => flush,
            false => Flush::Now,
        };
        if self.flush != Some(flush) {
            let level = match flush {
                Flush::Now => "FULL",
                Flush::Later => "NORMAL",
            };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.flush = Some(flush);
        }
        let tx = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = work(&tx)?;
        tx.commit()?;
        self.n_unflushed = match flush {
            Flush::Now => 0,
            Flush::Later => self.n_unflushed + 1,
        };
        Ok(value)
    }
}

/// Opens a connection with the settings that all connections need.
pub(crate) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path)?;
    prepare(&connection)?;
    Ok(connection)
}

pub(crate) fn prepare(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(64);
    // The schema of a file from elsewhere must not run code.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    // Deleted bytes are overwritten.
    connection.pragma_update(None, "secure_delete", true)?;
    // On macOS, `fsync` leaves data in the drive's own cache.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    // No text in the system's folder for temporary files.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // A log that was large once, for example after an import, is truncated after its checkpoint.
    connection.pragma_update(None, "journal_size_limit", 4 << 20)?;
    Ok(())
}

/// Makes the next opening check every page.
fn request_check(path: &Path) {
    if let Err(error) = fs::write(check_marker(path), "") {
        tracing::warn!(%error, "cannot request a check at the next start");
    }
}

/// The path of the marker file that requests a check.
pub(crate) fn check_marker(path: &Path) -> PathBuf {
    path.with_extension("db-check")
}

/// Runs a statement, and returns the number of changed rows.
pub(crate) fn execute(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<usize, StoreError> {
    Ok(connection.prepare_cached(sql)?.execute(params)?)
}

/// Reads the row of a query; `None` if there is none.
pub(crate) fn query_one<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row(params, read).optional()?)
}

/// Reads all rows of a query.
pub(crate) fn query_all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params, read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Reads a text column. Invalid characters are replaced, and cost no others.
pub(crate) fn text(row: &Row<'_>, index: usize) -> rusqlite::Result<String> {
    Ok(optional_text(row, index)?.unwrap_or_default())
}

pub(crate) fn optional_text(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Null => None,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
    })
}

/// Returns the role in a column. The schema allows no other name.
pub(crate) fn role(row: &Row<'_>, index: usize) -> rusqlite::Result<MessageRole> {
    Ok(text(row, index)?.parse().unwrap_or(MessageRole::Assistant))
}

/// Reads a count column. A damaged value becomes the nearest valid one.
pub(crate) fn count(row: &Row<'_>, index: usize) -> rusqlite::Result<u32> {
    let count: i64 = row.get(index)?;
    Ok(u32::try_from(count.max(0)).unwrap_or(u32::MAX))
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.inner.path)
            .finish()
    }
}
