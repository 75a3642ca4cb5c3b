//! A file during its download: the part file, the journal of its synced ranges, and its checksum.
//!
//! Rule: the journal records a range only after its bytes were synced, and contains the name of its
//! part file, so neither a crash nor a power cut makes it claim too much. The checksum is computed
//! from the bytes on the disk, following the writes, and decides at the end.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use transom_files::file_name;

use crate::HubError;
use crate::digest::{Digest, Hasher};
use crate::disk::{Disk, disk_error, is_full, replace_file, sync_folder};
use crate::lock::Lock;
use crate::ranges::Ranges;

/// The most bytes and time that a crash may cost. Each save flushes the disk's own cache three
/// times.
const SYNC_BYTES: u64 = 512 << 20;
const SYNC_TIME: Duration = Duration::from_secs(10);
const HASH_BYTES: u64 = 1 << 20;

/// The identity of a file: two files with the same identity have the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileIdentity {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    pub(crate) digest: Digest,
}

#[derive(Debug, Serialize, Deserialize)]
struct Journal {
    part: String,
    file: FileIdentity,
    etag: Option<String>,
    ranges: Ranges,
}

pub(crate) struct PartFile {
    file: FileIdentity,
    folder: PathBuf,
    stem: String,
    path: PathBuf,
    data: Arc<File>,
    lock: Arc<Lock>,
    disk: Arc<dyn Disk>,
    state: Arc<Mutex<PartState>>,
    /// Locked during a save. A save continues to its end even if its caller is dropped.
    saving: Arc<Mutex<()>>,
    bytes_added: Notify,
}

struct PartState {
    written: Ranges,
    unsynced_bytes: u64,
    synced_at: Instant,
    etag: Option<String>,
    /// True if the store sends different ETags for the same bytes, so they are ignored.
    ignores_etag: bool,
    hashed_bytes: u64,
    /// `None` while a thread is hashing.
    hasher: Option<Hasher>,
}

/// Why a write failed. For a full disk the caller adds the numbers, because it knows all files.
#[derive(Debug)]
pub(crate) enum WriteError {
    Full,
    Other(HubError),
}

impl PartFile {
    /// Opens the part file of a file, or creates one. Blocks.
    pub(crate) fn open(
        folder: &Path,
        file: &FileIdentity,
        lock: &Arc<Lock>,
        disk: &Arc<dyn Disk>,
    ) -> Result<Self, WriteError> {
        let stem = stem(&file.name);
        let known = read_journal(folder, &stem, file);
        let (data, path, written, etag) = match known {
            Some((data, path, journal)) => (data, path, journal.ranges, journal.etag),
            None => {
                remove(folder, &stem);
                let (data, path) = create_part(folder, &stem, file.size_bytes)?;
                (data, path, Ranges::default(), None)
            }
        };
        Ok(Self {
            file: file.clone(),
            folder: folder.to_owned(),
            stem,
            path,
            data: Arc::new(data),
            lock: Arc::clone(lock),
            disk: Arc::clone(disk),
            state: Arc::new(Mutex::new(PartState {
                written,
                unsynced_bytes: 0,
                synced_at: Instant::now(),
                etag,
                ignores_etag: false,
                hashed_bytes: 0,
                hasher: None,
            })),
            saving: Arc::default(),
            bytes_added: Notify::new(),
        })
    }

    /// Returns how many bytes of a file are recorded in the journal, without opening the part file.
    pub(crate) fn len_on_disk(folder: &Path, file: &FileIdentity) -> u64 {
        let known = read_journal(folder, &stem(&file.name), file);
        known.map_or(0, |(_, _, journal)| journal.ranges.len())
    }

    pub(crate) fn file(&self) -> &FileIdentity {
        &self.file
    }

    pub(crate) fn len(&self) -> u64 {
        self.state.lock().written.len()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.state.lock().written.is_complete(self.file.size_bytes)
    }

    pub(crate) fn missing(&self, piece_bytes: u64) -> Vec<std::ops::Range<u64>> {
        let state = self.state.lock();
        state.written.missing(self.file.size_bytes, piece_bytes)
    }

    pub(crate) fn etag(&self) -> Option<String> {
        self.state.lock().etag.clone()
    }

    /// Compares the blob store's ETag with that of earlier responses. Returns false if it differs.
    pub(crate) fn check_etag(&self, etag: Option<String>) -> bool {
        let mut state = self.state.lock();
        if state.ignores_etag {
            return true;
        }
        match (&state.etag, etag) {
            (Some(known), Some(etag)) => *known == etag,
            (None, Some(etag)) => {
                state.etag = Some(etag);
                true
            }
            (_, None) => true,
        }
    }

    /// Ignores the store's ETags from now on; only the checksum decides.
    pub(crate) fn ignore_etag(&self) {
        let mut state = self.state.lock();
        state.etag = None;
        state.ignores_etag = true;
    }

    /// Writes received bytes, except those that were written before. Returns the number of new
    /// bytes.
    pub(crate) async fn write(&self, offset: u64, bytes: Vec<u8>) -> Result<u64, WriteError> {
        let end = offset + bytes.len() as u64;
        let gaps = self.state.lock().written.missing_in(offset..end);
        if gaps.is_empty() {
            return Ok(0);
        }
        let (data, disk, lock) = (
            Arc::clone(&self.data),
            Arc::clone(&self.disk),
            self.lock.guard(),
        );
        let write = move || {
            // Held until the bytes are written, even if the caller is dropped.
            let _lock = lock;
            for gap in &gaps {
                let span = (gap.start - offset) as usize..(gap.end - offset) as usize;
                disk.write_at(&data, &bytes[span], gap.start)?;
            }
            Ok(gaps)
        };
        let gaps = blocking(write).await.map_err(|error| self.error(&error))?;
        let n_new: u64 = gaps.iter().map(|gap| gap.end - gap.start).sum();
        let is_due = {
            let mut state = self.state.lock();
            for gap in gaps {
                state.written.add(gap);
            }
            state.unsynced_bytes += n_new;
            state.unsynced_bytes >= SYNC_BYTES || state.synced_at.elapsed() >= SYNC_TIME
        };
        self.bytes_added.notify_one();
        if is_due {
            self.save().await?;
        }
        Ok(n_new)
    }

    /// Syncs the written bytes and records them in the journal.
    pub(crate) async fn save(&self) -> Result<(), WriteError> {
        {
            let mut state = self.state.lock();
            state.unsynced_bytes = 0;
            state.synced_at = Instant::now();
        }
        let path = journal_path(&self.folder, &self.stem);
        let (part, file) = (file_name(&self.path), self.file.clone());
        let (data, disk, lock) = (
            Arc::clone(&self.data),
            Arc::clone(&self.disk),
            self.lock.guard(),
        );
        let (state, saving) = (Arc::clone(&self.state), Arc::clone(&self.saving));
        let save = move || {
            let _lock = lock;
            let _turn = saving.lock();
            let journal = {
                let state = state.lock();
                Journal {
                    part,
                    file,
                    etag: state.etag.clone(),
                    ranges: state.written.clone(),
                }
            };
            disk.sync(&data)?;
            replace_file(&path, &serde_json::to_vec(&journal)?)
        };
        blocking(save).await.map_err(|error| self.error(&error))
    }

    /// Hashes the bytes as they are written, until the end of the file, and returns the digest.
    /// Calls `on_progress` with the number of hashed bytes after each step.
    pub(crate) async fn hash_as_written(
        &self,
        on_progress: impl Fn(u64),
    ) -> Result<Digest, WriteError> {
        loop {
            let (from, to, hasher) = {
                let mut state = self.state.lock();
                if state.hasher.is_none() {
                    state.hashed_bytes = 0;
                    state.hasher = Some(self.file.digest.hasher(self.file.size_bytes));
                }
                let from = state.hashed_bytes;
                let to = state.written.prefix().min(from + HASH_BYTES);
                let is_ready = to > from || from == self.file.size_bytes;
                let hasher = state.hasher.take_if(|_| is_ready);
                (from, to, hasher)
            };
            let Some(hasher) = hasher else {
                self.bytes_added.notified().await;
                continue;
            };
            if from == self.file.size_bytes {
                return Ok(hasher.finish());
            }
            let data = Arc::clone(&self.data);
            let read = move || {
                let mut hasher = hasher;
                let mut bytes = vec![0; (to - from) as usize];
                data.read_exact_at(&mut bytes, from)?;
                hasher.update(&bytes);
                Ok(hasher)
            };
            let hasher = blocking(read).await.map_err(|error| self.error(&error))?;
            {
                let mut state = self.state.lock();
                state.hasher = Some(hasher);
                state.hashed_bytes = to;
            }
            on_progress(to);
        }
    }

    /// Moves the complete, verified file to its place among the verified files. Blocks.
    pub(crate) fn finish(self, to: &Path) -> Result<(), HubError> {
        let at = |error: io::Error| disk_error(to, &error);
        self.disk.sync(&self.data).map_err(at)?;
        let folder = to.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(at)?;
        fs::rename(&self.path, to).map_err(at)?;
        sync_folder(folder).map_err(at)?;
        remove(&self.folder, &self.stem);
        Ok(())
    }

    /// Removes the part file. A write in progress continues in the unlinked file.
    pub(crate) fn discard(self) {
        remove(&self.folder, &self.stem);
    }

    fn error(&self, error: &io::Error) -> WriteError {
        write_error(&self.path, error)
    }
}

fn write_error(path: &Path, error: &io::Error) -> WriteError {
    if is_full(error) {
        return WriteError::Full;
    }
    WriteError::Other(disk_error(path, error))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
}

/// Returns a short name without folders. The same file always has the same one.
fn stem(name: &str) -> String {
    let mut hasher = Digest::Sha256(String::new()).hasher(0);
    hasher.update(name.as_bytes());
    let digest = hasher.finish();
    let last = name.rsplit('/').next().unwrap_or(name);
    let last: String = last.chars().take(60).collect();
    format!("{}-{last}", &digest.hex()[..8])
}

fn journal_path(folder: &Path, stem: &str) -> PathBuf {
    folder.join(format!("{stem}.journal"))
}

/// Creates a part file with an unused name, of full length and without content.
fn create_part(folder: &Path, stem: &str, size_bytes: u64) -> Result<(File, PathBuf), WriteError> {
    loop {
        let number = fastrand::u32(..);
        let path = folder.join(format!("{stem}.{number:08x}.part"));
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        match made {
            Ok(data) => {
                data.set_len(size_bytes)
                    .map_err(|error| write_error(&path, &error))?;
                return Ok((data, path));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(write_error(&path, &error)),
        }
    }
}

/// Reads the journal and opens its part file. Returns `None` if the journal cannot be correct for
/// this file.
fn read_journal(
    folder: &Path,
    stem: &str,
    file: &FileIdentity,
) -> Option<(File, PathBuf, Journal)> {
    let text = fs::read(journal_path(folder, stem)).ok()?;
    let journal: Journal = serde_json::from_slice(&text).ok()?;
    let is_own_name = journal.part.starts_with(stem) && !journal.part.contains('/');
    if !is_own_name || journal.file != *file || !journal.ranges.is_valid(file.size_bytes) {
        return None;
    }
    let path = folder.join(&journal.part);
    let data = OpenOptions::new().read(true).write(true).open(&path).ok()?;
    let has_full_length = data.metadata().ok()?.len() == file.size_bytes;
    has_full_length.then_some((data, path, journal))
}

/// Removes the journal first, then the part files of a file.
fn remove(folder: &Path, stem: &str) {
    let _ = fs::remove_file(journal_path(folder, stem));
    remove_all(folder, |name| {
        name.starts_with(stem) && name.ends_with(".part")
    });
}

/// Removes the part files and journals of all other files.
pub(crate) fn remove_others(folder: &Path, files: &[FileIdentity]) {
    let stems: Vec<String> = files.iter().map(|file| stem(&file.name)).collect();
    remove_all(folder, |name| {
        let is_part = name.ends_with(".part") || name.ends_with(".journal");
        is_part && !stems.iter().any(|stem| name.starts_with(&**stem))
    });
}

fn remove_all(folder: &Path, is_match: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_match(&entry.file_name().to_string_lossy()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
