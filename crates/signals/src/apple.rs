//! The meaning of values of macOS. Pure, so it is tested on every system; `mac` reads the values.

use crate::signal::{MemoryPressure, ThermalState};

/// Converts the bits of `DISPATCH_MEMORYPRESSURE_*`, which `kern.memorystatus_vm_pressure_level`
/// uses too: 1 is normal, 2 is warning, 4 is critical. Several are set if notifications were
/// merged.
pub(crate) fn memory_pressure(flags: u64) -> MemoryPressure {
    if flags & 4 != 0 {
        MemoryPressure::Critical
    } else if flags & 2 != 0 {
        MemoryPressure::Warning
    } else {
        MemoryPressure::Normal
    }
}

/// Converts an `NSProcessInfoThermalState`. Unknown higher values count as critical.
pub(crate) fn thermal_state(raw: isize) -> ThermalState {
    match raw {
        ..=0 => ThermalState::Nominal,
        1 => ThermalState::Fair,
        2 => ThermalState::Serious,
        3.. => ThermalState::Critical,
    }
}

/// The bytes that the GPU can keep in use without slowing down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkingSet {
    pub(crate) bytes: u64,
    /// Metal did not report it, so it is an estimate.
    pub(crate) is_estimated: bool,
}

impl WorkingSet {
    /// Returns the value that Metal reported, unless it is zero, or else an estimate. All in bytes.
    pub(crate) fn new(reported: Option<u64>, memory_bytes: u64, wired_limit_bytes: u64) -> Self {
        match reported {
            Some(bytes) if bytes > 0 => Self {
                bytes,
                is_estimated: false,
            },
            _ => Self {
                bytes: estimated_working_set(memory_bytes, wired_limit_bytes),
                is_estimated: true,
            },
        }
    }
}

/// Estimates the share of unified memory that the GPU can use. `iogpu.wired_limit_mb` overrides the
/// estimate unless it is zero.
fn estimated_working_set(memory_bytes: u64, wired_limit_bytes: u64) -> u64 {
    match wired_limit_bytes {
        0 => transom_fit::usual_working_set(memory_bytes),
        limit => limit.min(memory_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_merged_notifications_counts() {
        for (flags, expected) in [
            (0, MemoryPressure::Normal),
            (1, MemoryPressure::Normal),
            (2, MemoryPressure::Warning),
            (3, MemoryPressure::Warning),
            (4, MemoryPressure::Critical),
            (6, MemoryPressure::Critical),
        ] {
            assert_eq!(memory_pressure(flags), expected, "{flags}");
        }
    }

    #[test]
    fn every_thermal_state_has_its_own_level() {
        use ThermalState::*;
        let levels = [-1, 0, 1, 2, 3, 4].map(thermal_state);
        assert_eq!(
            levels,
            [Nominal, Nominal, Fair, Serious, Critical, Critical]
        );
    }

    /// The wired limit, and how it is overridden.
    #[test]
    fn the_gpu_gets_a_share_of_memory_or_the_wired_limit() {
        const GIB: u64 = 1 << 30;
        assert_eq!(estimated_working_set(18 * GIB, 0), 12 * GIB);
        assert_eq!(estimated_working_set(64 * GIB, 0), 48 * GIB);
        assert_eq!(estimated_working_set(64 * GIB, 56 * GIB), 56 * GIB);
        assert_eq!(estimated_working_set(16 * GIB, 99 * GIB), 16 * GIB);
    }

    #[test]
    fn the_value_of_metal_counts_and_others_are_marked_as_estimates() {
        const GIB: u64 = 1 << 30;
        let working_set = |reported| WorkingSet::new(reported, 18 * GIB, 0);
        let reported = WorkingSet {
            bytes: 13 * GIB,
            is_estimated: false,
        };
        assert_eq!(working_set(Some(13 * GIB)), reported);
        for nothing in [None, Some(0)] {
            let estimate = working_set(nothing);
            assert!(estimate.is_estimated);
            assert_eq!(estimate.bytes, 12 * GIB);
        }
    }
}
