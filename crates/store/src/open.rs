//! Opens the store: the folder, the file, its integrity, its version.
//!
//! Rule: nothing is written to a file until it is known to be intact and of this version or an
//! older one. A folder is opened once per process, and later calls share the store, because a
//! second opening would mark the responses that the first one is writing as interrupted.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::conversation::{FIRST_TEMPORARY_ID, Timestamp};
use crate::error::{StoreError, StoreErrorKind};
use crate::notice::{Notice, Opened};
use crate::private_files::{make_private_file, make_private_folder};
use crate::store::{Flush, Inner, Store, Writer, connect, execute, prepare};
use crate::{backup, check, messages, recovery, schema, search_index, settings};

/// The name of the database file in the data folder.
pub(crate) const FILE: &str = "transom.db";

/// The stores that are open in this process, by their path.
static OPEN: Mutex<Vec<(PathBuf, Weak<Inner>)>> = Mutex::new(Vec::new());

impl Store {
    /// Opens the store of a data folder, and creates both if they do not exist. Repairs what it
    /// can: see [`Opened::notices`]. A second call for the same folder in one process returns
    /// another handle of the same store. `now` is the date in the names of files that are set
    /// aside.
    ///
    /// # Errors
    ///
    /// If the folder or the file cannot be used, or a newer version wrote it. The message says what
    /// to do; nothing was changed.
    pub fn open(folder: &Path, now: Timestamp) -> Result<Opened, StoreError> {
        open(folder, now, schema::MIGRATIONS)
    }

    /// Creates a store in memory, for tests.
    pub fn in_memory() -> Result<Self, StoreError> {
        let make = || {
            let mut connection = Connection::open_in_memory()?;
            prepare(&connection)?;
            schema::migrate(&mut connection, schema::MIGRATIONS)?;
            search_index::rebuild_if_stale(&connection)?;
            Ok(connection)
        };
        let connection = make().map_err(|error: StoreError| error.at(Path::new("in memory")))?;
        Ok(Self {
            inner: Arc::new(Inner {
                path: None,
                writer: Mutex::new(Writer::new(connection)),
                reader: None,
                backups: Mutex::default(),
            }),
        })
    }

    /// Creates a store in memory for conversations that are never written to the disk. Their ids,
    /// and those of their messages, differ from all ids in files: see
    /// [`crate::ConversationId::is_temporary`].
    pub fn temporary() -> Result<Self, StoreError> {
        let store = Self::in_memory()?;
        store.write(Flush::Later, |tx| {
            let sql = "INSERT INTO sqlite_sequence (name, seq)
                       VALUES ('conversation', ?1), ('message', ?1)";
            execute(tx, sql, [FIRST_TEMPORARY_ID - 1])
        })?;
        Ok(store)
    }
}

fn open(folder: &Path, now: Timestamp, migrations: &[&str]) -> Result<Opened, StoreError> {
    let found = make_private_folder(folder).and_then(|()| fs::canonicalize(folder));
    let folder =
        found.map_err(|source| StoreError::file(StoreErrorKind::Folder, folder, source))?;
    let path = folder.join(FILE);
    let mut open = OPEN.lock();
    open.retain(|(_, inner)| inner.strong_count() > 0);
    let shared = open.iter().find(|(other, _)| *other == path);
    if let Some(inner) = shared.and_then(|(_, inner)| inner.upgrade()) {
        return Ok(Opened {
            store: Store { inner },
            notices: Vec::new(),
        });
    }
    let opened = open_file(&path, now, migrations).map_err(|error| error.at(&path))?;
    open.push((path, Arc::downgrade(&opened.store.inner)));
    Ok(opened)
}

fn open_file(path: &Path, now: Timestamp, migrations: &[&str]) -> Result<Opened, StoreError> {
    let mut notices = Vec::new();
    recovery::finish_interrupted(path)?;
    backup::remove_unfinished(path);
    make_private_file(path).map_err(StoreError::io(path))?;
    check_folder(path)?;
    let mut connection = match check::open_checked(path, now, migrations) {
        Ok(connection) => connection,
        Err(error) if error.is_damage() => {
            let reason = check::reason(&error);
            tracing::warn!(path = %path.display(), reason, "the store is damaged");
            notices.push(recovery::recover(path, &reason, now, migrations)?);
            check::open_checked(path, now, migrations)?
        }
        Err(error) => return Err(error),
    };
    let found = schema::version(&connection)?;
    if found > 0 && (found as usize) < migrations.len() {
        let backup = backup::make(path, &format!("transom-format{found}"), now)?;
        notices.push(Notice::BackedUp { backup });
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    schema::migrate(&mut connection, migrations)?;
    let mut writer = Writer::new(connection);
    let responses = writer.write(Flush::Now, |tx| {
        if schema::meta(tx, "app")?.as_deref() != Some(env!("CARGO_PKG_VERSION")) {
            schema::set_meta(tx, "app", env!("CARGO_PKG_VERSION"))?;
        }
        search_index::rebuild_if_stale(tx)?;
        messages::interrupt(tx)
    })?;
    if responses > 0 {
        notices.push(Notice::Interrupted { responses });
    }
    let issues = settings::issues(&writer.connection)?.into_iter();
    notices.extend(issues.map(|issue| Notice::SettingIgnored { issue }));
    let reader = connect(path)?;
    let inner = Inner {
        path: Some(path.to_path_buf()),
        writer: Mutex::new(writer),
        reader: Some(Mutex::new(reader)),
        backups: Mutex::default(),
    };
    Ok(Opened {
        store: Store {
            inner: Arc::new(inner),
        },
        notices,
    })
}

/// Checks that files can be created in the folder. SQLite needs that, and its own error is not
/// helpful.
fn check_folder(path: &Path) -> Result<(), StoreError> {
    let trial = path.with_extension("db-trial");
    let tried = fs::write(&trial, "").and_then(|()| fs::remove_file(&trial));
    tried.map_err(StoreError::io(&trial))
}

#[cfg(test)]
mod tests;
