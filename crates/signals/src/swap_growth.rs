//! Detects thrashing from the bytes that are swapped out. Pure, and shared by both systems.

use std::time::Duration;

use crate::signal::{MemoryPressure, SystemSignals};

/// The bytes swapped out over the last seconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct SwapGrowth {
    samples: Vec<(Duration, u64)>,
}

impl SwapGrowth {
    /// Time over which growth is averaged, so that a single burst does not count.
    const WINDOW: Duration = Duration::from_secs(5);

    /// Returns true if the machine is thrashing. The bytes swapped out since the start of the machine
    /// are read only under pressure.
    pub(crate) fn update(
        &mut self,
        level: MemoryPressure,
        swapped_out_bytes: impl FnOnce() -> Option<u64>,
        now: Duration,
    ) -> bool {
        if level == MemoryPressure::Normal {
            self.samples.clear();
            return false;
        }
        swapped_out_bytes().is_some_and(|bytes| self.is_thrashing(bytes, now))
    }

    /// Adds a sample, the `bytes` swapped out since the start of the machine. Returns true if they
    /// grow by more than [`SystemSignals::THRASHING_BYTES_PER_SECOND`]. The samples must cover at
    /// least half the window.
    fn is_thrashing(&mut self, bytes: u64, now: Duration) -> bool {
        self.samples.push((now, bytes));
        self.samples.retain(|(at, _)| *at + Self::WINDOW >= now);
        let Some(&(first_at, first)) = self.samples.first() else {
            return false;
        };
        let time = now.saturating_sub(first_at);
        let limit = SystemSignals::THRASHING_BYTES_PER_SECOND as f64 * time.as_secs_f64();
        time >= Self::WINDOW / 2 && bytes.saturating_sub(first) as f64 > limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn only_lasting_growth_is_thrashing() {
        const MIB: u64 = 1 << 20;
        let mut growth = SwapGrowth::default();
        assert!(!growth.is_thrashing(0, seconds(0)));
        assert!(
            !growth.is_thrashing(900 * MIB, seconds(1)),
            "too short to tell"
        );
        assert!(growth.is_thrashing(900 * MIB, seconds(3)));
        assert!(
            !growth.is_thrashing(900 * MIB, seconds(9)),
            "it no longer grows"
        );
        assert!(!growth.update(MemoryPressure::Normal, || None, seconds(10)));
        assert!(!growth.is_thrashing(5000 * MIB, seconds(10)));
        assert!(
            !growth.is_thrashing(5100 * MIB, seconds(14)),
            "25 MiB/s is not thrashing"
        );
    }
}
