//! The disk, as far as downloads need it: room, writing, syncing, and what its errors mean.
//!
//! Rule: whatever may fail for want of room goes through [`Disk`], so that a full disk is a test
//! and not an accident.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::HubError;

/// A disk that parts are written to.
pub trait Disk: Debug + Send + Sync {
    /// How many bytes this user may still write into the folder.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;
    /// Writes all of it at this place.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Returns when what was written survives a power cut.
    fn sync(&self, file: &File) -> io::Result<()>;
}

/// This machine's.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        let room = rustix::fs::statvfs(folder)?;
        Ok(room.f_bavail.saturating_mul(room.f_frsize))
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}

/// Whether it failed for want of room: the disk's, a quota's, or a limit on files.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

/// What went wrong with this path. A full disk is for the caller, who knows what is needed.
pub(crate) fn trouble(path: &Path, error: &io::Error) -> HubError {
    let (path, reason) = (path.to_owned(), error.to_string());
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            HubError::NotWritable { path, reason }
        }
        _ => HubError::DiskTrouble { path, reason },
    }
}

pub(crate) fn make_folder(folder: &Path) -> Result<(), HubError> {
    fs::create_dir_all(folder).map_err(|error| trouble(folder, &error))
}

/// Replaces a small file so that after a power cut it is the old one or the new one.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    file.write_all(text)?;
    file.sync_data()?;
    fs::rename(&fresh, path)?;
    if let Some(folder) = path.parent() {
        sync_folder(folder)?;
    }
    Ok(())
}

/// After it, names in the folder survive a power cut.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// What files below a folder take on the disk, holes not counted; 0 where nothing is.
pub(crate) fn taken_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => taken_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_disk_has_room_and_writes_where_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert!(RealDisk.free_bytes(folder.path()).unwrap() > 0);
        let path = folder.path().join("a");
        let file = File::create(&path).unwrap();
        file.set_len(1 << 30).unwrap();
        RealDisk.write_at(&file, b"end", (1 << 30) - 3).unwrap();
        RealDisk.sync(&file).unwrap();
        assert!(taken_bytes(folder.path()) < 1 << 20, "holes take nothing");
        replace(&path, b"small").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"small");
    }

    #[test]
    fn errors_of_a_disk_are_told_apart() {
        let path = Path::new("models");
        for (kind, code) in [
            (ErrorKind::PermissionDenied, "not_writable"),
            (ErrorKind::ReadOnlyFilesystem, "not_writable"),
            (ErrorKind::Other, "disk_trouble"),
        ] {
            assert_eq!(trouble(path, &kind.into()).code(), code);
        }
        assert!(is_full(&ErrorKind::StorageFull.into()));
    }
}
