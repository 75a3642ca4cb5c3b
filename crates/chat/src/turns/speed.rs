//! Tokens a second of late, while an answer is written.
//!
//! Text says how many tokens were generated so far, those that gave no text yet included, so the
//! pace between two texts is counted, not guessed. Rule: before a second of text there is none.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// What "of late" means.
const WINDOW: Duration = Duration::from_secs(3);

/// Less time than that says little about a speed.
const LEAST_TIME: Duration = Duration::from_secs(1);

/// Least time between two samples that are kept: ten a second are plenty.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// The speed of one answer.
#[derive(Debug, Default)]
pub(super) struct Speed {
    /// When there were how many tokens: the samples of the window, and the last before it.
    seen: VecDeque<(Instant, usize)>,
}

impl Speed {
    /// Tokens a second of late, where the answer has `n_tokens` at `now`.
    pub(super) fn at(&mut self, now: Instant, n_tokens: usize) -> Option<f32> {
        let last = self.seen.back();
        if last.is_none_or(|(at, _)| now.duration_since(*at) >= SAMPLE_INTERVAL) {
            self.seen.push_back((now, n_tokens));
        }
        let is_past = |(at, _): &(Instant, usize)| now.duration_since(*at) >= WINDOW;
        while self.seen.get(1).is_some_and(is_past) {
            self.seen.pop_front();
        }
        let (since, n_before) = *self.seen.front()?;
        let time = now.duration_since(since);
        let n_new = n_tokens.checked_sub(n_before).filter(|n| *n > 0)?;
        (time >= LEAST_TIME).then(|| (n_new as f64 / time.as_secs_f64()) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_is_that_of_the_last_seconds() {
        let begin = Instant::now();
        let mut speed = Speed::default();
        let mut last = None;
        // Ten seconds at 10 tokens a second, then four at 40.
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
        assert!(speed.seen.len() < 40, "{} samples", speed.seen.len());
    }

    #[test]
    fn an_engine_that_does_not_count_has_no_speed() {
        let begin = Instant::now();
        let mut speed = Speed::default();
        for second in 0..5 {
            assert_eq!(speed.at(begin + LEAST_TIME * second, 0), None);
        }
    }
}
