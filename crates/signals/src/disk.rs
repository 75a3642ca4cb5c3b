//! Free space on a disk.

use std::io;
use std::path::Path;

/// Returns the bytes that this user can still write into `folder`, which must exist.
///
/// On a Mac, space that the system can clear for the user counts as free, as it does in the Finder
/// (`NSURLVolumeAvailableCapacityForImportantUsageKey`).
///
/// # Errors
/// The folder does not exist, or its file system cannot be queried.
pub fn free_disk_bytes(folder: &Path) -> io::Result<u64> {
    let free = rustix::fs::statvfs(folder)?;
    let free_bytes = free.f_bavail.saturating_mul(free.f_frsize);
    #[cfg(target_os = "macos")]
    let free_bytes = free_bytes.max(crate::mac::clearable_disk_bytes(folder).unwrap_or(0));
    Ok(free_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_the_free_space_of_its_disk_and_a_missing_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_disk_bytes(folder.path()).unwrap() > 0);
        let missing = free_disk_bytes(&folder.path().join("missing"));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
