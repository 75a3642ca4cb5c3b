//! Decides how many draft tokens a step verifies, so that it pays on this machine and in this text.
//!
//! The policy learns three things:
//! - How often draft tokens are correct, by the length of their match. Plain steps count too: the
//!   draft token that was not verified can still be compared with the sampled one.
//! - What a step with draft tokens costs, relative to a plain step. This takes a trial.
//! - The time of a plain step.
//!
//! Some engines queue a step before they know the token of the step before it. A draft continues a
//! known token, so before a draft such an engine lets its queue run empty. The device then waits
//! while the next step is prepared. The policy learns the cost of this wait as well.
//!
//! Rule: every response has a time budget, counted in plain steps. A step with a draft is taken
//! only if the budget covers the case that all draft tokens are wrong. So for any text and machine,
//! a response of at least [`GUARANTEED_TOKENS`] tokens takes at most 3 % longer than without
//! drafts.

use std::time::Duration;

/// Length of the shortest response with the guarantee.
const GUARANTEED_TOKENS: usize = 128;

/// Initial budget of a response: 2.4 % of [`GUARANTEED_TOKENS`], and enough to try a step of four
/// rows that costs four plain steps. An engine that queues steps ahead can try a step of two rows,
/// before and after which its queue is empty. The rest of the 3 % is for variation of times.
const INITIAL_BUDGET: f64 = 3.1;

/// Added to the budget for each token after the first [`GUARANTEED_TOKENS`].
const BUDGET_PER_TOKEN: f64 = 0.022;

/// Extra charge for a step with a draft, because times are not known more precisely.
const TIMING_MARGIN: f64 = 0.03;

/// Maximum budget, so that time saved long ago is not lost again.
const MAX_BUDGET: f64 = 24.0;

/// Minimum expected speedup of a step with a draft. A smaller one is lost in the noise.
const MIN_SPEEDUP: f64 = 1.08;

/// Plain steps to time before the first draft on a machine.
const MIN_PLAIN_STEPS: usize = 3;

/// After this many tokens from steps with drafts, one plain step is timed again: its time changes
/// with the context and with heat.
const PLAIN_STEP_INTERVAL: usize = 200;

/// After this many tokens a step size that cost too much is tried again.
const RETRY_INTERVAL: usize = 4096;

/// Assumed cost of each further draft token before any is measured, in plain steps.
const DEFAULT_SLOPE: f64 = 0.1;

/// Assumed cost of an empty queue before any is measured, in plain steps.
const DEFAULT_WAIT: f64 = 0.2;

/// Classes of draft tokens: the minimum length of their match, and the assumed acceptance rate
/// before any measurement, as found in source code and documentation after other such text.
/// Revisions of earlier text do better.
const PRIORS: [(usize, f64); 7] = [
    (0, 0.4),
    (3, 0.5),
    (4, 0.6),
    (6, 0.7),
    (10, 0.8),
    (14, 0.9),
    (28, 0.95),
];

/// Weight of the assumed rate, in draft tokens.
const PRIOR_WEIGHT: f64 = 3.0;

/// Factor by which each draft token reduces the weight of earlier ones of its class.
const DECAY: f64 = 0.95;

/// Chooses the draft length of each step. It outlives a response: costs are learned once per model.
#[derive(Debug, Clone)]
pub struct DraftPolicy {
    plain: PlainStepTime,
    /// Draft tokens per step, the fewest first.
    draft_lengths: Vec<usize>,
    /// The cost of a step with each of the draft lengths.
    costs: Vec<StepCost>,
    /// The cost of a plain step that was not queued ahead; `None` if the engine queues none ahead.
    unqueued: Option<StepCost>,
    acceptance: [AcceptanceRate; PRIORS.len()],
    /// Time that this response may still lose, in plain steps.
    budget: f64,
    n_tokens: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct PlainStepTime {
    seconds: f64,
    n_steps: usize,
    /// Tokens since the last such step.
    n_since: usize,
}

/// The cost of a kind of step, in plain steps.
#[derive(Debug, Clone, Copy, Default)]
struct StepCost {
    steps: f64,
    n_steps: usize,
    /// Tokens since the last such step.
    n_since: usize,
}

/// A draft length, chosen for a step.
#[derive(Debug, Clone, Copy)]
struct Choice {
    n_drafted: usize,
    /// Expected time saved, in plain steps.
    gain: f64,
}

/// Draft tokens of one class: how many were correct, weighted by how recent they are.
#[derive(Debug, Clone, Copy, Default)]
struct AcceptanceRate {
    n_correct: f64,
    n_total: f64,
}

impl DraftPolicy {
    /// Returns a policy for an engine that computes one step after the other. `step_widths` are the
    /// numbers of tokens that a step may verify, the last token of the response included: each at
    /// least 2, the smallest first.
    pub fn new(step_widths: &[usize]) -> Self {
        Self {
            plain: PlainStepTime::default(),
            draft_lengths: step_widths.iter().map(|width| width - 1).collect(),
            costs: vec![StepCost::default(); step_widths.len()],
            unqueued: None,
            acceptance: <[AcceptanceRate; PRIORS.len()]>::default(),
            budget: 0.0,
            n_tokens: 0,
        }
    }

    /// Returns a policy for an engine that queues plain steps ahead.
    pub fn pipelined(step_widths: &[usize]) -> Self {
        Self {
            unqueued: Some(StepCost::default()),
            ..Self::new(step_widths)
        }
    }

    /// Starts a response.
    pub fn start(&mut self) {
        self.budget = INITIAL_BUDGET;
        self.n_tokens = 0;
        // Starts with a plain step, because the context is a different one.
        self.plain.n_since = PLAIN_STEP_INTERVAL;
        for acceptance in &mut self.acceptance {
            acceptance.n_correct *= 0.5;
            acceptance.n_total *= 0.5;
        }
    }

    /// Returns how many draft tokens the next step verifies if the last `length` tokens match: at
    /// most `max_tokens`, and 0 for a plain step.
    pub fn n_draft(&self, length: usize, max_tokens: usize) -> usize {
        let choice = self.choose(length, max_tokens);
        choice.map_or(0, |choice| choice.n_drafted)
    }

    /// Returns true if an engine that queues steps ahead should wait for the token that follows a
    /// match of `length` tokens: the draft that may continue it, of at most `max_tokens`, is worth
    /// an empty queue.
    pub fn expects_draft(&self, length: usize, max_tokens: usize) -> bool {
        let class = match_class(length);
        let probability = self.acceptance[class].probability(class);
        let choice = self.choose(length + 1, max_tokens);
        choice.is_some_and(|choice| probability * choice.gain > self.expected_wait())
    }

    fn choose(&self, length: usize, max_tokens: usize) -> Option<Choice> {
        if self.plain.n_steps < MIN_PLAIN_STEPS || self.plain.n_since >= PLAIN_STEP_INTERVAL {
            return None;
        }
        let mut best = None;
        let mut best_speedup = MIN_SPEEDUP;
        let mut expected = 1.0;
        let mut probability = 1.0;
        let mut n_counted = 0;
        let lengths = self.draft_lengths.iter().enumerate();
        for (i, &n) in lengths.filter(|(_, n)| **n <= max_tokens) {
            for offset in n_counted..n {
                let class = match_class(length + offset);
                probability *= self.acceptance[class].probability(class);
                expected += probability;
            }
            n_counted = n;
            let cost = self.expected_cost(i);
            // After the draft the queue has to be filled again.
            let max_loss = self.max_cost(i) - 1.0 + self.max_wait();
            if expected / cost > best_speedup && max_loss <= self.budget {
                best_speedup = expected / cost;
                best = Some(Choice {
                    n_drafted: n,
                    gain: expected - cost,
                });
            }
        }
        best
    }

    /// Records whether the token sampled after a match of `length` tokens was the one that followed
    /// the match, whether or not it was part of a draft.
    pub fn record_outcome(&mut self, length: usize, is_correct: bool) {
        let acceptance = &mut self.acceptance[match_class(length)];
        acceptance.n_correct = acceptance.n_correct * DECAY + f64::from(u8::from(is_correct));
        acceptance.n_total = acceptance.n_total * DECAY + 1.0;
    }

    /// Records a step with `n_drafted` draft tokens that gave `n_tokens` tokens of the response.
    pub fn record_step(&mut self, n_drafted: usize, n_tokens: usize, time: Duration) {
        self.count_tokens(n_tokens);
        let seconds = time.as_secs_f64();
        if n_drafted == 0 {
            self.plain.record(seconds);
        } else if self.plain.seconds > 0.0 {
            self.plain.n_since += n_tokens;
            let steps = seconds / self.plain.seconds;
            let size = self.draft_lengths.iter().position(|&n| n == n_drafted);
            let max_steps = size.map_or(f64::INFINITY, |i| self.max_cost(i));
            self.charge(n_tokens, steps, max_steps);
            if let Some(i) = size {
                self.costs[i].record(steps);
            }
        }
    }

    /// Records a plain step that was not queued ahead because a draft was made or expected. The
    /// budget pays for it, because without drafts it would have been queued ahead.
    pub fn record_unqueued_step(&mut self, time: Duration) {
        self.count_tokens(1);
        if self.plain.seconds > 0.0 {
            self.plain.n_since += 1;
            let steps = time.as_secs_f64() / self.plain.seconds;
            self.charge(1, steps, 1.0 + self.max_wait());
            if let Some(unqueued) = &mut self.unqueued {
                unqueued.record(steps);
            }
        }
    }

    fn count_tokens(&mut self, n_tokens: usize) {
        let before = self.n_tokens;
        self.n_tokens += n_tokens;
        self.budget += BUDGET_PER_TOKEN
            * (self.n_tokens.max(GUARANTEED_TOKENS) - before.max(GUARANTEED_TOKENS)) as f64;
        self.budget = self.budget.min(MAX_BUDGET);
        for cost in &mut self.costs {
            cost.advance(n_tokens);
        }
    }

    /// Charges the budget for `n_tokens` tokens that took `steps`, of which at most `max_steps` were
    /// expected. Time beyond that is not caused by the draft.
    fn charge(&mut self, n_tokens: usize, steps: f64, max_steps: f64) {
        self.budget += n_tokens as f64 - steps.min(max_steps * 1.1) * (1.0 + TIMING_MARGIN);
        self.budget = self.budget.min(MAX_BUDGET);
    }

    fn expected_cost(&self, i: usize) -> f64 {
        let cost = self.costs[i];
        let n = self.draft_lengths[i] as f64;
        if cost.n_steps > 1 {
            return cost.steps;
        }
        let one_row = 1.0 + self.expected_wait();
        // More optimistic than the next shorter length that is known: kernels are made for more
        // rows.
        let shorter = (0..i).rev().find(|&j| self.costs[j].n_steps > 0);
        let slope = shorter.map_or(DEFAULT_SLOPE, |j| {
            (self.costs[j].steps - one_row).max(0.0) / self.draft_lengths[j] as f64 * 0.5
        });
        let estimate = one_row + slope * n;
        // The first step of a length may be slow: buffers grow, kernels are compiled.
        if cost.n_steps == 1 {
            cost.steps.min(estimate)
        } else {
            estimate
        }
    }

    /// Returns the maximum cost of a step with draft length `i`: until it is known, that of as many
    /// narrower steps as have its rows.
    fn max_cost(&self, i: usize) -> f64 {
        let known = self.costs[i];
        if known.n_steps > 1 {
            return known.steps * 1.1;
        }
        let width = self.draft_lengths[i] + 1;
        let most = match i.checked_sub(1) {
            None => width as f64 + self.max_wait(),
            Some(j) => self.max_cost(j) * width.div_ceil(self.draft_lengths[j] + 1) as f64,
        };
        // The first step of a length may be slow, and the next one is not.
        if known.n_steps == 1 {
            most.min(known.steps * 1.1)
        } else {
            most
        }
    }

    /// Returns the expected cost of an empty queue, in plain steps.
    fn expected_wait(&self) -> f64 {
        self.wait(DEFAULT_WAIT, 1.0)
    }

    /// Returns the maximum cost of an empty queue, in plain steps.
    fn max_wait(&self) -> f64 {
        self.wait(1.0, 1.1)
    }

    /// Returns the measured cost of an empty queue times `margin`, or `default` before it is known.
    /// It is at most one step: a plain step of a full queue takes at least as long as its
    /// preparation.
    fn wait(&self, default: f64, margin: f64) -> f64 {
        match self.unqueued {
            None => 0.0,
            Some(unqueued) if unqueued.n_steps == 0 => default,
            Some(unqueued) => (unqueued.steps * margin - 1.0).clamp(0.0, 1.0),
        }
    }
}

impl PlainStepTime {
    fn record(&mut self, seconds: f64) {
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
    fn record(&mut self, steps: f64) {
        self.steps = match self.n_steps {
            0 => steps,
            1 => self.steps.min(steps),
            _ => update_mean(self.steps, steps),
        };
        self.n_steps += 1;
        self.n_since = 0;
    }

    fn advance(&mut self, n_tokens: usize) {
        self.n_since += n_tokens;
        if self.n_since > RETRY_INTERVAL {
            self.n_steps = self.n_steps.min(1);
        }
    }
}

impl AcceptanceRate {
    /// Returns the estimated probability that a draft token is correct.
    fn probability(&self, class: usize) -> f64 {
        (self.n_correct + PRIOR_WEIGHT * PRIORS[class].1) / (self.n_total + PRIOR_WEIGHT)
    }
}

/// Returns the class of draft tokens after a match of `length` tokens.
fn match_class(length: usize) -> usize {
    PRIORS
        .iter()
        .rposition(|(min_length, _)| *min_length <= length)
        .unwrap_or(0)
}

/// Returns the new running mean. Outliers are clamped to 0.5 to 2 times the mean: they are caused
/// by other programs.
fn update_mean(mean: f64, value: f64) -> f64 {
    mean + (value.clamp(0.5 * mean, 2.0 * mean) - mean) * 0.125
}

#[cfg(test)]
mod tests;
