//! The reference meaning of the parameters, in f64 and in the documented order.
//!
//! Ties are broken by the lower token id, so every filter keeps a definite set. Sums run in a
//! definite order, so an implementation that starts with fewer candidates gets the same bits.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::sampling::SamplingParams;

/// A token that may come next. Its logit, including bias and penalties, is never NaN or -0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) id: u32,
    pub(super) logit: f32,
}

impl Candidate {
    /// Creates a candidate. Adding 0 turns -0, which sorts differently, into 0.
    pub(super) fn new(id: u32, logit: f32) -> Self {
        let logit = logit + 0.0;
        Self { id, logit }
    }

    /// Orders by likelihood, most likely first, then by id.
    pub(super) fn before(&self, other: &Self) -> Ordering {
        other
            .logit
            .total_cmp(&self.logit)
            .then(self.id.cmp(&other.id))
    }
}

impl SamplingParams {
    /// Returns the probability of every token. `logits` has one entry per token of the vocabulary;
    /// `prompt` and `generated` are the preceding tokens, which penalties use. Filtered tokens have
    /// probability 0. Ids outside of `logits` are ignored.
    ///
    /// Logits that are NaN count as minus infinity. If no logit is finite, the lowest id gets
    /// probability 1. Returns nothing for empty `logits`.
    pub fn distribution(&self, logits: &[f32], prompt: &[u32], generated: &[u32]) -> Vec<f64> {
        let logits = self.adjusted(logits, prompt, generated);
        let mut probabilities = vec![0.0; logits.len()];
        let mut kept: Vec<Candidate> = (0..)
            .zip(logits)
            .filter(|(_, logit)| *logit > f32::NEG_INFINITY)
            .map(|(id, logit)| Candidate::new(id, logit))
            .collect();
        self.filter(&mut kept, &mut Vec::new());
        let (top, temperature) = (highest(&kept), self.final_temperature());
        let weights = kept.iter().map(|c| weight(c.logit, top, temperature));
        let weights: Vec<f64> = weights.collect();
        let sum: f64 = weights.iter().sum();
        for (candidate, weight) in kept.iter().zip(weights) {
            probabilities[candidate.id as usize] = weight / sum;
        }
        if let ([], [first, ..]) = (&*kept, &mut *probabilities) {
            *first = 1.0;
        }
        probabilities
    }

    /// Applies bias and penalties, in f64. The results are rounded to f32.
    fn adjusted(&self, logits: &[f32], prompt: &[u32], generated: &[u32]) -> Vec<f32> {
        let mut logits: Vec<f64> = logits.iter().map(|&logit| f64::from(logit)).collect();
        for &(id, bias) in &self.logit_bias {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit += f64::from(bias);
            }
        }
        // Counts of generated tokens; 0 for those that only the prompt has.
        let mut counts: HashMap<u32, u32> = prompt.iter().map(|&id| (id, 0)).collect();
        for &id in generated {
            *counts.entry(id).or_default() += 1;
        }
        for (id, count) in counts {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = self.penalized(*logit, count);
            }
        }
        logits.into_iter().map(|logit| logit as f32).collect()
    }

    /// Applies the penalties to the logit of a token that occurs `count` times in the response, or
    /// only in the prompt if `count` is 0.
    pub(super) fn penalized(&self, logit: f64, count: u32) -> f64 {
        let repetition = f64::from(self.repetition_penalty);
        let logit = if logit > 0.0 {
            logit / repetition
        } else {
            logit * repetition
        };
        if count == 0 {
            return logit;
        }
        let frequency = f64::from(self.frequency_penalty) * f64::from(count);
        logit - f64::from(self.presence_penalty) - frequency
    }

    /// Keeps the candidates that pass the filters. They are sorted by id before and after. `order`
    /// is a scratch buffer.
    pub(super) fn filter(&self, kept: &mut Vec<Candidate>, order: &mut Vec<Candidate>) {
        keep_top_k(kept, if self.is_greedy() { 1 } else { self.top_k });
        if self.top_p < 1.0 {
            let top = highest(kept);
            let total: f64 = kept.iter().map(|c| weight(c.logit, top, 1.0)).sum();
            let bound = f64::from(self.top_p) * total;
            // Equal bounds leave no doubt.
            keep_top_p(kept, order, (bound, bound));
        }
        keep_min_p(kept, f64::from(self.min_p));
    }

    /// Returns the temperature of the draw. It does not matter if only one token is left.
    pub(super) fn final_temperature(&self) -> f64 {
        if self.is_greedy() {
            1.0
        } else {
            f64::from(self.temperature)
        }
    }
}

/// Keeps the candidates sorted by id.
fn keep_top_k(kept: &mut Vec<Candidate>, top_k: usize) {
    if (1..kept.len()).contains(&top_k) {
        kept.select_nth_unstable_by(top_k - 1, Candidate::before);
        kept.truncate(top_k);
        kept.sort_unstable_by_key(|candidate| candidate.id);
    }
}

/// Keeps the most likely candidates whose weights together reach a bound that is within `bounds`
/// (inclusive). Their order does not change. Returns false, and changes nothing, if all of them do not
/// reach it, or if the result depends on the exact bound.
pub(super) fn keep_top_p(
    kept: &mut Vec<Candidate>,
    order: &mut Vec<Candidate>,
    bounds: (f64, f64),
) -> bool {
    let top = highest(kept);
    order.clear();
    order.extend_from_slice(kept);
    let mut reached = 0.0;
    let mut n_sorted = 0;
    while n_sorted < order.len() {
        // Most models put nearly all of the weight on a few tokens.
        let end = order.len().min((n_sorted * 8).max(128));
        if end < order.len() {
            order[n_sorted..].select_nth_unstable_by(end - n_sorted, Candidate::before);
        }
        order[n_sorted..end].sort_unstable_by(Candidate::before);
        for last in &order[n_sorted..end] {
            reached += weight(last.logit, top, 1.0);
            if reached >= bounds.1 {
                kept.retain(|candidate| candidate.before(last).is_le());
                return true;
            } else if reached >= bounds.0 {
                return false;
            }
        }
        n_sorted = end;
    }
    false
}

pub(super) fn keep_min_p(kept: &mut Vec<Candidate>, min_p: f64) {
    let top = highest(kept);
    kept.retain(|candidate| weight(candidate.logit, top, 1.0) >= min_p);
}

pub(super) fn highest(kept: &[Candidate]) -> f32 {
    kept.iter()
        .map(|candidate| candidate.logit)
        .fold(f32::NEG_INFINITY, f32::max)
}

/// Returns the probability relative to a token whose logit is `top`.
pub(super) fn weight(logit: f32, top: f32, temperature: f64) -> f64 {
    // The difference of two infinite logits would be NaN.
    if logit == top {
        1.0
    } else {
        ((f64::from(logit) - f64::from(top)) / temperature).exp()
    }
}
