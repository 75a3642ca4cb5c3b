//! The log: to standard error, and to a file in the data folder that never grows beyond a bound.
//!
//! Rule: no text of a person's is logged, here or in any room; a panic is logged by its place, since
//! its message may quote what was being worked on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

/// The file becomes the old one when it is this long; so twice this is the most there is.
const MAX_BYTES: u64 = 512 << 10;

/// Ours in detail, of others what is wrong.
const DEFAULT: &str = "warn,transom=info";

/// The log of a data folder.
pub(crate) fn file(data_folder: &Path) -> PathBuf {
    data_folder.join("logs").join("transom-app.log")
}

/// Logs from now on. `TRANSOM_LOG` says what, as `RUST_LOG` does elsewhere. Without a file, as on a
/// full disk, standard error has it all the same.
pub(crate) fn begin(data_folder: &Path) {
    let wanted = std::env::var("TRANSOM_LOG").unwrap_or_else(|_| DEFAULT.to_owned());
    let filter = EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let bounded = Bounded::open(file(data_folder), MAX_BYTES);
    let to_file = bounded.as_ref().err().map(ToString::to_string);
    let layer = bounded
        .ok()
        .map(|file| fmt::layer().with_ansi(false).with_writer(Mutex::new(file)));
    let begun = tracing_subscriber::registry()
        .with(filter)
        .with(fmt::layer().with_ansi(false).with_writer(io::stderr))
        .with(layer)
        .try_init();
    if let (Ok(()), Some(reason)) = (begun, to_file) {
        tracing::warn!(reason, "there is no log file");
    }
    log_panics();
}

fn log_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        tracing::error!(place, "a panic");
        before(panic);
    }));
}

/// A file that is put aside when it is full.
struct Bounded {
    path: PathBuf,
    file: File,
    n_bytes: u64,
    max_bytes: u64,
}

impl Bounded {
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

impl Write for Bounded {
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

/// Opens for appending; only the user may read it.
fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_its_latest_lines_and_stays_within_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path());
        let mut log = Bounded::open(path.clone(), 100).unwrap();
        for n in 0..1000 {
            writeln!(log, "line {n}").unwrap();
        }
        let now = fs::read_to_string(&path).unwrap();
        assert!(now.ends_with("line 999\n"));
        let old = fs::read_to_string(path.with_extension("old.log")).unwrap();
        assert!(now.len() <= 100 && old.len() <= 100);
        // It goes on where it was.
        let n_bytes = Bounded::open(path, 100).unwrap().n_bytes;
        assert_eq!(n_bytes, now.len() as u64);
    }
}
