//! The disk for downloads: free bytes, and bytes that other downloads still need.
//!
//! Rule: this must agree with the hub's own check at the start of a download: same disk, same reserve.

use std::path::Path;

use transom_hub::{Download, DownloadsOptions, State};

/// The space on the disk for downloads.
#[derive(Debug, Clone)]
pub struct DiskSpace {
    /// Bytes that this user may still write; `None` if the system doesn't say.
    pub free_bytes: Option<u64>,
    spare_bytes: u64,
    /// The ids of unfinished downloads, with the bytes that each still needs.
    pending: Vec<(String, u64)>,
}

impl DiskSpace {
    /// Reads the free bytes of the disk now, with these downloads in the queue.
    pub fn read(options: &DownloadsOptions, downloads: &[Download]) -> Self {
        // The folder is created with the first download.
        let mut folders = options.parts_folder.ancestors();
        let free = |folder: &Path| options.disk.free_bytes(folder).ok();
        let undone = downloads.iter().filter(|one| one.state != State::Done);
        Self {
            free_bytes: folders.find_map(free),
            spare_bytes: options.spare_bytes,
            pending: undone
                .map(|one| (one.key.clone(), left_bytes(one)))
                .collect(),
        }
    }

    /// Returns the bytes that running downloads still need.
    pub fn pending_bytes(&self) -> u64 {
        let bytes = self.pending.iter().map(|(_, bytes)| *bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Returns the bytes that must become free before the model with this id can be downloaded. `None`
    /// if there is enough space, if the size is unknown, or if its download has begun, which reports a
    /// full disk itself.
    pub fn missing_bytes(&self, key: &str, size_bytes: Option<u64>) -> Option<u64> {
        if self.pending.iter().any(|(of, _)| of == key) {
            return None;
        }
        let taken = self.pending_bytes().saturating_add(self.spare_bytes);
        let needed = size_bytes?.saturating_add(taken);
        let missing = needed.saturating_sub(self.free_bytes?);
        (missing > 0).then_some(missing)
    }
}

/// Returns the bytes that a download still needs; 0 while it is paused.
fn left_bytes(download: &Download) -> u64 {
    let is_still = download.state == State::Paused || download.state.is_finished();
    match download.total_bytes {
        Some(total_bytes) if !is_still => total_bytes.saturating_sub(download.done_bytes),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io;
    use std::sync::Arc;

    use transom_hub::{Disk, DownloadId};

    use super::*;

    const GIB: u64 = 1 << 30;

    /// A disk with this much free space, in a folder that doesn't exist yet. Writes fail.
    #[derive(Debug)]
    struct Small(u64);

    impl Disk for Small {
        fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
            match folder.exists() {
                true => Ok(self.0),
                false => Err(io::ErrorKind::NotFound.into()),
            }
        }

        fn write_at(&self, _: &File, _: &[u8], _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn sync(&self, _: &File) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn options(free_bytes: u64) -> DownloadsOptions {
        DownloadsOptions {
            spare_bytes: GIB,
            disk: Arc::new(Small(free_bytes)),
            ..DownloadsOptions::in_folder("/not/there/models/.downloads")
        }
    }

    /// Returns a disk with this many free bytes and no downloads.
    fn free(bytes: u64) -> DiskSpace {
        DiskSpace::read(&options(bytes), &[])
    }

    fn download(key: &str, state: State) -> Download {
        Download {
            id: DownloadId(1),
            key: key.to_owned(),
            name: String::new(),
            repository: String::new(),
            folder: "/not/there/models/a/b".into(),
            state,
            done_bytes: 2 * GIB,
            total_bytes: Some(5 * GIB),
            bytes_per_second: 0,
            seconds_left: None,
            last_error: None,
        }
    }

    #[test]
    fn a_missing_folder_has_the_free_space_of_its_future_disk() {
        assert_eq!(free(7 * GIB).free_bytes, Some(7 * GIB));
        let real = DownloadsOptions::in_folder("/not/there/models");
        assert!(DiskSpace::read(&real, &[]).free_bytes.unwrap() > 0);
    }

    #[test]
    fn missing_bytes_include_the_reserve() {
        let disk = free(6 * GIB);
        assert_eq!(disk.missing_bytes("a", Some(5 * GIB)), None);
        assert_eq!(disk.missing_bytes("a", Some(5 * GIB + 3)), Some(3));
        assert_eq!(disk.missing_bytes("a", None), None);
    }

    #[test]
    fn the_space_that_running_downloads_still_need_is_not_available() {
        let downloads = [
            download("coming", State::Downloading),
            download("next", State::Queued),
            download("paused", State::Paused),
            download("done", State::Done),
        ];
        let disk = DiskSpace::read(&options(10 * GIB), &downloads);
        assert_eq!(disk.pending_bytes(), 6 * GIB);
        assert_eq!(disk.missing_bytes("other", Some(3 * GIB)), None);
        assert_eq!(disk.missing_bytes("other", Some(4 * GIB)), Some(GIB));
        // A download's own bytes don't count twice.
        for key in ["coming", "next", "paused"] {
            assert_eq!(disk.missing_bytes(key, Some(40 * GIB)), None, "{key}");
        }
        assert_eq!(disk.missing_bytes("done", Some(4 * GIB)), Some(GIB));
    }

    #[test]
    fn an_unknown_free_space_blocks_no_download() {
        let disk = DiskSpace {
            free_bytes: None,
            ..free(0)
        };
        assert_eq!(disk.missing_bytes("a", Some(GIB)), None);
    }
}
