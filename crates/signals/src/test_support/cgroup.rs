//! A control group (cgroup) with a memory limit, and a process that exceeds it, for tests that need
//! real memory pressure.
//!
//! Works with cgroup v2 and with hybrid hierarchies: the limit is set where the memory controller
//! is, and pressure is read from the v2 hierarchy.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::skipped;

/// A new cgroup, which is removed when this is dropped. Its processes must have exited by then.
#[derive(Debug)]
pub struct LimitedCgroup {
    /// The folder with the pressure file, and the one with the limit; one folder with cgroup v2.
    folders: Vec<PathBuf>,
}

impl LimitedCgroup {
    /// Creates a cgroup, or records that the calling test is skipped because that is not permitted.
    pub fn new_or_skip(name: &str, limit_bytes: u64) -> Option<Self> {
        let group = Self::new(name, limit_bytes);
        let skip = |error| skipped(&format!("control groups cannot be created here ({error})"));
        group.map_err(skip).ok()
    }

    /// Creates a cgroup with this memory limit.
    ///
    /// # Errors
    /// Creating a cgroup is not permitted, which is usual without privileges.
    pub fn new(name: &str, limit_bytes: u64) -> io::Result<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let hybrid = root.join("unified");
        let name = format!("transom-test-{name}-{}", std::process::id());
        let mut group = Self {
            folders: Vec::new(),
        };
        if hybrid.is_dir() {
            let accounting = hybrid.join(&name);
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

    /// Moves a process into the cgroup.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn add(&self, process: u32) -> io::Result<()> {
        for folder in &self.folders {
            fs::write(folder.join("cgroup.procs"), process.to_string())?;
        }
        Ok(())
    }

    /// Returns the path of the pressure file of the cgroup.
    pub fn pressure_file(&self) -> PathBuf {
        self.folders
            .first()
            .map(|folder| folder.join("memory.pressure"))
            .unwrap_or_default()
    }
}

impl Drop for LimitedCgroup {
    fn drop(&mut self) {
        for folder in &self.folders {
            // Fails if a process is still in it. The next start of the machine removes it.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// A process that repeatedly reads a file larger than the memory of its cgroup, so that pages are
/// evicted and read again. It is killed when this is dropped.
#[derive(Debug)]
pub struct MemoryPressureProcess(Child);

const FILE_VARIABLE: &str = "TRANSOM_TEST_PRESSURE_FILE";
const BYTES_VARIABLE: &str = "TRANSOM_TEST_PRESSURE_BYTES";
const PAGE: usize = 4096;

impl MemoryPressureProcess {
    /// Starts the calling test program again, in `group`. It must have a test
    /// `memory_pressure_process` that only calls [`MemoryPressureProcess::run_if_started`].
    ///
    /// # Errors
    /// The error of the system.
    pub fn start(group: &LimitedCgroup, file: &Path, n_bytes: u64) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", "memory_pressure_process"])
            .env(FILE_VARIABLE, file)
            .env(BYTES_VARIABLE, n_bytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        group.add(child.id())?;
        if let Some(stdin) = &mut child.stdin {
            stdin.write_all(b"g")?;
        }
        Ok(Self(child))
    }

    /// Reads the file forever in the process that [`MemoryPressureProcess::start`] started. In any
    /// other process, returns at once.
    ///
    /// # Panics
    /// Panics if the file cannot be written or read.
    pub fn run_if_started() {
        let (Ok(path), Ok(n_bytes)) = (std::env::var(FILE_VARIABLE), std::env::var(BYTES_VARIABLE))
        else {
            return;
        };
        let n_pages = n_bytes.parse::<u64>().expect("a number") / PAGE as u64;
        // Waits until the process is in its cgroup, so that the pages count there.
        io::stdin().read_exact(&mut [0]).expect("a byte to start");
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
                scope.spawn(move || read_forever(file, n_pages, seed));
            }
        });
    }
}

fn read_forever(file: &File, n_pages: u64, seed: u64) {
    let mut random = seed;
    let mut page = [0; PAGE];
    loop {
        // Knuth's constants. Any random order will do.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let index = (random >> 33) % n_pages;
        if file.read_exact_at(&mut page, index * PAGE as u64).is_err() {
            return;
        }
    }
}

impl Drop for MemoryPressureProcess {
    fn drop(&mut self) {
        // The process does not end by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
