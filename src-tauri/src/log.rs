//! Logs to standard error and to a file of limited size in the data folder.
//!
//! Rule: no crate logs text of the user. A panic is logged with its location only, because its
//! message may contain such text.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

/// The file is rotated at this size, so both files take at most twice as much.
const MAX_BYTES: u64 = 512 << 10;

/// Details of Transom, warnings of other crates.
const DEFAULT: &str = "warn,transom=info";

/// Returns the log file of a data folder.
pub(crate) fn file(data_folder: &Path) -> PathBuf {
    data_folder.join(transom_library::diagnostics::LOG_FILE)
}

/// Starts logging. `TRANSOM_LOG` is the filter, in the format of `RUST_LOG`. If there is no file,
/// as on a full disk, the log still goes to standard error.
pub(crate) fn init(data_folder: &Path) {
    let filter = std::env::var("TRANSOM_LOG").unwrap_or_else(|_| DEFAULT.to_owned());
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let file = RotatingFile::open(file(data_folder), MAX_BYTES);
    let file_error = file.as_ref().err().map(ToString::to_string);
    let layer = file
        .ok()
        .map(|file| fmt::layer().with_ansi(false).with_writer(Mutex::new(file)));
    let initialized = tracing_subscriber::registry()
        .with(filter)
        .with(fmt::layer().with_ansi(false).with_writer(io::stderr))
        .with(layer)
        .try_init();
    if let (Ok(()), Some(reason)) = (initialized, file_error) {
        tracing::warn!(reason, "there is no log file");
    }
    log_panics();
}

fn log_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let location = panic.location().map(ToString::to_string);
        let location = location.unwrap_or_default();
        tracing::error!(location, "panic");
        before(panic);
    }));
}

/// A log file that is rotated when it is full.
struct RotatingFile {
    path: PathBuf,
    file: File,
    n_bytes: u64,
    max_bytes: u64,
}

impl RotatingFile {
    fn open(path: PathBuf, max_bytes: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = append(&path)?;
        let n_bytes = file.metadata()?.len();
        Ok(Self {
            path,
            file,
            n_bytes,
            max_bytes,
        })
    }
}

impl Write for RotatingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.n_bytes > 0 && self.n_bytes + bytes.len() as u64 > self.max_bytes {
            fs::rename(&self.path, self.path.with_extension("old.log"))?;
            self.file = append(&self.path)?;
            self.n_bytes = 0;
        }
        let written = self.file.write(bytes)?;
        self.n_bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Opens a file for appending; only the user may read it.
fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_its_latest_lines_and_its_size_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path());
        let mut log = RotatingFile::open(path.clone(), 100).unwrap();
        for n in 0..1000 {
            writeln!(log, "line {n}").unwrap();
        }
        let now = fs::read_to_string(&path).unwrap();
        assert!(now.ends_with("line 999\n"));
        let old = fs::read_to_string(path.with_extension("old.log")).unwrap();
        assert!(now.len() <= 100 && old.len() <= 100);
        // A new start continues the file.
        let n_bytes = RotatingFile::open(path, 100).unwrap().n_bytes;
        assert_eq!(n_bytes, now.len() as u64);
    }
}
