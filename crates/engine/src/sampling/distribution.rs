//! The reference meaning of the parameters, in f64 and in the documented order.
//!
//! Ties are broken by the lower token id everywhere, so every filter keeps a definite set. Only as
//! much of the vocabulary is sorted as a filter needs: a full sort of 150,000 tokens would cost
//! more than a small model's forward pass.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::sampling::SamplingParams;

impl SamplingParams {
    /// The probability of every token to come next. `logits` has one entry for each token of the
    /// vocabulary; `prompt` and `generated` are the tokens before, which penalties look at. Tokens
    /// that are filtered out have probability 0. Ids outside of `logits` are ignored.
    ///
    /// Logits that are NaN count as minus infinity. Where no logit is finite, nothing is known and
    /// the lowest id gets probability 1; empty for empty `logits`.
    pub fn distribution(&self, logits: &[f32], prompt: &[u32], generated: &[u32]) -> Vec<f64> {
        let logits = self.adjusted(logits, prompt, generated);
        let mut kept: Vec<usize> = (0..logits.len())
            .filter(|&id| logits[id] > f64::NEG_INFINITY)
            .collect();
        if kept.is_empty() && !logits.is_empty() {
            kept.push(0);
        }
        let (top_k, temperature) = if self.is_greedy() {
            (1, 1.0)
        } else {
            (self.top_k, f64::from(self.temperature))
        };
        keep_top_k(&logits, &mut kept, top_k);
        keep_top_p(&logits, &mut kept, f64::from(self.top_p));
        keep_min_p(&logits, &mut kept, f64::from(self.min_p));

        let weights = weights(&logits, &kept, temperature);
        let sum: f64 = weights.iter().sum();
        let mut probabilities = vec![0.0; logits.len()];
        for (&id, weight) in kept.iter().zip(weights) {
            probabilities[id] = weight / sum;
        }
        probabilities
    }

    /// Bias and penalties.
    fn adjusted(&self, logits: &[f32], prompt: &[u32], generated: &[u32]) -> Vec<f64> {
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
        let repetition = f64::from(self.repetition_penalty);
        for (id, count) in counts {
            let Some(logit) = logits.get_mut(id as usize) else {
                continue;
            };
            if *logit > 0.0 {
                *logit /= repetition;
            } else {
                *logit *= repetition;
            }
            if count > 0 {
                *logit -= f64::from(self.presence_penalty);
                *logit -= f64::from(self.frequency_penalty) * f64::from(count);
            }
        }
        for logit in &mut logits {
            // Adding 0 turns -0 into 0, which sorting would tell apart.
            *logit = if logit.is_nan() {
                f64::NEG_INFINITY
            } else {
                *logit + 0.0
            };
        }
        logits
    }
}

/// The likelier token first, and of equals the lower id.
fn by_likelihood(logits: &[f64]) -> impl Fn(&usize, &usize) -> Ordering + Copy {
    |a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b))
}

fn keep_top_k(logits: &[f64], kept: &mut Vec<usize>, top_k: usize) {
    if (1..kept.len()).contains(&top_k) {
        kept.select_nth_unstable_by(top_k - 1, by_likelihood(logits));
        kept.truncate(top_k);
    }
}

fn keep_top_p(logits: &[f64], kept: &mut Vec<usize>, top_p: f64) {
    if top_p >= 1.0 {
        return;
    }
    let order = by_likelihood(logits);
    let top = highest(logits, kept);
    let bound = top_p * weights(logits, kept, 1.0).iter().sum::<f64>();
    let mut reached = 0.0;
    let mut n_sorted = 0;
    while n_sorted < kept.len() {
        // Most models put nearly all of the weight on a few tokens.
        let end = kept.len().min((n_sorted * 8).max(128));
        if end < kept.len() {
            kept[n_sorted..].select_nth_unstable_by(end - n_sorted, order);
        }
        kept[n_sorted..end].sort_unstable_by(order);
        for i in n_sorted..end {
            reached += weight(logits[kept[i]], top, 1.0);
            if reached >= bound {
                kept.truncate(i + 1);
                return;
            }
        }
        n_sorted = end;
    }
}

fn keep_min_p(logits: &[f64], kept: &mut Vec<usize>, min_p: f64) {
    let top = highest(logits, kept);
    kept.retain(|&id| weight(logits[id], top, 1.0) >= min_p);
}

/// The highest logit of the tokens `kept`.
fn highest(logits: &[f64], kept: &[usize]) -> f64 {
    kept.iter()
        .map(|&id| logits[id])
        .fold(f64::NEG_INFINITY, f64::max)
}

/// Probabilities relative to that of the likeliest.
fn weights(logits: &[f64], kept: &[usize], temperature: f64) -> Vec<f64> {
    let top = highest(logits, kept);
    kept.iter()
        .map(|&id| weight(logits[id], top, temperature))
        .collect()
}

fn weight(logit: f64, top: f64, temperature: f64) -> f64 {
    // The difference of two infinite logits would be NaN.
    if logit == top {
        1.0
    } else {
        ((logit - top) / temperature).exp()
    }
}
