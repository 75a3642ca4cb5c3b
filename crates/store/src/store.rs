//! The opened store: two connections to one file, one that writes and one that reads.
//!
//! With the write-ahead log a long search does not hold up the answer that grows at the same time.
//! Rule: every change is one transaction that begins as a writer (`BEGIN IMMEDIATE`), and the one
//! who calls says whether it must outlive a power cut when the call returns.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Transaction, TransactionBehavior};

use crate::conversation::Timestamp;
use crate::error::StoreError;
use crate::notice::Opened;
use crate::{open, schema};

/// Conversations and settings. Clones share the connections; every call blocks.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

/// What the clones share.
pub(crate) struct Inner {
    /// The database; `None` in memory.
    pub(crate) path: Option<PathBuf>,
    pub(crate) writer: Mutex<Writer>,
    /// `None` in memory, where the writer reads.
    pub(crate) reader: Option<Mutex<Connection>>,
    /// Held while backups are made or changed, so that none has what was just deleted.
    pub(crate) backups: Mutex<()>,
}

impl Inner {
    /// Waits for its turn to make or change backups.
    pub(crate) fn backups(&self) -> MutexGuard<'_, ()> {
        lock(&self.backups)
    }
}

/// So many changes that may wait for the disk make the next one not wait, and it takes them along:
/// at two a second, a power cut costs eight seconds of a growing answer.
const MAX_WAITING: u32 = 16;

/// The connection that changes things.
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    /// What `PRAGMA synchronous` was last set to.
    flush: Option<Flush>,
    /// Changes that may not be on the disk itself yet.
    n_waiting: u32,
}

/// When a change is certain to be on the disk itself. It is always whole, and always outlives this
/// program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// When the call returns: it outlives a power cut.
    Now,
    /// With a later change, or when the log is next folded in.
    Later,
}

impl Store {
    /// Opens the store of a data folder, and makes both if they are not there. Puts right what it
    /// can: see [`Opened::notices`]. A second call for the same folder in one process gives another
    /// handle of the same store. `now` dates the names of files that are set aside.
    ///
    /// # Errors
    ///
    /// When the folder or the file cannot be used, or a later version wrote it. The message says
    /// what to do; nothing was changed.
    pub fn open(folder: &Path, now: Timestamp) -> Result<Opened, StoreError> {
        open::open(folder, now, schema::MIGRATIONS)
    }

    /// A store that is gone with its last handle, for tests.
    ///
    /// # Errors
    ///
    /// When there is no memory for it.
    pub fn in_memory() -> Result<Self, StoreError> {
        open::in_memory()
    }

    /// The database file; `None` in memory.
    pub fn file(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// Makes a change whole or not at all.
    pub(crate) fn write<T>(
        &self,
        flush: Flush,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut writer = lock(&self.inner.writer);
        self.placed(writer.write(flush, work))
    }

    /// Reads at one moment of the file.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut writer;
        let mut reader;
        let connection = match &self.inner.reader {
            Some(mutex) => {
                reader = lock(mutex);
                &mut *reader
            }
            None => {
                writer = lock(&self.inner.writer);
                &mut writer.connection
            }
        };
        self.placed(read(connection, work))
    }

    /// Names the file in an error, and remembers damage so that the next opening looks closely.
    pub(crate) fn placed<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        let Some(path) = &self.inner.path else {
            return result.map_err(|error| error.at(Path::new("in memory")));
        };
        result.map_err(|error| {
            let error = error.at(path);
            if matches!(error, StoreError::Damaged { .. }) {
                open::suspect(path);
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
            n_waiting: 0,
        }
    }

    pub(crate) fn write<T>(
        &mut self,
        flush: Flush,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let flush = match self.n_waiting < MAX_WAITING {
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
        self.n_waiting = match flush {
            Flush::Now => 0,
            Flush::Later => self.n_waiting + 1,
        };
        Ok(value)
    }
}

fn read<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    let value = work(&tx)?;
    tx.finish()?;
    Ok(value)
}

/// Text of a row. A character that cannot be read is shown as such, and costs no other.
pub(crate) fn text(row: &Row<'_>, index: usize) -> rusqlite::Result<String> {
    Ok(optional_text(row, index)?.unwrap_or_default())
}

/// Text of a row, or nothing.
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

/// A count of a row; the nearest that there is if it was damaged.
pub(crate) fn count(row: &Row<'_>, index: usize) -> rusqlite::Result<u32> {
    let count: i64 = row.get(index)?;
    Ok(u32::try_from(count.max(0)).unwrap_or(u32::MAX))
}

/// A thread that panicked under the lock left no transaction open, for dropping one rolls it back.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.inner.path)
            .finish()
    }
}
