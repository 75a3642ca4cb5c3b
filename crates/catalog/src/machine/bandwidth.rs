//! Memory bandwidth, which limits the decode speed: each token reads all weights that it uses.
//!
//! The numbers are from Apple's technical specifications (<https://support.apple.com/specs>).
//! Where chips of one name differ, the range covers all of them.

use serde::Serialize;

const GB: u64 = 1_000_000_000;
const GIB: u64 = 1 << 30;

/// Memory bandwidth as a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bandwidth {
    /// Lower bound.
    pub low_bytes_per_second: u64,
    /// Upper bound.
    pub high_bytes_per_second: u64,
    /// Source of the numbers.
    pub basis: BandwidthBasis,
}

/// Source of a bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BandwidthBasis {
    /// Published for the chip.
    Chip,
    /// Bandwidths of the Macs with this much memory.
    Memory,
    /// Measured with the CPU.
    Measured,
}

/// Chips by name: GB per second of the slowest and the fastest chip with that name.
const CHIPS: [(&str, u64, u64); 21] = [
    ("Apple M1", 68, 68),
    ("Apple M1 Pro", 200, 200),
    ("Apple M1 Max", 400, 400),
    ("Apple M1 Ultra", 800, 800),
    ("Apple M2", 100, 100),
    ("Apple M2 Pro", 200, 200),
    ("Apple M2 Max", 400, 400),
    ("Apple M2 Ultra", 800, 800),
    ("Apple M3", 100, 100),
    ("Apple M3 Pro", 150, 150),
    ("Apple M3 Max", 300, 400),
    ("Apple M3 Ultra", 819, 819),
    ("Apple M4", 120, 120),
    ("Apple M4 Pro", 273, 273),
    ("Apple M4 Max", 410, 546),
    ("Apple M5", 153, 153),
    ("Apple M5 Pro", 307, 307),
    ("Apple M5 Max", 460, 614),
    ("Apple A17 Pro", 51, 51),
    ("Apple A18", 60, 60),
    ("Apple A18 Pro", 60, 60),
];

/// Macs by memory, up to this many GiB: GB per second of the slowest and the fastest of them.
const MACS: [(u64, u64, u64); 6] = [
    (8, 68, 100),
    (16, 68, 200),
    (24, 100, 307),
    (48, 150, 614),
    (64, 200, 614),
    (128, 300, 819),
];

impl Bandwidth {
    /// Returns the bandwidth of the chip with this full name, if known.
    pub fn of_chip(name: &str) -> Option<Self> {
        let chip = CHIPS.iter().find(|(known, ..)| *known == name)?;
        Some(Self::between(chip.1, chip.2, BandwidthBasis::Chip))
    }

    /// Returns the bandwidth of the Macs with this much memory.
    pub fn of_memory(memory_bytes: u64) -> Self {
        let mac = MACS.iter().find(|(most, ..)| memory_bytes <= most * GIB);
        let (_, low, high) = mac.copied().unwrap_or((u64::MAX, 800, 819));
        Self::between(low, high, BandwidthBasis::Memory)
    }

    /// Returns a measured bandwidth.
    pub fn measured(bytes_per_second: u64) -> Self {
        Self {
            low_bytes_per_second: bytes_per_second,
            high_bytes_per_second: bytes_per_second,
            basis: BandwidthBasis::Measured,
        }
    }

    fn between(low: u64, high: u64, basis: BandwidthBasis) -> Self {
        Self {
            low_bytes_per_second: low * GB,
            high_bytes_per_second: high * GB,
            basis,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chip_is_found_by_its_full_name() {
        let gigabytes = |name| {
            let known = Bandwidth::of_chip(name)?;
            assert_eq!(known.basis, BandwidthBasis::Chip);
            Some((
                known.low_bytes_per_second / GB,
                known.high_bytes_per_second / GB,
            ))
        };
        assert_eq!(gigabytes("Apple M3"), Some((100, 100)));
        assert_eq!(gigabytes("Apple M3 Pro"), Some((150, 150)));
        assert_eq!(gigabytes("Apple M4 Max"), Some((410, 546)));
        for unknown in ["AMD EPYC", "Apple M", "apple m3", ""] {
            assert_eq!(gigabytes(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn every_range_is_ascending_and_chips_are_unique() {
        let mut names = std::collections::HashSet::new();
        for (name, low, high) in CHIPS {
            assert!(0 < low && low <= high, "{name}");
            assert!(names.insert(name), "{name}");
        }
        for pair in MACS.windows(2) {
            let ((less, low, high), (more, lower, higher)) = (pair[0], pair[1]);
            assert!(less < more && low <= lower && high <= higher, "{more} GiB");
        }
    }
}
