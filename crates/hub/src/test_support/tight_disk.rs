//! A disk with as much room as a test gives it.
//!
//! Rule: it counts what is written through it; the files themselves are real.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Disk, RealDisk};

/// A disk that gets full.
#[derive(Debug)]
pub struct TightDisk {
    room: AtomicU64,
    /// What it says is free, where that is not the truth.
    claimed: AtomicU64,
}

impl TightDisk {
    /// With so many bytes free.
    pub fn with_room(bytes: u64) -> Self {
        Self {
            room: AtomicU64::new(bytes),
            claimed: AtomicU64::new(0),
        }
    }

    /// From now on it has so many bytes free.
    pub fn set_room(&self, bytes: u64) {
        self.room.store(bytes, Ordering::SeqCst);
    }

    /// It says at least this much is free: another program takes it meanwhile.
    pub fn claim(&self, bytes: u64) {
        self.claimed.store(bytes, Ordering::SeqCst);
    }
}

impl Disk for TightDisk {
    fn free_bytes(&self, _folder: &Path) -> io::Result<u64> {
        let room = self.room.load(Ordering::SeqCst);
        Ok(room.max(self.claimed.load(Ordering::SeqCst)))
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let n_bytes = bytes.len() as u64;
        let taken = self
            .room
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |room| {
                room.checked_sub(n_bytes)
            });
        match taken {
            Ok(_) => RealDisk.write_at(file, bytes, offset),
            Err(_) => Err(ErrorKind::StorageFull.into()),
        }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        RealDisk.sync(file)
    }
}
