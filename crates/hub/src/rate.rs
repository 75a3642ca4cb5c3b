//! How fast bytes come, and how long the rest will take: smoothed, so that people can read it.
//!
//! Rule: no clock is read here; the time is an argument.

use std::time::{Duration, Instant};

/// Half of the weight is on what came within this time.
const HALF_LIFE: Duration = Duration::from_secs(4);
/// Before this, one burst would be taken for the rate.
const FIRST_WORD: Duration = Duration::from_secs(1);
/// Longer than this is no estimate that anybody could use.
const LONGEST_LEFT: u64 = 14 * 24 * 3600;

/// The rate of one download.
#[derive(Debug, Clone)]
pub(crate) struct Rate {
    began: Instant,
    last: Instant,
    done_bytes: u64,
    /// Bytes and seconds, both fading alike, so that the first moments are not too low.
    faded_bytes: f64,
    faded_seconds: f64,
}

impl Rate {
    /// Begins with what is there already, which did not come now.
    pub(crate) fn new(now: Instant, done_bytes: u64) -> Self {
        Self {
            began: now,
            last: now,
            done_bytes,
            faded_bytes: 0.0,
            faded_seconds: 0.0,
        }
    }

    /// Takes note of how many bytes are there now. Fewer than before (a file that started over)
    /// count as none.
    pub(crate) fn note(&mut self, now: Instant, done_bytes: u64) {
        let seconds = now.saturating_duration_since(self.last).as_secs_f64();
        let fade = (-seconds * std::f64::consts::LN_2 / HALF_LIFE.as_secs_f64()).exp();
        let came = done_bytes.saturating_sub(self.done_bytes) as f64;
        self.faded_bytes = self.faded_bytes * fade + came;
        self.faded_seconds = self.faded_seconds * fade + seconds;
        self.last = now;
        self.done_bytes = done_bytes;
    }

    /// 0 until it can be told.
    pub(crate) fn bytes_per_second(&self) -> u64 {
        if self.last.saturating_duration_since(self.began) < FIRST_WORD {
            return 0;
        }
        (self.faded_bytes / self.faded_seconds.max(0.001)) as u64
    }

    /// For the rest at this rate.
    pub(crate) fn seconds_left(&self, total_bytes: Option<u64>) -> Option<u64> {
        let rest = total_bytes?.saturating_sub(self.done_bytes);
        let rate = self.bytes_per_second();
        if rate == 0 {
            return None;
        }
        let left = rest.div_ceil(rate);
        (left <= LONGEST_LEFT).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    #[test]
    fn a_steady_stream_has_its_rate_and_a_stall_fades() {
        let start = Instant::now();
        let mut rate = Rate::new(start, 50 * MB);
        let mut done = 50 * MB;
        for step in 1..=40 {
            done += 5 * MB;
            rate.note(start + Duration::from_millis(250 * step), done);
        }
        let steady = rate.bytes_per_second();
        assert!((19 * MB..=21 * MB).contains(&steady), "{steady}");
        assert_eq!(rate.seconds_left(Some(done + 200 * MB)), Some(10));
        rate.note(start + Duration::from_secs(60), done);
        assert!(rate.bytes_per_second() < MB / 10);
    }

    #[test]
    fn the_first_burst_is_no_rate_and_nothing_lasts_for_years() {
        let start = Instant::now();
        let mut rate = Rate::new(start, 0);
        rate.note(start + Duration::from_millis(10), 8 * MB);
        assert_eq!(rate.bytes_per_second(), 0);
        assert_eq!(rate.seconds_left(Some(100 * MB)), None);
        let mut slow = Rate::new(start, 0);
        slow.note(start + Duration::from_secs(10), 100);
        assert_eq!(slow.bytes_per_second(), 10);
        assert_eq!(slow.seconds_left(Some(40_000 * MB)), None);
        assert_eq!(slow.seconds_left(None), None);
    }

    #[test]
    fn a_file_that_starts_over_is_not_a_negative_rate() {
        let start = Instant::now();
        let mut rate = Rate::new(start, 0);
        rate.note(start + Duration::from_secs(2), 20 * MB);
        rate.note(start + Duration::from_secs(3), 0);
        rate.note(start + Duration::from_secs(4), 10 * MB);
        assert!(rate.bytes_per_second() > 5 * MB);
        assert_eq!(rate.seconds_left(Some(10 * MB)), Some(0));
    }
}
