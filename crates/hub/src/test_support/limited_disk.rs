//! A disk with limited space for tests.
//!
//! Rule: it counts the bytes that are written through it; the files themselves are real.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Disk, RealDisk};

/// A disk with limited space.
#[derive(Debug)]
pub struct LimitedDisk {
    free_bytes: AtomicU64,
    /// The free space that it reports, if larger than the real one.
    reported_bytes: AtomicU64,
}

impl LimitedDisk {
    /// Creates a disk with so many free bytes.
    pub fn with_free_bytes(bytes: u64) -> Self {
        Self {
            free_bytes: AtomicU64::new(bytes),
            reported_bytes: AtomicU64::new(0),
        }
    }

    /// Sets the number of free bytes.
    pub fn set_free_bytes(&self, bytes: u64) {
        self.free_bytes.store(bytes, Ordering::SeqCst);
    }

    /// Sets the number of bytes that it reports as free at least, as if another program took the
    /// space after the check.
    pub fn report_free_bytes(&self, bytes: u64) {
        self.reported_bytes.store(bytes, Ordering::SeqCst);
    }
}

impl Disk for LimitedDisk {
    fn free_bytes(&self, _folder: &Path) -> io::Result<u64> {
        let free_bytes = self.free_bytes.load(Ordering::SeqCst);
        Ok(free_bytes.max(self.reported_bytes.load(Ordering::SeqCst)))
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let n_bytes = bytes.len() as u64;
        let subtracted =
            self.free_bytes
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |free_bytes| {
                    free_bytes.checked_sub(n_bytes)
                });
        match subtracted {
            Ok(_) => RealDisk.write_at(file, bytes, offset),
            Err(_) => Err(ErrorKind::StorageFull.into()),
        }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        RealDisk.sync(file)
    }
}
