//! The current decode speed of a response, in tokens per second.
//!
//! Each text event has the number of tokens generated so far, including those without text, so the
//! speed is counted and not estimated. Rule: there is no speed during the first second of text.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The time window of the speed.
const WINDOW: Duration = Duration::from_secs(3);

/// A shorter time gives no meaningful speed.
const MIN_TIME: Duration = Duration::from_secs(1);

/// Minimum time between two samples: ten per second are enough.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Speed {
    /// Token counts with their times: the samples in the window and the last one before it.
    samples: VecDeque<(Instant, usize)>,
}

impl Speed {
    /// Adds a sample and returns the tokens per second in the window.
    pub(super) fn at(&mut self, now: Instant, n_tokens: usize) -> Option<f32> {
        let last = self.samples.back();
        if last.is_none_or(|(at, _)| now.duration_since(*at) >= SAMPLE_INTERVAL) {
            self.samples.push_back((now, n_tokens));
        }
        let is_past = |(at, _): &(Instant, usize)| now.duration_since(*at) >= WINDOW;
        while self.samples.get(1).is_some_and(is_past) {
            self.samples.pop_front();
        }
        let (since, n_before) = *self.samples.front()?;
        let time = now.duration_since(since);
        let n_new = n_tokens.checked_sub(n_before).filter(|n| *n > 0)?;
        (time >= MIN_TIME).then(|| (n_new as f64 / time.as_secs_f64()) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_is_measured_over_the_last_seconds() {
        let begin = Instant::now();
        let mut speed = Speed::default();
        let mut last = None;
        // Ten seconds at 10 tokens per second, then four at 40.
        let mut n_tokens = 1;
        for tick in 0..=140u32 {
            last = speed.at(begin + SAMPLE_INTERVAL * tick, n_tokens);
            if tick == 5 {
                assert_eq!(last, None, "half a second says too little");
            }
            if tick == 100 {
                let of_slow = last.expect("there is a speed after a second");
                assert!((of_slow - 10.0).abs() < 0.5, "{of_slow}");
            }
            n_tokens += if tick < 100 { 1 } else { 4 };
        }
        let of_fast = last.expect("there is a speed after a second");
        assert!((of_fast - 40.0).abs() < 1.0, "{of_fast}");
        assert!(speed.samples.len() < 40, "{} samples", speed.samples.len());
    }

    #[test]
    fn there_is_no_speed_without_token_counts() {
        let begin = Instant::now();
        let mut speed = Speed::default();
        for second in 0..5 {
            assert_eq!(speed.at(begin + MIN_TIME * second, 0), None);
        }
    }
}
