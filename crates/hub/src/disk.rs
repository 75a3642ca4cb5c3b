//! The disk operations of downloads: free space, writing, syncing, and what disk errors mean.
//!
//! Rule: every operation that can fail on a full disk goes through [`Disk`], so tests can simulate
//! a full disk.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::Serialize;

use crate::HubError;

/// A disk that part files are written to.
pub trait Disk: Debug + Send + Sync {
    /// Returns how many bytes this user may still write to the folder.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;
    /// Writes all bytes at this offset.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Syncs the file; returns when its bytes survive a power cut.
    fn sync(&self, file: &File) -> io::Result<()>;
}

/// The real disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        transom_signals::free_disk_bytes(folder)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        with_fsync_fallback(file.sync_data(), file)
    }
}

/// Returns the result of a full sync (`F_FULLFSYNC` on a Mac). Uses a plain `fsync` where the file
/// system, for example a network drive, does not support it.
fn with_fsync_fallback(full: io::Result<()>, file: &File) -> io::Result<()> {
    match full {
        Err(error) if is_unsupported(&error) => Ok(rustix::fs::fsync(file)?),
        result => result,
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let unsupported = [Errno::NOTSUP, Errno::OPNOTSUPP, Errno::INVAL, Errno::NOTTY];
    let raw = error.raw_os_error();
    unsupported
        .iter()
        .any(|known| raw == Some(known.raw_os_error()))
}

/// Returns true if the disk, or the user's quota, is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

/// Converts an I/O error of this path. Callers handle a full disk, because they know how much space
/// is needed.
pub(crate) fn disk_error(path: &Path, error: &io::Error) -> HubError {
    let (path, reason) = (path.to_owned(), error.to_string());
    match error.kind() {
        ErrorKind::FileTooLarge => HubError::DiskTrouble {
            path,
            reason: "this disk can't hold a file this large (4 GB is the limit of FAT32); keep \
                     models on another disk"
                .to_owned(),
        },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            HubError::NotWritable { path, reason }
        }
        _ => HubError::DiskTrouble { path, reason },
    }
}

pub(crate) fn create_folder(folder: &Path) -> Result<(), HubError> {
    fs::create_dir_all(folder).map_err(|error| disk_error(folder, &error))
}

/// Replaces a small file atomically: after a power cut it has either the old or the new content.
pub(crate) fn replace_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(text)?;
    RealDisk.sync(&file)?;
    fs::rename(&new, path)?;
    if let Some(folder) = path.parent() {
        sync_folder(folder)?;
    }
    Ok(())
}

/// Replaces a file with a value as JSON, like [`replace_file`].
pub(crate) fn save_json(path: &Path, value: &impl Serialize) -> Result<(), HubError> {
    let text = serde_json::to_vec_pretty(value).unwrap_or_default();
    replace_file(path, &text).map_err(|error| disk_error(path, &error))
}

/// Syncs a folder, so that the names in it survive a power cut.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = File::open(folder)?;
    with_fsync_fallback(folder.sync_all(), &folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_disk_has_free_space_and_writes_at_offsets() {
        let folder = tempfile::tempdir().unwrap();
        assert!(RealDisk.free_bytes(folder.path()).unwrap() > 0);
        let path = folder.path().join("a");
        let file = File::create(&path).unwrap();
        file.set_len(1 << 30).unwrap();
        RealDisk.write_at(&file, b"end", (1 << 30) - 3).unwrap();
        RealDisk.sync(&file).unwrap();
        replace_file(&path, b"small").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"small");
    }

    #[test]
    fn disk_errors_have_different_codes() {
        let path = Path::new("models");
        for (kind, code) in [
            (ErrorKind::PermissionDenied, "not_writable"),
            (ErrorKind::ReadOnlyFilesystem, "not_writable"),
            (ErrorKind::Other, "disk_trouble"),
            (ErrorKind::FileTooLarge, "disk_trouble"),
        ] {
            assert_eq!(disk_error(path, &kind.into()).code(), code);
        }
        assert!(is_full(&ErrorKind::StorageFull.into()));
        assert!(
            !is_full(&ErrorKind::FileTooLarge.into()),
            "FAT32 refuses a large file however much space is free"
        );
    }

    #[test]
    fn a_file_system_without_full_sync_uses_plain_fsync() {
        let file = tempfile::tempfile().unwrap();
        let failed = |errno: rustix::io::Errno| Err(errno.into());
        for errno in [rustix::io::Errno::NOTSUP, rustix::io::Errno::INVAL] {
            with_fsync_fallback(failed(errno), &file).unwrap();
        }
        let error = with_fsync_fallback(failed(rustix::io::Errno::IO), &file).unwrap_err();
        assert_eq!(
            error.raw_os_error(),
            Some(rustix::io::Errno::IO.raw_os_error())
        );
    }
}
