//! How many guesses a step shall check, so that it pays on this machine and in this text.
//!
//! Three things are learnt. How often guesses are right, by the length of the match they come from:
//! also from plain steps, since a guess that was never checked can be compared with what was drawn
//! all the same. What a step that checks guesses costs, in plain steps: only by trying. And the time
//! of a plain step.
//!
//! Rule: every answer has an account, in plain steps. A step is taken only if the account can pay
//! for all of its guesses being wrong. So whatever the text and the machine do, an answer of at
//! least [`ANSWER`] tokens takes at most 3 % longer than without guesses.

use std::time::Duration;

/// Guesses that a step may check. With the last token that makes 2, 4, 8 and 16 places: kernels on
/// CPUs and GPUs work on that many rows together, and others cost as much as the next of these.
const SIZES: [usize; 4] = [1, 3, 7, 15];

/// Tokens of the shortest answer that the bound speaks of.
const ANSWER: usize = 128;

/// Plain steps that an answer's account opens with: 2.4 % of [`ANSWER`], and enough to try a step
/// of four places that costs four plain steps. What is left of 3 % is for times that vary.
const LOAN: f64 = 3.1;

/// Added to the account for each token after the first [`ANSWER`].
const INCOME: f64 = 0.022;

/// Part of a step with guesses that the account pays on top: times are known no better.
const FEE: f64 = 0.03;

/// The account holds no more, so that what was saved long ago is not lost again.
const MOST_SAVED: f64 = 24.0;

/// What a step must be expected to gain to be taken: less is lost in the noise.
const LEAST_GAIN: f64 = 1.08;

/// Plain steps to time before the first guess on a machine.
const FIRST_PLAIN_STEPS: usize = 3;

/// After so many tokens from steps with guesses one step is plain, to see what that costs by now: it
/// changes with the context and with heat.
const TOKENS_BETWEEN_PLAIN: usize = 200;

/// After so many tokens a step's cost is tried anew, where it was too much.
const TOKENS_TO_RETRY: usize = 4096;

/// Of a step's cost before any is known: what another guess adds, in plain steps.
const GUESSED_SLOPE: f64 = 0.1;

/// Least lengths of a match for each class of guesses, and how often guesses of the class are taken
/// to be right before any is seen: as found in source code and documentation after other such text.
/// Text that is a revision of what stands before does better.
const CLASSES: [(usize, f64); 7] = [
    (0, 0.4),
    (3, 0.5),
    (4, 0.6),
    (6, 0.7),
    (10, 0.8),
    (14, 0.9),
    (28, 0.95),
];

/// Weight of that assumption, in guesses.
const ASSUMED: f64 = 3.0;

/// What is left of a guess's weight after each later one of its class.
const MEMORY: f64 = 0.95;

/// Decides for each step. It outlives an answer: what a machine can do is learnt once a model.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    plain: Plain,
    costs: [Cost; SIZES.len()],
    guesses: [Guesses; CLASSES.len()],
    /// Plain steps that may be lost yet.
    account: f64,
    /// Tokens of this answer.
    n_tokens: usize,
}

/// The time of a step without guesses.
#[derive(Debug, Clone, Copy, Default)]
struct Plain {
    seconds: f64,
    n_steps: usize,
    /// Tokens since the last such step.
    n_since: usize,
}

/// A step with some number of guesses, in plain steps.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    steps: f64,
    n_steps: usize,
    /// Tokens since the last such step.
    n_since: usize,
}

/// Guesses of one class: how many were right, weighted by how recent they are.
#[derive(Debug, Clone, Copy, Default)]
struct Guesses {
    right: f64,
    all: f64,
}

impl Pace {
    /// Knows nothing of the machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new answer begins.
    pub fn begin(&mut self) {
        self.account = LOAN;
        self.n_tokens = 0;
        // A plain step comes first: the context is another one now.
        self.plain.n_since = TOKENS_BETWEEN_PLAIN;
        for guesses in &mut self.guesses {
            guesses.right *= 0.5;
            guesses.all *= 0.5;
        }
    }

    /// How many guesses the next step shall check, where the last `length` tokens match: at most
    /// `room`, and 0 for a plain step.
    pub fn n_draft(&self, length: usize, room: usize) -> usize {
        if self.plain.n_steps < FIRST_PLAIN_STEPS || self.plain.n_since >= TOKENS_BETWEEN_PLAIN {
            return 0;
        }
        let mut best = (LEAST_GAIN, 0);
        let mut expected = 1.0;
        let mut chance = 1.0;
        let mut n_counted = 0;
        for (i, &n) in SIZES.iter().enumerate().filter(|(_, n)| **n <= room) {
            for place in n_counted..n {
                let class = class(length + place);
                chance *= self.guesses[class].chance(class);
                expected += chance;
            }
            n_counted = n;
            let gain = expected / self.expected_cost(i);
            if gain > best.0 && self.worst_cost(i) - 1.0 <= self.account {
                best = (gain, n);
            }
        }
        best.1
    }

    /// What was drawn after the last `length` tokens matched is, or is not, what was guessed;
    /// whether the guess was part of a draft or not.
    pub fn compared(&mut self, length: usize, is_right: bool) {
        let guesses = &mut self.guesses[class(length)];
        guesses.right = guesses.right * MEMORY + f64::from(u8::from(is_right));
        guesses.all = guesses.all * MEMORY + 1.0;
    }

    /// A step with `n_drafted` guesses gave `n_tokens` tokens of the answer and took `took`.
    pub fn stepped(&mut self, n_drafted: usize, n_tokens: usize, took: Duration) {
        let before = self.n_tokens;
        self.n_tokens += n_tokens;
        self.account += INCOME * (self.n_tokens.max(ANSWER) - before.max(ANSWER)) as f64;
        for cost in &mut self.costs {
            cost.age(n_tokens);
        }
        let seconds = took.as_secs_f64();
        if n_drafted == 0 {
            self.plain.timed(seconds);
        } else if self.plain.seconds > 0.0 {
            self.plain.n_since += n_tokens;
            let steps = seconds / self.plain.seconds;
            // What was lost beyond the worst that could be expected is not the guesses' doing.
            let size = SIZES.iter().position(|&n| n == n_drafted);
            let worst = size.map_or(f64::INFINITY, |i| self.worst_cost(i));
            self.account += n_tokens as f64 - steps.min(worst * 1.1) * (1.0 + FEE);
            if let Some(i) = size {
                self.costs[i].timed(steps);
            }
        }
        self.account = self.account.min(MOST_SAVED);
    }

    /// A step with guesses of size `i`, as far as known.
    fn expected_cost(&self, i: usize) -> f64 {
        let cost = self.costs[i];
        let n = SIZES[i] as f64;
        if cost.n_steps > 1 {
            return cost.steps;
        }
        // More hopeful than the next smaller size that is known: kernels are made for more rows.
        let smaller = (0..i).rev().find(|&j| self.costs[j].n_steps > 0);
        let slope = smaller.map_or(GUESSED_SLOPE, |j| {
            (self.costs[j].steps - 1.0).max(0.0) / SIZES[j] as f64 * 0.5
        });
        let guessed = 1.0 + slope * n;
        // A step of a new size may be slow for once: buffers grow, kernels are compiled.
        if cost.n_steps == 1 {
            cost.steps.min(guessed)
        } else {
            guessed
        }
    }

    /// The most that a step with guesses of size `i` can cost: places that are computed together
    /// cost no more than in two steps of half as many.
    fn worst_cost(&self, i: usize) -> f64 {
        let known = self.costs[i];
        if known.n_steps > 0 {
            return known.steps * 1.1;
        }
        let halves = if i == 0 { 1.0 } else { self.worst_cost(i - 1) };
        2.0 * halves
    }
}

impl Plain {
    fn timed(&mut self, seconds: f64) {
        let is_first_of_many = self.n_since >= TOKENS_BETWEEN_PLAIN;
        self.seconds = if self.n_steps == 0 {
            seconds
        } else if self.n_steps < FIRST_PLAIN_STEPS || (is_first_of_many && seconds < self.seconds) {
            // The first steps of all may be slow for once, and a mean that is too high would lend
            // too much.
            self.seconds.min(seconds)
        } else {
            towards(self.seconds, seconds)
        };
        self.n_steps += 1;
        self.n_since = 0;
    }
}

impl Cost {
    fn timed(&mut self, steps: f64) {
        self.steps = match self.n_steps {
            0 => steps,
            1 => self.steps.min(steps),
            _ => towards(self.steps, steps),
        };
        self.n_steps += 1;
        self.n_since = 0;
    }

    fn age(&mut self, n_tokens: usize) {
        self.n_since += n_tokens;
        if self.n_since > TOKENS_TO_RETRY {
            self.n_steps = self.n_steps.min(1);
        }
    }
}

impl Guesses {
    /// Taken to be right when nothing is known but the class.
    fn chance(&self, class: usize) -> f64 {
        (self.right + ASSUMED * CLASSES[class].1) / (self.all + ASSUMED)
    }
}

/// The class of guesses after a match of `length` tokens.
fn class(length: usize) -> usize {
    CLASSES
        .iter()
        .rposition(|(least, _)| *least <= length)
        .unwrap_or(0)
}

/// A running mean. What is far off counts as less far: another program had the machine.
fn towards(mean: f64, value: f64) -> f64 {
    mean + (value.clamp(0.5 * mean, 2.0 * mean) - mean) * 0.125
}

#[cfg(test)]
mod tests;
