//! Limits how often a growing text is rendered.

use std::time::Duration;

/// The interval between renders, as a multiple of a render's duration: rendering uses at most 4 %
/// of a core, however long the text is.
const INTERVAL_FACTOR: u32 = 25;

/// Computes the interval between renders from the durations of the last two.
///
/// The shorter duration counts, because one slow render says nothing about the next. For example,
/// the first code block loads the syntaxes.
#[derive(Debug, Clone, Copy, Default)]
pub struct RenderInterval {
    last: Duration,
    before: Duration,
}

impl RenderInterval {
    /// Records the duration of a render.
    pub fn record(&mut self, time: Duration) {
        (self.before, self.last) = (self.last, time);
    }

    /// Returns the minimum time between the starts of two renders.
    pub fn get(&self) -> Duration {
        self.last.min(self.before) * INTERVAL_FACTOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_renders_lengthen_the_interval_but_one_slow_render_does_not() {
        let mut interval = RenderInterval::default();
        assert_eq!(interval.get(), Duration::ZERO);
        let (fast, slow) = (Duration::from_micros(100), Duration::from_millis(40));
        interval.record(fast);
        interval.record(slow);
        assert_eq!(interval.get(), Duration::from_micros(2500));
        interval.record(slow);
        assert_eq!(interval.get(), Duration::from_millis(1000));
        interval.record(fast);
        assert_eq!(interval.get(), Duration::from_micros(2500));
    }
}
