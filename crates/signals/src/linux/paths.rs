//! The paths that the Linux sources read. Tests use other paths.

use std::fs;
use std::path::{Path, PathBuf};

/// The files and folders that the sources read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys/class/thermal`.
    pub thermal: PathBuf,
    /// `/sys/class/power_supply`.
    pub power_supply: PathBuf,
    /// Additional files of memory pressure, for tests.
    pub extra_pressure_files: Vec<PathBuf>,
    /// Address of the D-Bus bus with UPower and power profiles; `None` is the system bus.
    pub bus_address: Option<String>,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            thermal: "/sys/class/thermal".into(),
            power_supply: "/sys/class/power_supply".into(),
            extra_pressure_files: Vec::new(),
            bus_address: None,
        }
    }
}

impl Paths {
    /// Returns the files of memory pressure: that of the whole machine, and that of the control
    /// group of this process, which may have its own memory limit.
    pub(super) fn pressure_files(&self) -> Vec<PathBuf> {
        let machine = self.proc.join("pressure/memory");
        let group = self.own_group().map(|group| group.join("memory.pressure"));
        [Some(machine), group]
            .into_iter()
            .flatten()
            .chain(self.extra_pressure_files.iter().cloned())
            .filter(|path| path.exists())
            .collect()
    }

    /// Returns the folder of the control group of this process in the cgroup v2 hierarchy, unless
    /// it is the root of the machine. That one has no type, while the root that a container sees
    /// has one.
    fn own_group(&self) -> Option<PathBuf> {
        let groups = fs::read_to_string(self.proc.join("self/cgroup")).ok()?;
        let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let mounts = fs::read_to_string(self.proc.join("self/mountinfo")).ok()?;
        let folder = mounts.lines().find_map(|line| folder_of(group, line))?;
        folder.join("cgroup.type").exists().then_some(folder)
    }
}

/// Returns the folder of a control group if a line of `mountinfo` mounts a `cgroup2` file system
/// that contains it. The type follows the separator `-`; the fourth and fifth fields are the
/// mounted group and the mount point.
fn folder_of(group: &str, line: &str) -> Option<PathBuf> {
    let (left, right) = line.split_once(" - ")?;
    if right.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let mut fields = left.split(' ').skip(3);
    let (root, mount) = (fields.next()?, fields.next()?);
    let inside = Path::new(group).strip_prefix(root).ok()?;
    Some(Path::new(mount).join(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the files of a machine whose cgroup v2 hierarchy has one group besides its root.
    fn machine(root: &Path) -> Paths {
        let proc = root.join("proc");
        let group = root.join("unified/app.slice/transom");
        fs::create_dir_all(&group).unwrap();
        fs::create_dir_all(proc.join("self")).unwrap();
        fs::create_dir_all(proc.join("pressure")).unwrap();
        fs::write(proc.join("pressure/memory"), "").unwrap();
        fs::write(root.join("unified/memory.pressure"), "").unwrap();
        fs::write(group.join("memory.pressure"), "").unwrap();
        fs::write(group.join("cgroup.type"), "domain").unwrap();
        Paths {
            proc,
            ..Paths::default()
        }
    }

    fn mounted(paths: &Paths, group: &str, mounts: &str) -> Vec<PathBuf> {
        fs::write(paths.proc.join("self/cgroup"), group).unwrap();
        fs::write(paths.proc.join("self/mountinfo"), mounts).unwrap();
        paths.pressure_files()
    }

    #[test]
    fn the_own_group_is_found_in_v2_and_hybrid_hierarchies() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let paths = machine(root);
        let whole = paths.proc.join("pressure/memory");
        let own = root.join("unified/app.slice/transom/memory.pressure");
        let second = format!(
            "26 20 0:23 / {} rw,nosuid shared:10 - cgroup2 cgroup2 rw\n",
            root.join("unified").display()
        );
        let first = "25 20 0:22 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n";
        let both = format!("{first}{second}");
        let files = mounted(&paths, "0::/app.slice/transom\n", &second);
        assert_eq!(files, [whole.clone(), own.clone()], "v2");
        let files = mounted(&paths, "4:memory:/x\n0::/app.slice/transom\n", &both);
        assert_eq!(files, [whole.clone(), own], "hybrid");
        // The root of the machine has the same values as the whole machine.
        let files = mounted(&paths, "0::/\n", &both);
        assert_eq!(files, std::slice::from_ref(&whole));
        assert_eq!(mounted(&paths, "0::/app.slice/transom\n", first), [whole]);
    }

    #[test]
    fn a_container_sees_its_own_group() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let paths = machine(root);
        let whole = paths.proc.join("pressure/memory");
        let inside = root.join("unified/app.slice/transom");
        let own = inside.join("memory.pressure");
        let mount = |shown: &str| {
            let mount = inside.display();
            format!("26 20 0:23 {shown} {mount} ro - cgroup2 cgroup rw\n")
        };
        // With its own namespace, its group is the root.
        let files = mounted(&paths, "0::/\n", &mount("/"));
        assert_eq!(files, [whole.clone(), own.clone()]);
        // Without one, it sees the full name of the group, and the mount shows that group.
        let files = mounted(
            &paths,
            "0::/app.slice/transom\n",
            &mount("/app.slice/transom"),
        );
        assert_eq!(files, [whole, own]);
    }

    #[test]
    fn a_kernel_without_pressure_information_has_no_files() {
        let paths = Paths {
            proc: "/nonexistent".into(),
            ..Paths::default()
        };
        assert!(paths.pressure_files().is_empty());
    }
}
