//! One file while it comes: the part file, the journal of what is surely in it, and its checksum.
//!
//! Rule: the journal names a range only after its bytes were synced, and names its own part file,
//! so neither a crash nor a power cut makes it say too much. The checksum is computed from what
//! lies on the disk, following the writes, and decides in the end.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use crate::HubError;
use crate::digest::{Digest, Sum};
use crate::disk::{Disk, is_full, replace, sync_folder, trouble};
use crate::lock::Lock;
use crate::ranges::Ranges;

/// The most that a crash may cost. Each save flushes the disk's own cache three times.
const SYNC_BYTES: u64 = 512 << 20;
const SYNC_TIME: Duration = Duration::from_secs(10);
/// Read at once while the checksum follows.
const HASH_BYTES: u64 = 1 << 20;

/// Which file it is: two with the same identity are the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    pub(crate) digest: Digest,
}

/// What is on the disk beside the part file.
#[derive(Debug, Serialize, Deserialize)]
struct Journal {
    part: String,
    file: Identity,
    etag: Option<String>,
    ranges: Ranges,
}

/// A file that is coming.
pub(crate) struct Part {
    file: Identity,
    folder: PathBuf,
    stem: String,
    path: PathBuf,
    data: Arc<File>,
    lock: Arc<Lock>,
    disk: Arc<dyn Disk>,
    inner: Arc<Mutex<Inner>>,
    /// One save at a time: also one whose caller has gone goes on to its end.
    saving: Arc<Mutex<()>>,
    grown: Notify,
}

struct Inner {
    written: Ranges,
    unsynced_bytes: u64,
    synced_at: Instant,
    etag: Option<String>,
    /// The store gives the same bytes under several marks, so they say nothing.
    ignores_etag: bool,
    hashed_bytes: u64,
    /// Away while a thread computes.
    sum: Option<Sum>,
}

/// Which error a failed write was; a full disk gets its numbers where all files are known.
#[derive(Debug)]
pub(crate) enum WriteError {
    Full,
    Other(HubError),
}

impl Part {
    /// Opens what is there of the file, or begins it. Blocks.
    pub(crate) fn open(
        folder: &Path,
        file: &Identity,
        lock: &Arc<Lock>,
        disk: &Arc<dyn Disk>,
    ) -> Result<Self, WriteError> {
        let stem = stem(&file.name);
        let known = read_journal(folder, &stem, file);
        let (data, path, written, etag) = match known {
            Some((data, path, journal)) => (data, path, journal.ranges, journal.etag),
            None => {
                remove(folder, &stem);
                let (data, path) = begin(folder, &stem, file.size_bytes)?;
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
            inner: Arc::new(Mutex::new(Inner {
                written,
                unsynced_bytes: 0,
                synced_at: Instant::now(),
                etag,
                ignores_etag: false,
                hashed_bytes: 0,
                sum: None,
            })),
            saving: Arc::default(),
            grown: Notify::new(),
        })
    }

    /// How many bytes of a file are surely there, without opening it.
    pub(crate) fn len_on_disk(folder: &Path, file: &Identity) -> u64 {
        let known = read_journal(folder, &stem(&file.name), file);
        known.map_or(0, |(_, _, journal)| journal.ranges.len())
    }

    pub(crate) fn file(&self) -> &Identity {
        &self.file
    }

    pub(crate) fn len(&self) -> u64 {
        self.inner().written.len()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.inner().written.is_whole(self.file.size_bytes)
    }

    pub(crate) fn missing(&self, piece_bytes: u64) -> Vec<std::ops::Range<u64>> {
        let inner = self.inner();
        inner.written.missing(self.file.size_bytes, piece_bytes)
    }

    pub(crate) fn etag(&self) -> Option<String> {
        self.inner().etag.clone()
    }

    /// The store's own mark of what these bytes are parts of. False if it was another before.
    pub(crate) fn note_etag(&self, etag: Option<String>) -> bool {
        let mut inner = self.inner();
        if inner.ignores_etag {
            return true;
        }
        match (&inner.etag, etag) {
            (Some(known), Some(etag)) => *known == etag,
            (None, Some(etag)) => {
                inner.etag = Some(etag);
                true
            }
            (_, None) => true,
        }
    }

    /// From now on the store's marks are not believed; the checksum decides alone.
    pub(crate) fn ignore_etag(&self) {
        let mut inner = self.inner();
        inner.etag = None;
        inner.ignores_etag = true;
    }

    /// Writes bytes that came, but for those that are there already. Returns how many are new.
    pub(crate) async fn write(&self, offset: u64, bytes: Vec<u8>) -> Result<u64, WriteError> {
        let end = offset + bytes.len() as u64;
        let gaps = self.inner().written.missing_in(offset..end);
        if gaps.is_empty() {
            return Ok(0);
        }
        let (data, disk, lock) = (
            Arc::clone(&self.data),
            Arc::clone(&self.disk),
            self.lock.held(),
        );
        let write = move || {
            // Held until the bytes are written, whatever becomes of who asked.
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
            let mut inner = self.inner();
            for gap in gaps {
                inner.written.add(gap);
            }
            inner.unsynced_bytes += n_new;
            inner.unsynced_bytes >= SYNC_BYTES || inner.synced_at.elapsed() >= SYNC_TIME
        };
        self.grown.notify_one();
        if is_due {
            self.save().await?;
        }
        Ok(n_new)
    }

    /// Syncs what was written and notes it in the journal.
    pub(crate) async fn save(&self) -> Result<(), WriteError> {
        {
            let mut inner = self.inner();
            inner.unsynced_bytes = 0;
            inner.synced_at = Instant::now();
        }
        let path = journal_path(&self.folder, &self.stem);
        let (part, file) = (file_name(&self.path), self.file.clone());
        let (data, disk, lock) = (
            Arc::clone(&self.data),
            Arc::clone(&self.disk),
            self.lock.held(),
        );
        let (inner, saving) = (Arc::clone(&self.inner), Arc::clone(&self.saving));
        let save = move || {
            let _lock = lock;
            let _turn = locked(&saving);
            let journal = {
                let inner = locked(&inner);
                Journal {
                    part,
                    file,
                    etag: inner.etag.clone(),
                    ranges: inner.written.clone(),
                }
            };
            disk.sync(&data)?;
            replace(&path, &serde_json::to_vec(&journal)?)
        };
        blocking(save).await.map_err(|error| self.error(&error))
    }

    /// Follows the writes with the checksum until the end of the file, and returns it. Each step
    /// is told, in bytes.
    pub(crate) async fn follow(&self, told: impl Fn(u64)) -> Result<Digest, WriteError> {
        loop {
            let (from, to, sum) = {
                let mut inner = self.inner();
                if inner.sum.is_none() {
                    inner.hashed_bytes = 0;
                    inner.sum = Some(self.file.digest.begin(self.file.size_bytes));
                }
                let from = inner.hashed_bytes;
                let to = inner.written.prefix().min(from + HASH_BYTES);
                let is_ready = to > from || from == self.file.size_bytes;
                let sum = inner.sum.take_if(|_| is_ready);
                (from, to, sum)
            };
            let Some(sum) = sum else {
                self.grown.notified().await;
                continue;
            };
            if from == self.file.size_bytes {
                return Ok(sum.end());
            }
            let data = Arc::clone(&self.data);
            let read = move || {
                let mut sum = sum;
                let mut bytes = vec![0; (to - from) as usize];
                data.read_exact_at(&mut bytes, from)?;
                sum.add(&bytes);
                Ok(sum)
            };
            let sum = blocking(read).await.map_err(|error| self.error(&error))?;
            {
                let mut inner = self.inner();
                inner.sum = Some(sum);
                inner.hashed_bytes = to;
            }
            told(to);
        }
    }

    /// Moves the whole, verified file to its place among the whole ones. Blocks.
    pub(crate) fn finish(self, to: &Path) -> Result<(), HubError> {
        let at = |error: io::Error| trouble(to, &error);
        self.disk.sync(&self.data).map_err(at)?;
        let folder = to.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(at)?;
        fs::rename(&self.path, to).map_err(at)?;
        sync_folder(folder).map_err(at)?;
        remove(&self.folder, &self.stem);
        Ok(())
    }

    /// Removes what came. A write that is still under way goes into a file without a name.
    pub(crate) fn discard(self) {
        remove(&self.folder, &self.stem);
    }

    fn error(&self, error: &io::Error) -> WriteError {
        write_error(&self.path, error)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        locked(&self.inner)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_error(path: &Path, error: &io::Error) -> WriteError {
    if is_full(error) {
        return WriteError::Full;
    }
    WriteError::Other(trouble(path, error))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
}

/// A short name without folders, the same for the same file.
fn stem(name: &str) -> String {
    let mut sum = Digest::Sha256(String::new()).begin(0);
    sum.add(name.as_bytes());
    let digest = sum.end();
    let last: String = name.rsplit('/').next().unwrap_or(name).chars().collect();
    let last: String = last.chars().take(60).collect();
    format!("{}-{last}", &digest.hex()[..8])
}

fn journal_path(folder: &Path, stem: &str) -> PathBuf {
    folder.join(format!("{stem}.journal"))
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// A new part file under a name that was not used before, of full length with nothing in it.
fn begin(folder: &Path, stem: &str, size_bytes: u64) -> Result<(File, PathBuf), WriteError> {
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

/// What the journal says, if it can be true of this very file.
fn read_journal(folder: &Path, stem: &str, file: &Identity) -> Option<(File, PathBuf, Journal)> {
    let text = fs::read(journal_path(folder, stem)).ok()?;
    let journal: Journal = serde_json::from_slice(&text).ok()?;
    let is_ours = journal.part.starts_with(stem) && !journal.part.contains('/');
    if !is_ours || journal.file != *file || !journal.ranges.is_sound(file.size_bytes) {
        return None;
    }
    let path = folder.join(&journal.part);
    let data = OpenOptions::new().read(true).write(true).open(&path).ok()?;
    let is_long = data.metadata().ok()?.len() == file.size_bytes;
    is_long.then_some((data, path, journal))
}

/// Removes all that there is of a file: the journal first.
fn remove(folder: &Path, stem: &str) {
    let _ = fs::remove_file(journal_path(folder, stem));
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(stem) && name.ends_with(".part") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes parts of files that are not among these.
pub(crate) fn remove_others(folder: &Path, files: &[Identity]) {
    let stems: Vec<String> = files.iter().map(|file| stem(&file.name)).collect();
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_part = name.ends_with(".part") || name.ends_with(".journal");
        if is_part && !stems.iter().any(|stem| name.starts_with(&**stem)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
