//! What machine this is: the facts that budgets and defaults follow from.
//!
//! Rule: what the system says stands here; what is published of a chip by its name is `catalog`'s.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::apple::WorkingSet;

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// As the maker names it, such as `Apple M3 Pro`.
    pub chip_name: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Cores made for speed: on Apple silicon the performance cores, elsewhere the physical ones.
    pub n_performance_cores: usize,
    /// Cores of every kind, as the system schedules them.
    pub n_cores: usize,
    /// Bytes that the GPU can keep in use without slowing down
    /// (`MTLDevice.recommendedMaxWorkingSetSize`); `None` without a GPU that shares the memory.
    pub working_set_bytes: Option<u64>,
    /// The working set is the usual one of such a machine: this process was not told its own.
    #[serde(default)]
    pub working_set_is_estimated: bool,
}

impl Hardware {
    /// Returns what the system said when it was first asked in this process. What it does not say
    /// is left out or guessed low.
    pub fn detect() -> Self {
        static DETECTED: OnceLock<Hardware> = OnceLock::new();
        DETECTED.get_or_init(Self::read).clone()
    }

    fn read() -> Self {
        let n_cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let n_physical = sysinfo::System::physical_core_count().unwrap_or(n_cores);
        let (chip_name, memory_bytes) = chip_and_memory();
        let platform = platform::hardware();
        Self {
            chip_name,
            memory_bytes,
            n_performance_cores: platform
                .n_performance_cores
                .unwrap_or(n_physical)
                .min(n_cores),
            n_cores,
            working_set_bytes: platform.working_set.map(|set| set.bytes),
            working_set_is_estimated: platform.working_set.is_some_and(|set| set.is_estimated),
        }
    }
}

/// The chip's name and the bytes of memory, of which a container may see less than there is.
fn chip_and_memory() -> (String, u64) {
    let mut system = match sysinfo::System::new() {
        Ok(system) => system,
        Err(error) => {
            tracing::warn!(%error, "the machine's memory is not known; it counts as 8 GB");
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

/// What only one system can tell.
#[derive(Debug, Default)]
pub(crate) struct PlatformHardware {
    pub(crate) n_performance_cores: Option<usize>,
    pub(crate) working_set: Option<WorkingSet>,
}

#[cfg(target_os = "macos")]
use crate::mac as platform;

#[cfg(not(target_os = "macos"))]
mod platform {
    pub(super) fn hardware() -> super::PlatformHardware {
        super::PlatformHardware::default()
    }
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
