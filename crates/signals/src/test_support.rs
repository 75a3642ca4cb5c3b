//! A control group with a memory limit, for tests that need real memory pressure.
//!
//! Works with pure and mixed hierarchies: the limit is set where the memory controller is, pressure
//! is accounted in the second version's hierarchy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A group of its own. Dropping it removes it; its processes must have ended by then.
#[derive(Debug)]
pub struct LimitedGroup {
    /// Where pressure is accounted, and where the limit is; the same folder in a pure hierarchy.
    folders: Vec<PathBuf>,
}

impl LimitedGroup {
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
            fs::write(limiting.join("memory.limit_in_bytes"), limit_bytes.to_string())?;
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
