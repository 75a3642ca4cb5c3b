//! One program at a time works on the parts of a download.
//!
//! Rule: the system holds the lock, so it goes with the program that has it, however that ends.
//! Each write in flight holds it too: nobody takes a part over while old writes may still land.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, RwLock};

use crate::HubError;
use crate::disk::{make_folder, trouble};

const NAME: &str = "lock";

/// The right to work in a folder, while it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
    flights: Arc<RwLock<()>>,
}

/// A part of the lock that goes along with a write in flight.
#[derive(Debug)]
pub(crate) struct Held {
    _lock: Arc<Lock>,
    _flight: Option<OwnedRwLockReadGuard<()>>,
}

impl Lock {
    /// Takes the lock of a folder, which is made. Fails with [`HubError::InUse`] while another
    /// program, or an ending attempt of this one, has it.
    pub(crate) fn take(folder: &Path, name: &str) -> Result<Self, HubError> {
        loop {
            make_folder(folder)?;
            let path = folder.join(NAME);
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path);
            let mut file = match opened {
                Ok(file) => file,
                // The one who had it has just removed the folder.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(trouble(&path, &error)),
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(HubError::InUse {
                        by: holder(&mut file),
                        name: name.to_owned(),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(trouble(&path, &error)),
            }
            // A lock on a file that is no longer in the folder keeps nobody out.
            let inode = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
            let held = file.metadata().map(inode).ok();
            if held.is_none() || held != fs::metadata(&path).map(inode).ok() {
                continue;
            }
            let _ = file.set_len(0);
            let _ = write!(file, "{}", myself());
            return Ok(Self {
                _file: file,
                flights: Arc::default(),
            });
        }
    }

    /// For a write that may outlive who asked for it.
    pub(crate) fn held(self: &Arc<Self>) -> Held {
        Held {
            _lock: Arc::clone(self),
            _flight: Arc::clone(&self.flights).try_read_owned().ok(),
        }
    }

    /// Returns when no write is in flight any more.
    pub(crate) async fn settled(&self) {
        let _all = self.flights.write().await;
    }

    /// Whether somebody has the lock of this folder.
    pub(crate) fn is_held(folder: &Path) -> bool {
        match File::open(folder.join(NAME)) {
            Ok(file) => matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
            Err(_) => false,
        }
    }
}

fn myself() -> String {
    let program = std::env::current_exe().ok();
    let name = program
        .as_deref()
        .and_then(Path::file_name)
        .map_or("a program".into(), |name| name.to_string_lossy());
    format!("{name} (process {})", std::process::id())
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.take(200).read_to_string(&mut text);
    let text = text.trim();
    if text.is_empty() {
        return "Another program".to_owned();
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_has_it_and_takes_over_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("parts");
        let first = Lock::take(&folder, "Qwen3").unwrap();
        assert!(Lock::is_held(&folder));
        let error = Lock::take(&folder, "Qwen3").unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&std::process::id().to_string()), "{text}");
        assert!(text.ends_with("is fetching Qwen3 already."), "{text}");
        drop(first);
        assert!(!Lock::is_held(&folder));
        Lock::take(&folder, "Qwen3").unwrap();
    }

    #[tokio::test]
    async fn a_write_in_flight_keeps_the_lock_and_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Arc::new(Lock::take(folder.path(), "a").unwrap());
        let held = lock.held();
        assert!(futures_util::poll!(std::pin::pin!(lock.settled())).is_pending());
        drop(lock);
        assert!(Lock::is_held(folder.path()));
        drop(held);
        let lock = Lock::take(folder.path(), "a").unwrap();
        lock.settled().await;
    }

    #[test]
    fn a_lock_in_a_folder_that_was_removed_keeps_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("parts");
        let first = Lock::take(&folder, "a").unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let _second = Lock::take(&folder, "a").unwrap();
        assert!(Lock::take(&folder, "a").is_err());
        drop(first);
        assert!(Lock::take(&folder, "a").is_err());
    }
}
