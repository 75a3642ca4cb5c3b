//! The tokens whose logits bias and penalties change.
//!
//! Rule: a token that no parameter changes is not in the list, so without bias and penalties the
//! logits are used as they are.

use std::collections::BTreeMap;

use crate::sampling::SamplingParams;

/// How a token's logit changes.
#[derive(Debug, Clone, Default)]
struct Adjustment {
    /// Biases in the given order. Adding them one by one rounds as the reference does.
    biases: Vec<f32>,
    /// How often the token was generated; `None` before penalties count it.
    count: Option<u32>,
}

/// Tokens with a changed logit, by id.
#[derive(Debug, Clone, Default)]
pub(super) struct AdjustedTokens {
    tokens: BTreeMap<u32, Adjustment>,
}

impl AdjustedTokens {
    pub(super) fn new(params: &SamplingParams, prompt: &[u32]) -> Self {
        let mut tokens: BTreeMap<u32, Adjustment> = BTreeMap::new();
        for &(id, bias) in &params.logit_bias {
            tokens.entry(id).or_default().biases.push(bias);
        }
        if params.repetition_penalty != 1.0 {
            for &id in prompt {
                tokens.entry(id).or_default().count = Some(0);
            }
        }
        Self { tokens }
    }

    pub(super) fn accept(&mut self, params: &SamplingParams, token: u32) {
        let penalties = [
            params.repetition_penalty - 1.0,
            params.presence_penalty,
            params.frequency_penalty,
        ];
        if penalties != [0.0; 3] {
            let count = &mut self.tokens.entry(token).or_default().count;
            *count = Some(count.map_or(1, |count| count.saturating_add(1)));
        }
    }

    /// Returns `logits` with bias and penalties. They are copied to `buffer` if anything changes.
    pub(super) fn apply<'a>(
        &self,
        params: &SamplingParams,
        logits: &'a [f32],
        buffer: &'a mut Vec<f32>,
    ) -> &'a [f32] {
        if self.tokens.is_empty() {
            return logits;
        }
        buffer.clear();
        buffer.extend_from_slice(logits);
        for (&id, adjustment) in &self.tokens {
            let Some(slot) = buffer.get_mut(id as usize) else {
                break;
            };
            let biases = adjustment.biases.iter().map(|&bias| f64::from(bias));
            let logit = biases.fold(f64::from(*slot), |logit, bias| logit + bias);
            let logit = adjustment
                .count
                .map_or(logit, |count| params.penalized(logit, count));
            *slot = logit as f32;
        }
        buffer
    }
}
