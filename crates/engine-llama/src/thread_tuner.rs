//! Decides how many threads compute a step on the CPU.
//!
//! A step waits for its slowest thread some hundred times. If another program needs a core, the
//! system takes it from one thread for some milliseconds, and all others spin meanwhile: two
//! threads on two busy cores can be fifty times slower than one. So when steps are slow, the tuner
//! tries fewer threads, and from time to time more again, and keeps the faster number.
//!
//! Rule: no clock is read here, and on an idle machine the number never changes.

use std::time::Duration;

/// A step is slow if it takes this many times as long as the fastest recent one.
const SLOW: f64 = 3.0;

/// Excess of slow steps that starts a trial.
const SLOW_LIMIT: f64 = 2.0;

const TRIAL_STEPS: u32 = 6;

/// Steps with fewer threads before more are tried; doubled each time that more were not faster.
const MIN_WAIT: u32 = 64;
const MAX_WAIT: u32 = 4096;

/// Growth per step of the fastest recorded time: steps become slower as the context fills up.
const FASTEST_GROWTH: f64 = 1.01;

/// Weight of the newest step in the mean.
const NEWEST_WEIGHT: f64 = 0.2;

#[derive(Debug)]
pub(crate) struct ThreadTuner {
    max_threads: usize,
    n_threads: usize,
    times: StepTimes,
    trial: Option<Trial>,
    /// Number of trials of fewer threads so far.
    n_reductions: usize,
    /// Steps until more threads are tried.
    wait: u32,
    next_wait: u32,
}

/// Times of steps with one number of threads, in seconds.
#[derive(Debug, Clone, Copy, Default)]
struct StepTimes {
    mean: Option<f64>,
    fastest: Option<f64>,
    slowness: f64,
}

#[derive(Debug)]
struct Trial {
    before: usize,
    times_before: StepTimes,
    steps_left: u32,
}

impl StepTimes {
    fn add(&mut self, seconds: f64) {
        let fastest = self
            .fastest
            .map_or(seconds, |f| (f * FASTEST_GROWTH).min(seconds));
        self.fastest = Some(fastest);
        self.mean = Some(
            self.mean
                .map_or(seconds, |m| m + NEWEST_WEIGHT * (seconds - m)),
        );
        let change = if seconds > SLOW * fastest { 1.0 } else { -0.25 };
        self.slowness = (self.slowness + change).max(0.0);
    }
}

impl ThreadTuner {
    pub(crate) fn new(max_threads: usize) -> Self {
        Self {
            max_threads,
            n_threads: max_threads,
            times: StepTimes::default(),
            trial: None,
            n_reductions: 0,
            wait: MIN_WAIT,
            next_wait: MIN_WAIT,
        }
    }

    pub(crate) fn n_threads(&self) -> usize {
        self.n_threads
    }

    /// Records the time of a step over one token.
    pub(crate) fn record_step(&mut self, took: Duration) {
        self.times.add(took.as_secs_f64());
        match &mut self.trial {
            Some(trial) if trial.steps_left > 1 => trial.steps_left -= 1,
            Some(_) => self.end_trial(),
            None if self.times.slowness >= SLOW_LIMIT && self.n_threads > 1 => self.try_fewer(),
            None if self.n_threads < self.max_threads => {
                self.wait = self.wait.saturating_sub(1);
                if self.wait == 0 {
                    self.start_trial((self.n_threads * 2).min(self.max_threads));
                }
            }
            None => {}
        }
    }

    /// Tries fewer threads. The best number depends on how many cores other programs need, so each
    /// trial uses another number.
    fn try_fewer(&mut self) {
        let fewer = [self.n_threads / 2, self.n_threads - 1, 1];
        let n_threads = fewer[self.n_reductions % fewer.len()];
        self.n_reductions += 1;
        self.start_trial(n_threads);
    }

    fn start_trial(&mut self, n_threads: usize) {
        self.trial = Some(Trial {
            before: self.n_threads,
            times_before: self.times,
            steps_left: TRIAL_STEPS,
        });
        self.n_threads = n_threads;
        self.times = StepTimes::default();
    }

    /// Keeps the faster of the two numbers.
    fn end_trial(&mut self) {
        let Some(trial) = self.trial.take() else {
            return;
        };
        let is_faster = match (self.times.mean, trial.times_before.mean) {
            (Some(now), Some(before)) => now < before,
            (_, _) => false,
        };
        let tried_more = self.n_threads > trial.before;
        if is_faster {
            self.next_wait = MIN_WAIT;
        } else {
            self.n_threads = trial.before;
            self.times = trial.times_before;
            self.times.slowness = 0.0;
            if tried_more {
                self.next_wait = (self.next_wait * 2).min(MAX_WAIT);
            }
        }
        self.wait = self.next_wait;
        tracing::debug!(
            threads = self.n_threads,
            is_faster,
            "tried another number of threads"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `n` steps; `cost` returns the seconds of a step from its number and threads. Returns
    /// the total seconds.
    fn run(tuner: &mut ThreadTuner, n: usize, cost: impl Fn(usize, usize) -> f64) -> f64 {
        let mut total = 0.0;
        for step in 0..n {
            let seconds = cost(step, tuner.n_threads());
            total += seconds;
            tuner.record_step(Duration::from_secs_f64(seconds));
        }
        total
    }

    fn idle(_: usize, n_threads: usize) -> f64 {
        0.010 / n_threads as f64
    }

    /// Most steps lose a core for a while, unless there is only one thread.
    fn busy(step: usize, n_threads: usize) -> f64 {
        let waits = n_threads > 1 && !step.is_multiple_of(5);
        idle(step, n_threads) + if waits { 0.030 } else { 0.0 }
    }

    #[test]
    fn on_an_idle_machine_all_threads_are_used() {
        let mut tuner = ThreadTuner::new(8);
        let total = run(&mut tuner, 1000, idle);
        assert_eq!(tuner.n_threads(), 8);
        assert!((total - 1000.0 * idle(0, 8)).abs() < 1e-9);
    }

    #[test]
    fn slower_steps_of_a_growing_context_do_not_reduce_threads() {
        let mut tuner = ThreadTuner::new(4);
        run(&mut tuner, 8000, |step, n| {
            idle(step, n) * (1.0 + step as f64 / 1000.0)
        });
        assert_eq!(tuner.n_threads(), 4);
    }

    #[test]
    fn rare_slow_steps_do_not_reduce_threads() {
        let mut tuner = ThreadTuner::new(4);
        run(&mut tuner, 1000, |step, n| {
            idle(step, n) * if step.is_multiple_of(10) { 20.0 } else { 1.0 }
        });
        assert_eq!(tuner.n_threads(), 4);
    }

    #[test]
    fn on_a_busy_machine_fewer_threads_are_used() {
        let mut tuner = ThreadTuner::new(2);
        let total = run(&mut tuner, 1000, busy);
        assert_eq!(tuner.n_threads(), 1);
        let with_one = 1000.0 * idle(0, 1);
        assert!(
            total < 1.1 * with_one,
            "{total} s, and {with_one} s with one thread"
        );
    }

    #[test]
    fn all_threads_are_used_again_when_the_machine_is_idle() {
        let mut tuner = ThreadTuner::new(4);
        run(&mut tuner, 200, busy);
        assert_eq!(tuner.n_threads(), 1);
        run(&mut tuner, 1000, idle);
        assert_eq!(tuner.n_threads(), 4);
    }
}
