//! How often a growing text is rendered.

use std::time::Duration;

/// Time between two readings, in times of what a reading takes: readings take at most 4 % of a
/// core, however long the text is.
const PAUSE_FACTOR: u32 = 25;

/// Derives the time between two readings from what the last ones took.
///
/// The faster of the last two counts: a single slow one says nothing of the next, such as the
/// first that loads the syntaxes of code.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    last: Duration,
    before: Duration,
}

impl Pace {
    /// Takes note of what a reading took.
    pub fn took(&mut self, time: Duration) {
        (self.before, self.last) = (self.last, time);
    }

    /// Returns the least time from the start of the last reading to the start of the next.
    pub fn interval(&self) -> Duration {
        self.last.min(self.before) * PAUSE_FACTOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_readings_are_rare_but_one_slow_reading_is_an_exception() {
        let mut pace = Pace::default();
        assert_eq!(pace.interval(), Duration::ZERO);
        let (fast, slow) = (Duration::from_micros(100), Duration::from_millis(40));
        pace.took(fast);
        pace.took(slow);
        assert_eq!(pace.interval(), Duration::from_micros(2500));
        pace.took(slow);
        assert_eq!(pace.interval(), Duration::from_millis(1000));
        pace.took(fast);
        assert_eq!(pace.interval(), Duration::from_micros(2500));
    }
}
