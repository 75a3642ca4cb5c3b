//! The hardware of this machine, from which budgets and defaults follow.
//!
//! Rule: this module has only values that the system reports. Published facts about a chip are in
//! `catalog`.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// The hardware of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// Name of the chip, such as `Apple M3 Pro`.
    pub chip_name: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Performance cores on Apple silicon, physical cores elsewhere.
    pub n_performance_cores: usize,
    /// All logical cores.
    pub n_cores: usize,
    /// Bytes that the GPU can keep in use without slowing down
    /// (`MTLDevice.recommendedMaxWorkingSetSize`); `None` without a GPU that shares the memory.
    pub working_set_bytes: Option<u64>,
    /// The working set is an estimate, because the system did not report it to this process.
    #[serde(default)]
    pub working_set_is_estimated: bool,
}

impl Hardware {
    /// Returns the hardware, which is read once per process. Unknown values are left out or have a
    /// low default.
    pub fn detect() -> Self {
        static DETECTED: OnceLock<Hardware> = OnceLock::new();
        DETECTED.get_or_init(Self::read).clone()
    }

    fn read() -> Self {
        let n_cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let n_physical = sysinfo::System::physical_core_count().unwrap_or(n_cores);
        let (chip_name, memory_bytes) = chip_and_memory();
        #[cfg(target_os = "macos")]
        let (n_performance, working_set) = crate::mac::hardware();
        #[cfg(not(target_os = "macos"))]
        let (n_performance, working_set) = (None, None::<crate::apple::WorkingSet>);
        Self {
            chip_name,
            memory_bytes,
            n_performance_cores: n_performance.unwrap_or(n_physical).min(n_cores),
            n_cores,
            working_set_bytes: working_set.map(|set| set.bytes),
            working_set_is_estimated: working_set.is_some_and(|set| set.is_estimated),
        }
    }
}

/// Returns the name of the chip and the bytes of memory; in a container, at most its limit.
fn chip_and_memory() -> (String, u64) {
    let mut system = match sysinfo::System::new() {
        Ok(system) => system,
        Err(error) => {
            tracing::warn!(%error, "the memory size is unknown; assuming 8 GB");
            return (String::new(), 8 << 30);
        }
    };
    system.refresh_memory();
    system.refresh_cpu_list(sysinfo::CpuRefreshKind::nothing());
    let chip_name = system
        .cpus()
        .first()
        .map(|cpu| cpu.brand().trim().to_owned());
    let limit = system.cgroup_limits().map(|limits| limits.total_memory);
    let memory_bytes = system.total_memory();
    let memory_bytes = limit.map_or(memory_bytes, |limit| limit.min(memory_bytes));
    (chip_name.unwrap_or_default(), memory_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_and_cores() {
        let hardware = Hardware::detect();
        assert!(hardware.memory_bytes > 256 << 20, "{hardware:?}");
        assert!(hardware.n_performance_cores >= 1, "{hardware:?}");
        assert!(
            hardware.n_cores >= hardware.n_performance_cores,
            "{hardware:?}"
        );
    }
}
