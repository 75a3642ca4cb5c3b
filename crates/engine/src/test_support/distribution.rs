//! The reference meaning of the sampling parameters, in f64 and in the documented order: exact, slow
//! and simple. Every engine's sampler must draw from this distribution.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::sampling::SamplingParams;

impl SamplingParams {
    /// Returns the probability of every token. `logits` has one entry per token of the vocabulary;
    /// `prompt` and `generated` are the preceding tokens, which penalties use. Filtered tokens have
    /// probability 0. Ids outside of `logits` are ignored.
    ///
    /// Logits that are NaN count as minus infinity. If no logit is higher than that, the lowest id
    /// gets probability 1. Returns nothing for empty `logits`.
    pub fn distribution(&self, logits: &[f32], prompt: &[u32], generated: &[u32]) -> Vec<f64> {
        let logits = self.adjusted(logits, prompt, generated);
        let mut probabilities = vec![0.0; logits.len()];
        let ids = 0..logits.len();
        let mut kept: Vec<usize> = ids.filter(|&id| logits[id] > f32::NEG_INFINITY).collect();
        // The sort is stable, so of equal tokens the lower id comes first.
        kept.sort_by(|&a, &b| {
            let by_logit = logits[b].partial_cmp(&logits[a]);
            by_logit.unwrap_or(Ordering::Equal)
        });
        let Some(top) = kept.first().map(|&id| logits[id]) else {
            probabilities.iter_mut().take(1).for_each(|p| *p = 1.0);
            return probabilities;
        };
        if self.is_greedy() {
            probabilities[kept[0]] = 1.0;
            return probabilities;
        }
        let weight = |id: usize, temperature: f32| {
            let below = f64::from(logits[id]) - f64::from(top);
            match logits[id] == top {
                true => 1.0,
                false => (below / f64::from(temperature)).exp(),
            }
        };
        if self.top_k > 0 {
            kept.truncate(self.top_k);
        }
        if self.top_p < 1.0 {
            let total: f64 = kept.iter().map(|&id| weight(id, 1.0)).sum();
            let mut reached = 0.0;
            let last = kept.iter().position(|&id| {
                reached += weight(id, 1.0);
                reached >= f64::from(self.top_p) * total
            });
            kept.truncate(last.map_or(kept.len(), |last| last + 1));
        }
        kept.retain(|&id| weight(id, 1.0) >= f64::from(self.min_p));
        let sum: f64 = kept.iter().map(|&id| weight(id, self.temperature)).sum();
        for id in kept {
            probabilities[id] = weight(id, self.temperature) / sum;
        }
        probabilities
    }

    /// Applies bias and penalties, in f64. The results are rounded to f32.
    fn adjusted(&self, logits: &[f32], prompt: &[u32], generated: &[u32]) -> Vec<f32> {
        let mut biases: HashMap<u32, f64> = HashMap::new();
        for &(id, bias) in &self.logit_bias {
            *biases.entry(id).or_default() += f64::from(bias);
        }
        // Counts of generated tokens; 0 for those that only the prompt has.
        let mut counts: HashMap<u32, u32> = prompt.iter().map(|&id| (id, 0)).collect();
        for &id in generated {
            *counts.entry(id).or_default() += 1;
        }
        let adjusted = (0_u32..).zip(logits).map(|(id, &logit)| {
            let logit = f64::from(logit) + biases.get(&id).unwrap_or(&0.0);
            let count = counts.get(&id);
            count.map_or(logit, |&count| self.penalized(logit, count)) as f32
        });
        adjusted.collect()
    }
}
