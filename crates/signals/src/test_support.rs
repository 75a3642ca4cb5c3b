//! A control group with a memory limit and a process that exceeds it, for tests that need real
//! memory pressure.
//!
//! Works with pure and mixed hierarchies: the limit is set where the memory controller is, pressure
//! is accounted in the second version's hierarchy.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Records that the calling test is skipped, and why: on its output, and in the list that `cargo
/// xtask test` shows at its end.
///
/// # Panics
/// When the list cannot be written.
#[expect(clippy::print_stdout, reason = "for whoever runs the test alone")]
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    // libtest names a test's thread like the test.
    let line = format!("{}: {reason}", thread.name().unwrap_or("a test"));
    println!("skipped: {line}");
    if let Some(list) = std::env::var_os("TRANSOM_SKIPPED_TESTS") {
        let file = fs::OpenOptions::new().append(true).create(true).open(list);
        let written = file.and_then(|mut file| writeln!(file, "{line}"));
        written.expect("the list of skipped tests can be written");
    }
}

/// A group of its own. Dropping it removes it; its processes must have ended by then.
#[derive(Debug)]
pub struct LimitedGroup {
    /// Where pressure is accounted, and where the limit is; the same folder in a pure hierarchy.
    folders: Vec<PathBuf>,
}

impl LimitedGroup {
    /// Makes a group, or records that the calling test is skipped since none may be made.
    pub fn new_or_skip(name: &str, limit_bytes: u64) -> Option<Self> {
        let group = Self::new(name, limit_bytes);
        let skip = |error| skipped(&format!("control groups cannot be made here ({error})"));
        group.map_err(skip).ok()
    }

    /// A new group that holds at most `limit_bytes`.
    ///
    /// # Errors
    /// Where groups may not be made, which is usual without privileges.
    pub fn new(name: &str, limit_bytes: u64) -> io::Result<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let mixed = root.join("unified");
        let name = format!("transom-test-{name}-{}", std::process::id());
        let mut group = Self {
            folders: Vec::new(),
        };
        if mixed.is_dir() {
            let accounting = mixed.join(&name);
            let limiting = root.join("memory").join(&name);
            group.make(accounting)?;
            group.make(limiting.clone())?;
            fs::write(
                limiting.join("memory.limit_in_bytes"),
                limit_bytes.to_string(),
            )?;
        } else {
            fs::write(root.join("cgroup.subtree_control"), "+memory")?;
            let folder = root.join(&name);
            group.make(folder.clone())?;
            fs::write(folder.join("memory.max"), limit_bytes.to_string())?;
        }
        fs::metadata(group.pressure_file())?;
        Ok(group)
    }

    fn make(&mut self, folder: PathBuf) -> io::Result<()> {
        fs::create_dir(&folder)?;
        self.folders.push(folder);
        Ok(())
    }

    /// Moves a process into the group.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add(&self, process: u32) -> io::Result<()> {
        for folder in &self.folders {
            fs::write(folder.join("cgroup.procs"), process.to_string())?;
        }
        Ok(())
    }

    /// The group's own pressure.
    pub fn pressure_file(&self) -> PathBuf {
        self.folders
            .first()
            .map(|folder| folder.join("memory.pressure"))
            .unwrap_or_default()
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        for folder in &self.folders {
            // Left behind if a process is still in it; the next start of the machine removes it.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// A process that reads a file larger than its group's memory, over and over, so that pages are
/// thrown out and read again. It ends when this is dropped.
#[derive(Debug)]
pub struct Hog(Child);

const HOG_FILE: &str = "TRANSOM_TEST_HOG_FILE";
const HOG_BYTES: &str = "TRANSOM_TEST_HOG_BYTES";
const PAGE: usize = 4096;

impl Hog {
    /// Starts the calling test program again, in `group`. It must have a test `hog` that does
    /// nothing but call [`Hog::work_if_asked`].
    ///
    /// # Errors
    /// The system's.
    pub fn start(group: &LimitedGroup, file: &Path, n_bytes: u64) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", "hog"])
            .env(HOG_FILE, file)
            .env(HOG_BYTES, n_bytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        group.add(child.id())?;
        if let Some(stdin) = &mut child.stdin {
            stdin.write_all(b"g")?;
        }
        Ok(Self(child))
    }

    /// In the process that [`Hog::start`] started: never returns. Elsewhere: returns at once.
    ///
    /// # Panics
    /// When the file cannot be written or read.
    pub fn work_if_asked() {
        let (Ok(path), Ok(n_bytes)) = (std::env::var(HOG_FILE), std::env::var(HOG_BYTES)) else {
            return;
        };
        let n_pages = n_bytes.parse::<u64>().expect("a number") / PAGE as u64;
        // Not before the process is in its group, to which the pages shall count.
        io::stdin().read_exact(&mut [0]).expect("a word to begin");
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let mut file = options.open(path).expect("a file to write");
        for _ in 0..n_pages {
            file.write_all(&[1; PAGE]).expect("room on the disk");
        }
        file.sync_all().expect("a disk that works");
        std::thread::scope(|scope| {
            for seed in 1..=4 {
                let file = &file;
                scope.spawn(move || read_for_ever(file, n_pages, seed));
            }
        });
    }
}

fn read_for_ever(file: &File, n_pages: u64, seed: u64) {
    let mut random = seed;
    let mut page = [0; PAGE];
    loop {
        // Knuth's constants; any order that is no order will do.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let index = (random >> 33) % n_pages;
        if file.read_exact_at(&mut page, index * PAGE as u64).is_err() {
            return;
        }
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // It ends by nothing else.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
