//! Decides how many draft tokens a step verifies, so that it pays on this machine and in this text.
//!
//! The policy learns three things:
//! - How often draft tokens are correct, by the length of their match. Plain steps count too: the
//!   draft token that was not verified can still be compared with the sampled one.
//! - What a step with draft tokens costs, relative to a plain step. This takes a trial.
//! - The time of a plain step.
//! - What a [`Drafter`](super::Drafter) costs: a step with its draft, which includes making the draft,
//!   and reading text before its first draft. Lookups cost nothing.
//!
//! Some engines queue a step before they know the token of the step before it. A draft continues a
//! known token, so before a draft such an engine lets its queue run empty. The device then waits
//! while the next step is prepared. The policy learns the cost of this wait as well.
//!
//! Rule: every response has a time budget, counted in plain steps. A step with a draft is taken
//! only if the budget covers the case that all draft tokens are wrong. So for any text and machine,
//! a response of at least [`GUARANTEED_TOKENS`] tokens takes at most 3 % longer than without
//! drafts. A drafter reads and drafts on the same budget; a long prefill adds to it.

mod costs;

use std::time::Duration;

use costs::{AcceptanceRate, PlainStepTime, ReadCost, StepCost};

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

/// Added to the budget for a prefill, as a fraction of its time: a drafter has to read the same text.
const BUDGET_OF_PREFILL: f64 = 0.024;

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

/// The same with a drafter, which also computes the token.
const DRAFTER_SLOPE: f64 = 0.25;

/// Maximum cost of drafting a token, before it is measured: a drafter is smaller than its model.
const MAX_DRAFTER_COST: f64 = 1.0;

/// Tokens that a drafter reads in its first read, to measure what reading costs.
const FIRST_READ: usize = 16;

/// Maximum cost of the first read, in plain steps, for a drafter of at most a tenth of its model.
const MAX_FIRST_READ_COST: f64 = 1.0;

/// Maximum tokens per read, so that a response can be canceled in between.
const MAX_READ: usize = 512;

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

/// Assumed acceptance rate of a drafter before any measurement. A small model of the same family
/// reaches 0.5 to 0.8.
const DRAFTER_PRIOR: f64 = 0.6;

/// Chooses the draft length of each step. It outlives a response: costs are learned once per model.
#[derive(Debug, Clone)]
pub struct DraftPolicy {
    plain: PlainStepTime,
    /// Steps whose draft follows an earlier occurrence.
    lookup: DraftSteps,
    /// Steps whose draft comes from a drafter; no lengths without one.
    drafter: DraftSteps,
    /// The cost of a plain step that was not queued ahead; `None` if the engine queues none ahead.
    unqueued: Option<StepCost>,
    acceptance: [AcceptanceRate; PRIORS.len()],
    drafter_acceptance: AcceptanceRate,
    reading: ReadCost,
    /// Time that this response may still lose, in plain steps.
    budget: f64,
    /// Time of the prefill that is not in the budget yet, because no plain step was timed.
    prefill_seconds: f64,
    n_tokens: usize,
}

/// The steps with draft tokens from one kind of source.
#[derive(Debug, Clone)]
struct DraftSteps {
    /// Draft tokens per step, the fewest first.
    lengths: Vec<usize>,
    /// The cost of a step with each of the lengths, which includes making the draft.
    costs: Vec<StepCost>,
    /// Assumed cost of each further draft token before any is measured, in plain steps.
    default_slope: f64,
    /// Maximum cost of making a draft token before any is measured, in plain steps.
    max_token_cost: f64,
}

impl DraftSteps {
    fn new(step_widths: &[usize], default_slope: f64, max_token_cost: f64) -> Self {
        Self {
            lengths: step_widths.iter().map(|width| width - 1).collect(),
            costs: vec![StepCost::default(); step_widths.len()],
            default_slope,
            max_token_cost,
        }
    }
}

/// A draft length, chosen for a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub(super) n_drafted: usize,
    /// Expected time saved, in plain steps.
    gain: f64,
    /// Expected tokens per plain step's time.
    pub(super) speedup: f64,
}

impl DraftPolicy {
    /// Returns a policy for an engine that computes one step after the other. `step_widths` are the
    /// numbers of tokens that a step may verify, the last token of the response included: each at
    /// least 2, the smallest first.
    pub fn new(step_widths: &[usize]) -> Self {
        Self {
            plain: PlainStepTime::default(),
            lookup: DraftSteps::new(step_widths, DEFAULT_SLOPE, 0.0),
            drafter: DraftSteps::new(&[], DRAFTER_SLOPE, MAX_DRAFTER_COST),
            unqueued: None,
            acceptance: <[AcceptanceRate; PRIORS.len()]>::default(),
            drafter_acceptance: AcceptanceRate::default(),
            reading: ReadCost::default(),
            budget: 0.0,
            prefill_seconds: 0.0,
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

    /// Sets the widths of steps with drafts of a drafter, as in [`Self::new`].
    pub fn set_drafter_widths(&mut self, step_widths: &[usize]) {
        self.drafter = DraftSteps::new(step_widths, DRAFTER_SLOPE, MAX_DRAFTER_COST);
    }

    /// Starts a response.
    pub fn start(&mut self) {
        self.budget = INITIAL_BUDGET;
        self.prefill_seconds = 0.0;
        self.n_tokens = 0;
        // Starts with a plain step, because the context is a different one.
        self.plain.n_since = PLAIN_STEP_INTERVAL;
        let drafter = std::slice::from_mut(&mut self.drafter_acceptance);
        for acceptance in self.acceptance.iter_mut().chain(drafter) {
            acceptance.halve();
        }
    }

    /// Adds the time of the prefill of this response, of which the budget gets a part if there is a
    /// drafter.
    pub fn record_prefill(&mut self, time: Duration) {
        if !self.drafter.lengths.is_empty() {
            self.prefill_seconds += time.as_secs_f64();
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
        let probability = self.acceptance[class].probability(PRIORS[class].1);
        let choice = self.choose(length + 1, max_tokens);
        choice.is_some_and(|choice| probability * choice.gain > self.expected_wait())
    }

    /// Returns true if an engine that queues steps ahead should wait for the next token, because a
    /// draft of the drafter after it, or reading some of `n_unread` tokens, is worth an empty queue.
    pub fn expects_drafter(&self, n_unread: usize, max_tokens: usize) -> bool {
        let choice = self.choose_drafter(0.0, max_tokens);
        choice.is_some_and(|choice| choice.gain > self.expected_wait())
            && (n_unread == 0 || self.n_read(n_unread, max_tokens) > 0)
    }

    /// Returns the best draft after a match of `length` tokens, if one is likely to pay.
    pub(super) fn choose(&self, length: usize, max_tokens: usize) -> Option<Choice> {
        let probability = |offset| {
            let class = match_class(length + offset);
            self.acceptance[class].probability(PRIORS[class].1)
        };
        self.best(&self.lookup, probability, 0.0, max_tokens)
    }

    /// Returns the best draft of the drafter, if one is likely to pay and the budget covers it and
    /// `more` plain steps.
    pub(super) fn choose_drafter(&self, more: f64, max_tokens: usize) -> Option<Choice> {
        let probability = self.drafter_acceptance.probability(DRAFTER_PRIOR);
        self.best(&self.drafter, |_| probability, more, max_tokens)
    }

    /// Returns how many of `n_unread` tokens the drafter may read now, so that it can draft; 0 if
    /// that is not likely to pay, or the budget does not cover it.
    pub(super) fn n_read(&self, n_unread: usize, max_tokens: usize) -> usize {
        let affords = |cost| self.choose_drafter(cost, max_tokens).is_some();
        let n = match self.reading.cost(n_unread) {
            None if affords(MAX_FIRST_READ_COST) => FIRST_READ,
            Some(cost) if affords(cost) => MAX_READ,
            // Lookups keep the budget that every response starts with.
            Some(_) if affords(0.0) => self.reading.n_tokens(self.budget - INITIAL_BUDGET),
            None | Some(_) => 0,
        };
        n.min(n_unread).min(MAX_READ)
    }

    /// Returns the best draft of one of `steps`. `probability(i)` is that of the draft token `i` to be
    /// correct if all before it are; `more` is what else the budget must cover, in plain steps.
    fn best(
        &self,
        steps: &DraftSteps,
        probability: impl Fn(usize) -> f64,
        more: f64,
        max_tokens: usize,
    ) -> Option<Choice> {
        if self.plain.n_steps < MIN_PLAIN_STEPS || self.plain.n_since >= PLAIN_STEP_INTERVAL {
            return None;
        }
        let mut best: Option<Choice> = None;
        let mut expected = 1.0;
        let mut all_correct = 1.0;
        let mut n_counted = 0;
        let lengths = steps.lengths.iter().enumerate();
        for (i, &n) in lengths.filter(|(_, n)| **n <= max_tokens) {
            for offset in n_counted..n {
                all_correct *= probability(offset);
                expected += all_correct;
            }
            n_counted = n;
            let cost = self.expected_cost(steps, i);
            // After the draft the queue has to be filled again.
            let max_loss = self.max_cost(steps, i) - 1.0 + self.max_wait() + more;
            let best_speedup = best.map_or(MIN_SPEEDUP, |best| best.speedup);
            if expected / cost > best_speedup && max_loss <= self.budget {
                best = Some(Choice {
                    n_drafted: n,
                    gain: expected - cost,
                    speedup: expected / cost,
                });
            }
        }
        best
    }

    /// Records whether the token sampled after a match of `length` tokens was the one that followed
    /// the match, whether or not it was part of a draft.
    pub fn record_outcome(&mut self, length: usize, is_correct: bool) {
        self.acceptance[match_class(length)].record(is_correct);
    }

    /// Records whether a token of the drafter was correct, after correct ones.
    pub fn record_drafter_outcome(&mut self, is_correct: bool) {
        self.drafter_acceptance.record(is_correct);
    }

    /// Records a step with `n_drafted` draft tokens that gave `n_tokens` tokens of the response.
    pub fn record_step(&mut self, n_drafted: usize, n_tokens: usize, time: Duration) {
        self.count_tokens(n_tokens);
        let seconds = time.as_secs_f64();
        if n_drafted > 0 {
            self.record_drafted(false, n_drafted, n_tokens, seconds);
            return;
        }
        self.plain.record(seconds);
        if self.plain.n_steps >= MIN_PLAIN_STEPS && self.plain.seconds > 0.0 {
            let prefill = std::mem::take(&mut self.prefill_seconds) / self.plain.seconds;
            self.budget = (self.budget + BUDGET_OF_PREFILL * prefill).min(MAX_BUDGET);
        }
    }

    /// Records a step with `n_drafted` tokens of the drafter, like [`Self::record_step`]. `time`
    /// includes making the draft.
    pub fn record_drafter_step(&mut self, n_drafted: usize, n_tokens: usize, time: Duration) {
        self.count_tokens(n_tokens);
        self.record_drafted(true, n_drafted, n_tokens, time.as_secs_f64());
    }

    /// Records that the drafter read `n_tokens` tokens before a draft.
    pub fn record_read(&mut self, n_tokens: usize, time: Duration) {
        if self.plain.seconds > 0.0 {
            let steps = time.as_secs_f64() / self.plain.seconds;
            self.budget -= steps * (1.0 + TIMING_MARGIN);
            self.reading.record(n_tokens, steps);
        }
    }

    fn record_drafted(
        &mut self,
        is_by_drafter: bool,
        n_drafted: usize,
        n_tokens: usize,
        seconds: f64,
    ) {
        if self.plain.seconds <= 0.0 {
            return;
        }
        self.plain.n_since += n_tokens;
        let steps = seconds / self.plain.seconds;
        let kind = match is_by_drafter {
            true => &self.drafter,
            false => &self.lookup,
        };
        let size = kind.lengths.iter().position(|&n| n == n_drafted);
        let max_steps = size.map_or(f64::INFINITY, |i| self.max_cost(kind, i));
        self.charge(n_tokens, steps, max_steps);
        let kind = match is_by_drafter {
            true => &mut self.drafter,
            false => &mut self.lookup,
        };
        if let Some(i) = size {
            kind.costs[i].record(steps);
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
        for cost in self.lookup.costs.iter_mut().chain(&mut self.drafter.costs) {
            cost.advance(n_tokens);
        }
    }

    /// Charges the budget for `n_tokens` tokens that took `steps`, of which at most `max_steps` were
    /// expected. Time beyond that is not caused by the draft.
    fn charge(&mut self, n_tokens: usize, steps: f64, max_steps: f64) {
        self.budget += n_tokens as f64 - steps.min(max_steps * 1.1) * (1.0 + TIMING_MARGIN);
        self.budget = self.budget.min(MAX_BUDGET);
    }

    fn expected_cost(&self, steps: &DraftSteps, i: usize) -> f64 {
        let cost = steps.costs[i];
        let n = steps.lengths[i] as f64;
        if cost.n_steps > 1 {
            return cost.steps;
        }
        let one_row = 1.0 + self.expected_wait();
        // More optimistic than the next shorter length that is known: kernels are made for more
        // rows.
        let shorter = (0..i).rev().find(|&j| steps.costs[j].n_steps > 0);
        let slope = shorter.map_or(steps.default_slope, |j| {
            (steps.costs[j].steps - one_row).max(0.0) / steps.lengths[j] as f64 * 0.5
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
    fn max_cost(&self, steps: &DraftSteps, i: usize) -> f64 {
        let known = steps.costs[i];
        if known.n_steps > 1 {
            return known.steps * 1.1;
        }
        let n_drafted = steps.lengths[i];
        let width = n_drafted + 1;
        let most = match i.checked_sub(1) {
            None => width as f64 + self.max_wait() + steps.max_token_cost * n_drafted as f64,
            Some(j) => self.max_cost(steps, j) * width.div_ceil(steps.lengths[j] + 1) as f64,
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

/// Returns the class of draft tokens after a match of `length` tokens.
fn match_class(length: usize) -> usize {
    PRIORS
        .iter()
        .rposition(|(min_length, _)| *min_length <= length)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;
