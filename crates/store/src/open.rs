//! Opens the store: the folder, the file, its integrity, its version.
//!
//! Rule: nothing is written to a file until it is known to be intact and of this version or an
//! older one. A folder is opened once per process, and later calls share the store, because a
//! second opening would mark the responses that the first one is writing as interrupted.

use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::conversation::Timestamp;
use crate::error::{StoreError, StoreErrorKind};
use crate::notice::{Notice, Opened};
use crate::store::{Flush, Inner, Store, Writer, lock};
use crate::{backup, check, messages, recovery, schema, search, settings};

/// The name of the database file in the data folder.
pub(crate) const FILE: &str = "transom.db";

/// Another process locks the file for so long only if it hangs.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The stores that are open in this process, by their path.
static OPEN: Mutex<Vec<(PathBuf, Weak<Inner>)>> = Mutex::new(Vec::new());

pub(crate) fn open(
    folder: &Path,
    now: Timestamp,
    migrations: &[&str],
) -> Result<Opened, StoreError> {
    let found = make_private_folder(folder).and_then(|()| fs::canonicalize(folder));
    let folder =
        found.map_err(|source| StoreError::file(StoreErrorKind::Folder, folder, source))?;
    let path = folder.join(FILE);
    let mut open = lock(&OPEN);
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
        search::rebuild_if_stale(tx)?;
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

pub(crate) fn in_memory() -> Result<Store, StoreError> {
    let make = || {
        let mut connection = Connection::open_in_memory()?;
        prepare(&connection)?;
        schema::migrate(&mut connection, schema::MIGRATIONS)?;
        search::rebuild_if_stale(&connection)?;
        Ok(connection)
    };
    let connection = make().map_err(|error: StoreError| error.at(Path::new("in memory")))?;
    Ok(Store {
        inner: Arc::new(Inner {
            path: None,
            writer: Mutex::new(Writer::new(connection)),
            reader: None,
            backups: Mutex::default(),
        }),
    })
}

/// Checks that files can be created in the folder. SQLite needs that, and its own error is not
/// helpful.
fn check_folder(path: &Path) -> Result<(), StoreError> {
    let trial = path.with_extension("db-trial");
    let tried = fs::write(&trial, "").and_then(|()| fs::remove_file(&trial));
    tried.map_err(StoreError::io(&trial))
}

/// Opens a connection with the settings that all connections need.
pub(crate) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path)?;
    prepare(&connection)?;
    Ok(connection)
}

fn prepare(connection: &Connection) -> Result<(), StoreError> {
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
pub(crate) fn request_check(path: &Path) {
    if let Err(error) = fs::write(check_marker(path), "") {
        tracing::warn!(%error, "cannot request a check at the next start");
    }
}

/// The path of the marker file that requests a check.
pub(crate) fn check_marker(path: &Path) -> PathBuf {
    path.with_extension("db-check")
}

/// Creates the folder if it does not exist. Only this user can read it.
pub(crate) fn make_private_folder(folder: &Path) -> io::Result<()> {
    transom_files::create_private_folder(folder)?;
    narrow(folder, 0o700)
}

/// Creates an empty file if there is none. Only this user can read it; SQLite gives its log the
/// same mode.
fn make_private_file(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(path)?;
    narrow(path, 0o600)
}

/// Creates an empty file that only this user can read.
pub(crate) fn create_private(path: &Path) -> Result<(), StoreError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path).map(drop).map_err(StoreError::io(path))
}

/// Removes all permissions that are not in `mode`.
pub(crate) fn narrow(path: &Path, mode: u32) -> io::Result<()> {
    let found = fs::metadata(path)?.permissions().mode() & 0o777;
    if found & !mode == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(found & mode))
}

#[cfg(test)]
mod tests;
