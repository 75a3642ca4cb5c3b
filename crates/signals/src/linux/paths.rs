//! Where Linux keeps what we read. Tests point it elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

/// Files and folders of the sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys/class/thermal`.
    pub thermal: PathBuf,
    /// `/sys/class/power_supply`.
    pub power_supply: PathBuf,
    /// More files of memory pressure to watch, for tests.
    pub more_pressure: Vec<PathBuf>,
    /// Address of the bus with UPower and power profiles; `None` is the system bus.
    pub bus_address: Option<String>,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            thermal: "/sys/class/thermal".into(),
            power_supply: "/sys/class/power_supply".into(),
            more_pressure: Vec::new(),
            bus_address: None,
        }
    }
}

impl Paths {
    /// Files of memory pressure: the whole machine's, and that of this process's control group,
    /// which is short of memory when it reaches a limit of its own.
    pub(super) fn pressure_files(&self) -> Vec<PathBuf> {
        let machine = self.proc.join("pressure/memory");
        let group = self.own_group().map(|group| group.join("memory.pressure"));
        [Some(machine), group]
            .into_iter()
            .flatten()
            .chain(self.more_pressure.iter().cloned())
            .filter(|path| path.exists())
            .collect()
    }

    /// The folder of this process's control group in the second version's hierarchy, unless it is
    /// the root.
    fn own_group(&self) -> Option<PathBuf> {
        let groups = fs::read_to_string(self.proc.join("self/cgroup")).ok()?;
        let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        if group.is_empty() {
            return None;
        }
        let mounts = fs::read_to_string(self.proc.join("self/mountinfo")).ok()?;
        let mount = mounts.lines().find_map(group_mount)?;
        Some(Path::new(mount).join(group))
    }
}

/// The mount point of a `cgroup2` file system, from a line of `mountinfo`: after the separator `-`
/// comes the type, and the fifth field is the mount point.
fn group_mount(line: &str) -> Option<&str> {
    let (left, right) = line.split_once(" - ")?;
    (right.split(' ').next() == Some("cgroup2")).then(|| left.split(' ').nth(4))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_in_pure_and_mixed_hierarchies() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let group = root.join("unified/app.slice/transom");
        fs::create_dir_all(&group).unwrap();
        fs::create_dir_all(root.join("proc/self")).unwrap();
        fs::create_dir_all(root.join("proc/pressure")).unwrap();
        fs::write(group.join("memory.pressure"), "").unwrap();
        fs::write(root.join("proc/pressure/memory"), "").unwrap();
        let mounts = format!(
            "25 20 0:22 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
             26 20 0:23 / {} rw,nosuid shared:10 - cgroup2 cgroup2 rw\n",
            root.join("unified").display()
        );
        fs::write(root.join("proc/self/mountinfo"), mounts).unwrap();
        let paths = Paths {
            proc: root.join("proc"),
            ..Paths::default()
        };
        let own = root.join("proc/self/cgroup");
        fs::write(&own, "4:memory:/x\n0::/app.slice/transom\n").unwrap();
        assert_eq!(
            paths.pressure_files(),
            [
                root.join("proc/pressure/memory"),
                group.join("memory.pressure")
            ]
        );
        // The root group has no pressure of its own.
        fs::write(&own, "0::/\n").unwrap();
        assert_eq!(paths.pressure_files(), [root.join("proc/pressure/memory")]);
    }

    #[test]
    fn a_kernel_without_pressure_has_no_files() {
        let paths = Paths {
            proc: "/nonexistent".into(),
            ..Paths::default()
        };
        assert!(paths.pressure_files().is_empty());
    }
}
