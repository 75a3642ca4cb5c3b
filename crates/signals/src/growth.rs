//! Whether swap grows so fast that the machine is thrashing. Pure, and shared by both systems.

use std::time::Duration;

use crate::signal::SystemSignals;

/// Growth of something counted in bytes, over the last seconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct GrowthMeter {
    samples: Vec<(Duration, u64)>,
}

impl GrowthMeter {
    /// Time over which growth is averaged: long enough that one burst is no trend.
    const WINDOW: Duration = Duration::from_secs(5);

    /// Takes a sample, and says whether it grows as [`SystemSignals::THRASHING_BYTES_PER_SECOND`]
    /// has it. Samples must cover half the window before anything is said.
    pub(crate) fn is_thrashing(&mut self, bytes: u64, now: Duration) -> bool {
        self.samples.push((now, bytes));
        self.samples.retain(|(at, _)| *at + Self::WINDOW >= now);
        let Some(&(first_at, first)) = self.samples.first() else {
            return false;
        };
        let time = now.saturating_sub(first_at);
        let limit = SystemSignals::THRASHING_BYTES_PER_SECOND as f64 * time.as_secs_f64();
        time >= Self::WINDOW / 2 && bytes.saturating_sub(first) as f64 > limit
    }

    /// Forgets all samples.
    pub(crate) fn clear(&mut self) {
        self.samples.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn only_growth_that_lasts_is_thrashing() {
        const MIB: u64 = 1 << 20;
        let mut meter = GrowthMeter::default();
        assert!(!meter.is_thrashing(0, seconds(0)));
        assert!(
            !meter.is_thrashing(900 * MIB, seconds(1)),
            "too short to tell"
        );
        assert!(meter.is_thrashing(900 * MIB, seconds(3)));
        assert!(
            !meter.is_thrashing(900 * MIB, seconds(9)),
            "it no longer grows"
        );
        meter.clear();
        assert!(!meter.is_thrashing(5000 * MIB, seconds(10)));
        assert!(
            !meter.is_thrashing(5100 * MIB, seconds(14)),
            "25 MiB/s is no thrashing"
        );
    }
}
