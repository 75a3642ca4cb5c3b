//! The smoothed download rate and the remaining time.
//!
//! Rule: this module reads no clock; the time is an argument.

use std::time::{Duration, Instant};

/// Half of the weight is on the bytes received within this time.
const HALF_LIFE: Duration = Duration::from_secs(4);
/// The rate is unknown before this, because it would only be that of the first burst.
const MIN_MEASURED_TIME: Duration = Duration::from_secs(1);
/// Longer estimates are not shown.
const MAX_SECONDS_LEFT: u64 = 14 * 24 * 3600;

#[derive(Debug, Clone)]
pub(crate) struct Rate {
    began: Instant,
    last: Instant,
    done_bytes: u64,
    /// Bytes and seconds decay alike, so that the first values are not too low.
    decayed_bytes: f64,
    decayed_seconds: f64,
}

impl Rate {
    /// Starts with the bytes on the disk, which do not count for the rate.
    pub(crate) fn new(now: Instant, done_bytes: u64) -> Self {
        Self {
            began: now,
            last: now,
            done_bytes,
            decayed_bytes: 0.0,
            decayed_seconds: 0.0,
        }
    }

    /// Records the current number of bytes. If there are fewer than before, because a file started
    /// over, no bytes were received.
    pub(crate) fn record(&mut self, now: Instant, done_bytes: u64) {
        let seconds = now.saturating_duration_since(self.last).as_secs_f64();
        let decay = (-seconds * std::f64::consts::LN_2 / HALF_LIFE.as_secs_f64()).exp();
        let received = done_bytes.saturating_sub(self.done_bytes) as f64;
        self.decayed_bytes = self.decayed_bytes * decay + received;
        self.decayed_seconds = self.decayed_seconds * decay + seconds;
        self.last = now;
        self.done_bytes = done_bytes;
    }

    /// Returns 0 while the rate is unknown.
    pub(crate) fn bytes_per_second(&self) -> u64 {
        if self.last.saturating_duration_since(self.began) < MIN_MEASURED_TIME {
            return 0;
        }
        (self.decayed_bytes / self.decayed_seconds.max(0.001)) as u64
    }

    pub(crate) fn seconds_left(&self, total_bytes: Option<u64>) -> Option<u64> {
        let rest = total_bytes?.saturating_sub(self.done_bytes);
        let rate = self.bytes_per_second();
        if rate == 0 {
            return None;
        }
        let left = rest.div_ceil(rate);
        (left <= MAX_SECONDS_LEFT).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    #[test]
    fn a_steady_stream_has_its_rate_and_a_stall_decays() {
        let start = Instant::now();
        let mut rate = Rate::new(start, 50 * MB);
        let mut done = 50 * MB;
        for step in 1..=40 {
            done += 5 * MB;
            rate.record(start + Duration::from_millis(250 * step), done);
        }
        let steady = rate.bytes_per_second();
        assert!((19 * MB..=21 * MB).contains(&steady), "{steady}");
        assert_eq!(rate.seconds_left(Some(done + 200 * MB)), Some(10));
        rate.record(start + Duration::from_secs(60), done);
        assert!(rate.bytes_per_second() < MB / 10);
    }

    #[test]
    fn the_first_burst_has_no_rate_and_long_estimates_are_hidden() {
        let start = Instant::now();
        let mut rate = Rate::new(start, 0);
        rate.record(start + Duration::from_millis(10), 8 * MB);
        assert_eq!(rate.bytes_per_second(), 0);
        assert_eq!(rate.seconds_left(Some(100 * MB)), None);
        let mut slow = Rate::new(start, 0);
        slow.record(start + Duration::from_secs(10), 100);
        assert_eq!(slow.bytes_per_second(), 10);
        assert_eq!(slow.seconds_left(Some(40_000 * MB)), None);
        assert_eq!(slow.seconds_left(None), None);
    }

    #[test]
    fn a_file_that_starts_over_has_no_negative_rate() {
        let start = Instant::now();
        let mut rate = Rate::new(start, 0);
        rate.record(start + Duration::from_secs(2), 20 * MB);
        rate.record(start + Duration::from_secs(3), 0);
        rate.record(start + Duration::from_secs(4), 10 * MB);
        assert!(rate.bytes_per_second() > 5 * MB);
        assert_eq!(rate.seconds_left(Some(10 * MB)), Some(0));
    }
}
