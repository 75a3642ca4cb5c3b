//! The tokens whose logits bias and penalties change, counted as the answer grows.
//!
//! Rule: a token that no parameter changes is not kept, so without bias and penalties the logits are
//! used as they are.

use std::collections::BTreeMap;

use crate::sampling::SamplingParams;
use crate::sampling::distribution::{Candidate, orderly};

/// Named by a bias, or seen where a penalty looks.
#[derive(Debug, Clone, Default)]
struct Touch {
    /// Biases in the order given. Adding them one by one rounds as the reference does.
    biases: Vec<f32>,
    /// How often it was generated; `None` before penalties count it.
    count: Option<u32>,
}

/// Tokens with a changed logit, by id.
#[derive(Debug, Clone, Default)]
pub(super) struct Touched {
    tokens: BTreeMap<u32, Touch>,
}

impl Touched {
    pub(super) fn new(params: &SamplingParams, prompt: &[u32]) -> Self {
        let mut tokens: BTreeMap<u32, Touch> = BTreeMap::new();
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

    /// `token` was generated.
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

    /// Takes the touched tokens out of `logits`: fills `changed` with them, by ascending id, and
    /// returns the other logits, copied to `room` with minus infinity in the touched places.
    pub(super) fn take_out<'a>(
        &self,
        params: &SamplingParams,
        logits: &'a [f32],
        room: &'a mut Vec<f32>,
        changed: &mut Vec<Candidate>,
    ) -> &'a [f32] {
        changed.clear();
        if self.tokens.is_empty() {
            return logits;
        }
        room.clear();
        room.extend_from_slice(logits);
        for (&id, touch) in &self.tokens {
            let Some(left) = room.get_mut(id as usize) else {
                break;
            };
            let biases = touch.biases.iter().map(|&bias| f64::from(bias));
            let logit = biases.fold(f64::from(*left), |logit, bias| logit + bias);
            let logit = touch
                .count
                .map_or(logit, |count| params.penalized(logit, count));
            let logit = orderly(logit);
            *left = f32::NEG_INFINITY;
            if logit > f64::NEG_INFINITY {
                changed.push(Candidate { id, logit });
            }
        }
        room
    }
}
