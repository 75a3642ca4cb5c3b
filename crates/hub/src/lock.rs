//! A lock file for the part files of a download, so that one program at a time works on them.
//!
//! Rule: the operating system holds the lock, so it is released when the program ends in any way.
//! Each write in progress holds it too, so nobody takes over a part file to which old writes may
//! still go.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, RwLock};

use crate::HubError;
use crate::disk::{create_folder, disk_error};

const NAME: &str = "lock";

/// The exclusive right to work in a folder. Released on drop.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
    writes: Arc<RwLock<()>>,
}

/// Keeps the lock while a write is in progress.
#[derive(Debug)]
pub(crate) struct LockGuard {
    _lock: Arc<Lock>,
    _flight: Option<OwnedRwLockReadGuard<()>>,
}

impl Lock {
    /// Locks a folder, which is created if necessary. Fails with [`HubError::InUse`] while another
    /// program, or an earlier run of this one, has the lock.
    pub(crate) fn take(folder: &Path, name: &str) -> Result<Self, HubError> {
        loop {
            create_folder(folder)?;
            let path = folder.join(NAME);
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path);
            let mut file = match opened {
                Ok(file) => file,
                // The previous owner of the lock has just removed the folder.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(disk_error(&path, &error)),
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(HubError::InUse {
                        by: holder_name(&mut file),
                        name: name.to_owned(),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(disk_error(&path, &error)),
            }
            // A lock on a file that was removed from the folder does not exclude others.
            let inode = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
            let locked = file.metadata().map(inode).ok();
            if locked.is_none() || locked != fs::metadata(&path).map(inode).ok() {
                continue;
            }
            let _ = file.set_len(0);
            let _ = write!(file, "{}", this_program());
            return Ok(Self {
                _file: file,
                writes: Arc::default(),
            });
        }
    }

    /// Returns a guard for a write that may outlive the task that started it.
    pub(crate) fn guard(self: &Arc<Self>) -> LockGuard {
        LockGuard {
            _lock: Arc::clone(self),
            _flight: Arc::clone(&self.writes).try_read_owned().ok(),
        }
    }

    pub(crate) async fn wait_for_writes(&self) {
        let _all = self.writes.write().await;
    }

    pub(crate) fn is_held(folder: &Path) -> bool {
        match File::open(folder.join(NAME)) {
            Ok(file) => matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
            Err(_) => false,
        }
    }
}

fn this_program() -> String {
    let program = std::env::current_exe().ok();
    let name = program
        .as_deref()
        .and_then(Path::file_name)
        .map_or("a program".into(), |name| name.to_string_lossy());
    format!("{name} (process {})", std::process::id())
}

fn holder_name(file: &mut File) -> String {
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
    fn a_locked_folder_names_its_owner_and_can_be_locked_after_release() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("parts");
        let first = Lock::take(&folder, "Qwen3").unwrap();
        assert!(Lock::is_held(&folder));
        let error = Lock::take(&folder, "Qwen3").unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&std::process::id().to_string()), "{text}");
        assert!(text.ends_with("is already downloading Qwen3."), "{text}");
        drop(first);
        assert!(!Lock::is_held(&folder));
        Lock::take(&folder, "Qwen3").unwrap();
    }

    #[tokio::test]
    async fn a_write_in_progress_keeps_the_lock_and_is_awaited() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Arc::new(Lock::take(folder.path(), "a").unwrap());
        let guard = lock.guard();
        assert!(futures_util::poll!(std::pin::pin!(lock.wait_for_writes())).is_pending());
        drop(lock);
        assert!(Lock::is_held(folder.path()));
        drop(guard);
        let lock = Lock::take(folder.path(), "a").unwrap();
        lock.wait_for_writes().await;
    }

    #[test]
    fn a_lock_in_a_removed_folder_excludes_nobody() {
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
