//! The reference meaning of the parameters, in f64 and in the documented order.
//!
//! Ties are broken by the lower token id everywhere, so every filter keeps a definite set.

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
        // A stable sort of rising ids keeps the lower id first among equals.
        kept.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        if kept.is_empty() && !logits.is_empty() {
            kept.push(0);
        }
        self.filter(&logits, &mut kept);

        let mut probabilities = vec![0.0; logits.len()];
        let temperature = if self.is_greedy() {
            kept.truncate(1);
            1.0
        } else {
            f64::from(self.temperature)
        };
        for (&id, p) in kept.iter().zip(softmax(&logits, &kept, temperature)) {
            probabilities[id] = p;
        }
        probabilities
    }

    /// Bias and penalties.
    fn adjusted(&self, logits: &[f32], prompt: &[u32], generated: &[u32]) -> Vec<f64> {
        let mut logits: Vec<f64> = logits
            .iter()
            .map(|&logit| {
                if logit.is_nan() {
                    f64::NEG_INFINITY
                } else {
                    f64::from(logit)
                }
            })
            .collect();
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
            *logit = if *logit > 0.0 {
                *logit / repetition
            } else {
                *logit * repetition
            };
            if count > 0 {
                *logit -= f64::from(self.presence_penalty);
                *logit -= f64::from(self.frequency_penalty) * f64::from(count);
            }
        }
        logits
    }

    /// Top-k, top-p and min-p over `kept`, which is sorted from the likeliest on.
    fn filter(&self, logits: &[f64], kept: &mut Vec<usize>) {
        if self.top_k > 0 {
            kept.truncate(self.top_k);
        }
        let probabilities = softmax(logits, kept, 1.0);
        if self.top_p < 1.0 {
            let mut reached = 0.0;
            let n_below = probabilities
                .iter()
                .take_while(|&&p| {
                    let is_below = reached < f64::from(self.top_p);
                    reached += p;
                    is_below
                })
                .count();
            kept.truncate(n_below.max(1));
        }
        if let Some(&highest) = probabilities.first() {
            let floor = f64::from(self.min_p) * highest;
            let n_likely = probabilities.iter().take_while(|&&p| p >= floor).count();
            kept.truncate(n_likely.max(1));
        }
    }
}

/// Probabilities of the tokens `kept`, the first of which is the likeliest.
fn softmax(logits: &[f64], kept: &[usize], temperature: f64) -> Vec<f64> {
    let Some(&first) = kept.first() else {
        return Vec::new();
    };
    let highest = logits[first];
    let mut weights: Vec<f64> = kept
        .iter()
        .map(|&id| {
            // Infinite logits: their difference is NaN, their weight 1.
            if logits[id] == highest {
                1.0
            } else {
                ((logits[id] - highest) / temperature).exp()
            }
        })
        .collect();
    let sum: f64 = weights.iter().sum();
    for weight in &mut weights {
        *weight /= sum;
    }
    weights
}
