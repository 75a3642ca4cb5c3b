//! How many threads take part in a step on the processor.
//!
//! A step waits for its slowest thread some hundred times. Where another program wants a core, the
//! system takes it from one thread for some milliseconds, and all the others spin meanwhile: two
//! threads on two busy cores can be fifty times slower than one. So when steps are slow, fewer
//! threads are tried, and later, now and then, more again; what was faster stays.
//!
//! Rule: no clock is read here, and on a quiet machine nothing is ever tried.

use std::time::Duration;

/// A step is slow when it takes so many times what the fastest one of late took.
const SLOW: f64 = 3.0;

/// So much more slow steps than others lead to a trial.
const MANY_SLOW: f64 = 2.0;

/// Steps of a trial.
const TRIAL_STEPS: u32 = 6;

/// Steps with fewer threads before more are tried; doubled each time that more were not faster.
const FIRST_WAIT: u32 = 64;
const LONGEST_WAIT: u32 = 4096;

/// How fast the fastest step is forgotten: steps grow slower as the context fills up.
const FORGET: f64 = 1.01;

/// Weight of the newest step in the mean.
const NEWEST: f64 = 0.2;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Crew {
    most: usize,
    now: usize,
    pace: Pace,
    trial: Option<Trial>,
    /// Trials of fewer threads so far.
    n_retreats: usize,
    /// Steps until more threads are tried.
    wait: u32,
    next_wait: u32,
}

/// What steps take with one number of threads, in seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    mean: Option<f64>,
    fastest: Option<f64>,
    slowness: f64,
}

/// Another number of threads is being tried.
#[derive(Debug)]
struct Trial {
    before: usize,
    pace_before: Pace,
    steps_left: u32,
}

impl Pace {
    fn add(&mut self, seconds: f64) {
        let fastest = self.fastest.map_or(seconds, |f| (f * FORGET).min(seconds));
        self.fastest = Some(fastest);
        self.mean = Some(self.mean.map_or(seconds, |m| m + NEWEST * (seconds - m)));
        let change = if seconds > SLOW * fastest { 1.0 } else { -0.25 };
        self.slowness = (self.slowness + change).max(0.0);
    }
}

impl Crew {
    /// A crew of `most` threads.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            now: most,
            pace: Pace::default(),
            trial: None,
            n_retreats: 0,
            wait: FIRST_WAIT,
            next_wait: FIRST_WAIT,
        }
    }

    /// Threads of the next step.
    pub(crate) fn len(&self) -> usize {
        self.now
    }

    /// A step over one token took so long.
    pub(crate) fn stepped(&mut self, took: Duration) {
        self.pace.add(took.as_secs_f64());
        match &mut self.trial {
            Some(trial) if trial.steps_left > 1 => trial.steps_left -= 1,
            Some(_) => self.judge(),
            None if self.pace.slowness >= MANY_SLOW && self.now > 1 => self.retreat(),
            None if self.now < self.most => {
                self.wait = self.wait.saturating_sub(1);
                if self.wait == 0 {
                    self.attempt((self.now * 2).min(self.most));
                }
            }
            None => {}
        }
    }

    /// Tries fewer threads. What is right depends on who else wants how many cores, so each time it
    /// is another number's turn.
    fn retreat(&mut self) {
        let fewer = [self.now / 2, self.now - 1, 1];
        let n_threads = fewer[self.n_retreats % fewer.len()];
        self.n_retreats += 1;
        self.attempt(n_threads);
    }

    fn attempt(&mut self, n_threads: usize) {
        self.trial = Some(Trial {
            before: self.now,
            pace_before: self.pace,
            steps_left: TRIAL_STEPS,
        });
        self.now = n_threads;
        self.pace = Pace::default();
    }

    /// Keeps the faster of the two.
    fn judge(&mut self) {
        let Some(trial) = self.trial.take() else {
            return;
        };
        let is_faster = match (self.pace.mean, trial.pace_before.mean) {
            (Some(now), Some(before)) => now < before,
            (_, _) => false,
        };
        let was_more = self.now > trial.before;
        if is_faster {
            self.next_wait = FIRST_WAIT;
        } else {
            self.now = trial.before;
            self.pace = trial.pace_before;
            self.pace.slowness = 0.0;
            if was_more {
                self.next_wait = (self.next_wait * 2).min(LONGEST_WAIT);
            }
        }
        self.wait = self.next_wait;
        tracing::debug!(
            threads = self.now,
            is_faster,
            "tried another number of threads"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `n` steps; `cost` gives the seconds of a step from its number and threads. Returns the
    /// seconds in all.
    fn run(crew: &mut Crew, n: usize, cost: impl Fn(usize, usize) -> f64) -> f64 {
        let mut total = 0.0;
        for step in 0..n {
            let seconds = cost(step, crew.len());
            total += seconds;
            crew.stepped(Duration::from_secs_f64(seconds));
        }
        total
    }

    fn quiet(_: usize, n_threads: usize) -> f64 {
        0.010 / n_threads as f64
    }

    /// Most steps lose a core for a while, unless there is one thread only.
    fn busy(step: usize, n_threads: usize) -> f64 {
        let waits = n_threads > 1 && !step.is_multiple_of(5);
        quiet(step, n_threads) + if waits { 0.030 } else { 0.0 }
    }

    #[test]
    fn on_a_quiet_machine_all_threads_work_all_the_time() {
        let mut crew = Crew::new(8);
        let total = run(&mut crew, 1000, quiet);
        assert_eq!(crew.len(), 8);
        assert!((total - 1000.0 * quiet(0, 8)).abs() < 1e-9);
    }

    #[test]
    fn a_growing_context_is_no_reason_for_fewer_threads() {
        let mut crew = Crew::new(4);
        run(&mut crew, 8000, |step, n| {
            quiet(step, n) * (1.0 + step as f64 / 1000.0)
        });
        assert_eq!(crew.len(), 4);
    }

    #[test]
    fn one_slow_step_now_and_then_changes_nothing() {
        let mut crew = Crew::new(4);
        run(&mut crew, 1000, |step, n| {
            quiet(step, n) * if step.is_multiple_of(10) { 20.0 } else { 1.0 }
        });
        assert_eq!(crew.len(), 4);
    }

    #[test]
    fn on_a_busy_machine_fewer_threads_are_faster_and_stay() {
        let mut crew = Crew::new(2);
        let total = run(&mut crew, 1000, busy);
        assert_eq!(crew.len(), 1);
        let with_one = 1000.0 * quiet(0, 1);
        assert!(
            total < 1.1 * with_one,
            "{total} s, and {with_one} s with one thread"
        );
    }

    #[test]
    fn when_the_machine_is_quiet_again_all_threads_come_back() {
        let mut crew = Crew::new(4);
        run(&mut crew, 200, busy);
        assert_eq!(crew.len(), 1);
        run(&mut crew, 1000, quiet);
        assert_eq!(crew.len(), 4);
    }
}
