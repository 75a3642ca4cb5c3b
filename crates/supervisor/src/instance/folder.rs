//! The data folder, its lock and the path of its socket.
//!
//! Rule: nothing in the folder is trusted before its owner and permissions are checked. The lock
//! file is never removed, because all processes must wait for the same file.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::InstanceError;

const LOCK_FILE: &str = "transom.lock";
const SOCKET_FILE: &str = "transom.sock";

/// Size of `sockaddr_un.sun_path`; the last byte is a zero.
const SUN_PATH_BYTES: usize = if cfg!(target_os = "linux") { 108 } else { 104 };

/// Permission bits that let other users write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The lock that makes this process the owner, until it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct InstanceLock {
    _file: File,
}

impl InstanceLock {
    /// Takes the lock; returns `None` if another process has it.
    pub(super) fn take(data_folder: &Path) -> Result<Option<Self>, InstanceError> {
        let path = data_folder.join(LOCK_FILE);
        let folder_error = |error| folder_error(&path, &error);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(&path).map_err(folder_error)?;
        check_owner(&path, &file.metadata().map_err(folder_error)?)?;
        Self::take_file(file).map_err(folder_error)
    }

    fn take_file(mut file: File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // For people, and for the error message if the owner does not respond. A full disk makes
        // both calls fail, but the lock is valid without them.
        let _ = file.set_len(0);
        let _ = writeln!(file, "{}", std::process::id());
        Ok(Some(Self { _file: file }))
    }
}

/// Returns the process that had the lock last, if its file contains one.
pub(super) fn last_owner(data_folder: &Path) -> Option<u32> {
    let text = fs::read_to_string(data_folder.join(LOCK_FILE)).ok()?;
    text.trim().parse().ok()
}

/// Creates the folder if necessary, and checks that only this user can write to it.
pub(super) fn prepare(data_folder: &Path) -> Result<(), InstanceError> {
    transom_files::create_private_folder(data_folder)
        .map_err(|error| folder_error(data_folder, &error))?;
    check(data_folder).map(|_| ())
}

/// Returns true if the folder exists; checks that only this user can write to it.
pub(super) fn check(data_folder: &Path) -> Result<bool, InstanceError> {
    let metadata = match fs::metadata(data_folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(folder_error(data_folder, &error)),
    };
    check_owner(data_folder, &metadata)?;
    let fault = if !metadata.is_dir() {
        "is not a folder"
    } else if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        "can be written by others"
    } else {
        return Ok(true);
    };
    Err(unsafe_error(data_folder, fault))
}

/// Returns the path of the socket; fails if it exceeds the limit of the system.
pub(super) fn socket_path(data_folder: &Path) -> Result<PathBuf, InstanceError> {
    let path = data_folder.join(SOCKET_FILE);
    let (bytes, limit) = (path.as_os_str().as_bytes().len(), SUN_PATH_BYTES - 1);
    if bytes > limit {
        return Err(InstanceError::Folder(format!(
            "{} is too long for the path of a socket ({bytes} bytes, the maximum is {limit}); \
             set TRANSOM_DATA to a folder with a shorter path",
            path.display()
        )));
    }
    Ok(path)
}

pub(super) fn own_user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), InstanceError> {
    let (owner, own) = (metadata.uid(), own_user_id());
    if owner == own {
        return Ok(());
    }
    let fault = format!("belongs to another user (id {owner}, yours is {own})");
    Err(unsafe_error(path, &fault))
}

pub(super) fn folder_error(path: &Path, error: &io::Error) -> InstanceError {
    InstanceError::Folder(format!("{}: {error}", path.display()))
}

/// Returns the error for a folder or file through which another user could read requests, or
/// pretend to be the supervisor. `fault` follows its path, such as `can be written by others`.
pub(super) fn unsafe_error(path: &Path, fault: &str) -> InstanceError {
    InstanceError::Folder(format!(
        "{} {fault}; make sure that only you can write to it (chown, chmod 700), or set \
         TRANSOM_DATA to another folder",
        path.display()
    ))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_lock_can_be_taken_on_a_full_disk() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(InstanceLock::take_file(full).unwrap().is_some());
    }
}
