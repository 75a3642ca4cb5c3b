//! What Apple's numbers mean. Pure, so that it is tested on any system; who reads them is in `mac`.

use crate::signal::{MemoryPressure, ThermalState};

/// From the bits of `DISPATCH_MEMORYPRESSURE_*`, which `kern.memorystatus_vm_pressure_level` uses
/// too: 1 is normal, 2 is warning, 4 is critical. Several may be set when notices were merged.
pub(crate) fn memory_pressure(flags: u64) -> MemoryPressure {
    if flags & 4 != 0 {
        MemoryPressure::Critical
    } else if flags & 2 != 0 {
        MemoryPressure::Warning
    } else {
        MemoryPressure::Normal
    }
}

/// From an `NSProcessInfoThermalState`. A number that is not known yet can only be worse.
pub(crate) fn thermal_state(raw: isize) -> ThermalState {
    match raw {
        ..=0 => ThermalState::Nominal,
        1 => ThermalState::Fair,
        2 => ThermalState::Serious,
        3.. => ThermalState::Critical,
    }
}

/// Bytes of swap in use, from a `struct xsw_usage`: total, available and used of 8 bytes each, then
/// other things.
pub(crate) fn swap_used_bytes(usage: &[u8]) -> Option<u64> {
    let used: [u8; 8] = usage.get(16..24)?.try_into().ok()?;
    Some(u64::from_ne_bytes(used))
}

/// The bytes that the GPU can keep in use without slowing down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkingSet {
    pub(crate) bytes: u64,
    /// Metal did not say, so it is the usual share of memory.
    pub(crate) is_estimated: bool,
}

impl WorkingSet {
    /// What Metal said, if it is more than nothing; else the usual share. All in bytes.
    pub(crate) fn of(said: Option<u64>, memory_bytes: u64, wired_limit_bytes: u64) -> Self {
        match said {
            Some(bytes) if bytes > 0 => Self {
                bytes,
                is_estimated: false,
            },
            _ => Self {
                bytes: usual_working_set(memory_bytes, wired_limit_bytes),
                is_estimated: true,
            },
        }
    }
}

/// The GPU's share of unified memory where Metal does not say: two thirds up to 36 GB, three
/// quarters above, as measured on many Macs; `iogpu.wired_limit_mb` overrides it unless it is zero.
fn usual_working_set(memory_bytes: u64, wired_limit_bytes: u64) -> u64 {
    const LARGE: u64 = 36 << 30;
    match wired_limit_bytes {
        0 if memory_bytes <= LARGE => memory_bytes / 3 * 2,
        0 => memory_bytes / 4 * 3,
        limit => limit.min(memory_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_merged_notices_counts() {
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

    /// D087.
    #[test]
    fn every_thermal_state_has_its_own_level() {
        use ThermalState::*;
        let levels = [-1, 0, 1, 2, 3, 4].map(thermal_state);
        assert_eq!(
            levels,
            [Nominal, Nominal, Fair, Serious, Critical, Critical]
        );
    }

    #[test]
    fn swap_in_use_is_the_third_field() {
        let fields = [4096u64, 3072, 1024, 0].map(u64::to_ne_bytes).concat();
        assert_eq!(swap_used_bytes(&fields), Some(1024));
        assert_eq!(swap_used_bytes(&fields[..20]), None);
    }

    /// D017: the wired limit, and how it is overridden.
    #[test]
    fn the_gpu_gets_a_share_of_memory_unless_told_otherwise() {
        const GIB: u64 = 1 << 30;
        assert_eq!(usual_working_set(18 * GIB, 0), 12 * GIB);
        assert_eq!(usual_working_set(64 * GIB, 0), 48 * GIB);
        assert_eq!(usual_working_set(64 * GIB, 56 * GIB), 56 * GIB);
        assert_eq!(usual_working_set(16 * GIB, 99 * GIB), 16 * GIB);
    }

    /// D018.
    #[test]
    fn what_metal_says_counts_and_a_guess_is_called_one() {
        const GIB: u64 = 1 << 30;
        let of = |said| WorkingSet::of(said, 18 * GIB, 0);
        let said = WorkingSet {
            bytes: 13 * GIB,
            is_estimated: false,
        };
        assert_eq!(of(Some(13 * GIB)), said);
        for nothing in [None, Some(0)] {
            let working_set = of(nothing);
            assert!(working_set.is_estimated);
            assert_eq!(working_set.bytes, 12 * GIB);
        }
    }
}
