//! What steps cost and how often drafts are correct, learned from measurements.
//!
//! All costs are in plain steps.

use super::{MIN_PLAIN_STEPS, PLAIN_STEP_INTERVAL, RETRY_INTERVAL};

/// Weight of the assumed rate, in draft tokens.
const PRIOR_WEIGHT: f64 = 3.0;

/// Factor by which each draft token reduces the weight of earlier ones of its class.
const DECAY: f64 = 0.95;

/// The time of a plain step.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PlainStepTime {
    pub(super) seconds: f64,
    pub(super) n_steps: usize,
    /// Tokens since the last such step.
    pub(super) n_since: usize,
}

/// The cost of a kind of step.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StepCost {
    pub(super) steps: f64,
    pub(super) n_steps: usize,
    /// Tokens since the last such step.
    n_since: usize,
}

/// Draft tokens of one class: how many were correct, weighted by how recent they are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AcceptanceRate {
    n_correct: f64,
    n_total: f64,
}

/// The cost of the last read of a drafter, and its length; no tokens before the first one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReadCost {
    n_tokens: usize,
    steps: f64,
}

impl PlainStepTime {
    pub(super) fn record(&mut self, seconds: f64) {
        let is_first_of_many = self.n_since >= PLAIN_STEP_INTERVAL;
        self.seconds = if self.n_steps == 0 {
            seconds
        } else if self.n_steps < MIN_PLAIN_STEPS || (is_first_of_many && seconds < self.seconds) {
            // The very first steps may be slow, and a mean that is too high would make the budget
            // too large.
            self.seconds.min(seconds)
        } else {
            update_mean(self.seconds, seconds)
        };
        self.n_steps += 1;
        self.n_since = 0;
    }
}

impl StepCost {
    pub(super) fn record(&mut self, steps: f64) {
        self.steps = match self.n_steps {
            0 => steps,
            1 => self.steps.min(steps),
            _ => update_mean(self.steps, steps),
        };
        self.n_steps += 1;
        self.n_since = 0;
    }

    pub(super) fn advance(&mut self, n_tokens: usize) {
        self.n_since += n_tokens;
        if self.n_since > RETRY_INTERVAL {
            self.n_steps = self.n_steps.min(1);
        }
    }
}

impl AcceptanceRate {
    /// Returns the estimated probability that a draft token is correct, from the measurements and the
    /// probability that is assumed without any.
    pub(super) fn probability(&self, assumed: f64) -> f64 {
        (self.n_correct + PRIOR_WEIGHT * assumed) / (self.n_total + PRIOR_WEIGHT)
    }

    pub(super) fn record(&mut self, is_correct: bool) {
        self.n_correct = self.n_correct * DECAY + f64::from(u8::from(is_correct));
        self.n_total = self.n_total * DECAY + 1.0;
    }

    /// Halves the weight of what was measured so far.
    pub(super) fn halve(&mut self) {
        self.n_correct *= 0.5;
        self.n_total *= 0.5;
    }
}

impl ReadCost {
    /// Returns the maximum cost of reading `n_tokens` tokens; `None` if no read was measured.
    pub(super) fn cost(&self, n_tokens: usize) -> Option<f64> {
        let reads = n_tokens as f64 / self.n_tokens as f64;
        (self.n_tokens > 0).then(|| self.steps * reads.max(1.0))
    }

    /// Returns how many tokens can be read at this cost.
    pub(super) fn n_tokens(&self, steps: f64) -> usize {
        match steps < self.steps {
            true => 0,
            false => (steps / self.steps * self.n_tokens as f64) as usize,
        }
    }

    /// Records a read. One that is much shorter than the last says little about long ones.
    pub(super) fn record(&mut self, n_tokens: usize, steps: f64) {
        if n_tokens > 0 && 2 * n_tokens >= self.n_tokens {
            *self = Self { n_tokens, steps };
        }
    }
}

/// Returns the new running mean. Outliers are clamped to 0.5 to 2 times the mean: they are caused
/// by other programs.
fn update_mean(mean: f64, value: f64) -> f64 {
    mean + (value.clamp(0.5 * mean, 2.0 * mean) - mean) * 0.125
}
