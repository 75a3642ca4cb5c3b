//! Log probabilities of generated tokens, for programs that ask for them.
//!
//! Rule: they are the model's own: the log-softmax of its logits, before constraint, bias, penalties,
//! filters and temperature. So they show what the model expected, whatever the sampler made of it, and a
//! token that a filter excludes is still among the alternatives.

use serde::{Deserialize, Serialize};

/// The most alternatives that a request may ask for, as in OpenAI's API.
pub const MAX_TOP_LOGPROBS: u8 = 20;

/// Stands for the log probability of an impossible token, because JSON has no infinity.
pub const LOWEST_LOGPROB: f32 = -9999.0;

/// How far below the highest logit a token still counts in the sum: a million tokens further below
/// are less than a hundred-billionth of it.
const DEPTH: f64 = 40.0;

/// A token with its log probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Logprob {
    /// Its id.
    pub token: u32,
    /// The bytes that it adds, or would add, to the text; they may end inside a character. Empty for
    /// control tokens.
    pub bytes: Vec<u8>,
    /// The natural logarithm of its probability, at least [`LOWEST_LOGPROB`].
    pub logprob: f32,
}

/// A generated token and the most likely tokens at its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprobs {
    /// The token of the response.
    pub chosen: Logprob,
    /// The most likely tokens, in this order; of equally likely ones the lower id first. May include
    /// the chosen one.
    pub top: Vec<Logprob>,
}

/// Like [`TokenLogprobs`], without the texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    token: u32,
    logprob: f32,
    top: Vec<(u32, f32)>,
}

impl Scores {
    /// Computes the log probabilities of `token` and of the `n_top` most likely tokens. `logits` has
    /// one entry per token of the vocabulary; NaN counts as minus infinity.
    pub fn new(logits: &[f32], token: u32, n_top: u8) -> Self {
        let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let relative = |logit: f32| match logit == highest {
            // The difference of two infinite logits would be NaN.
            true => 0.0,
            false => f64::from(logit) - f64::from(highest),
        };
        let near = logits.iter().map(|logit| relative(*logit));
        let sum: f64 = near.filter(|by| *by > -DEPTH).map(f64::exp).sum();
        let logprob = |logit: f32| match logit > f32::NEG_INFINITY {
            true => ((relative(logit) - sum.ln()) as f32).max(LOWEST_LOGPROB),
            false => LOWEST_LOGPROB,
        };
        let of_token = logits.get(token as usize).copied();
        let top = most_likely(logits, n_top.into());
        Self {
            token,
            logprob: logprob(of_token.unwrap_or(f32::NEG_INFINITY)),
            top: top.map(|(id, logit)| (id, logprob(logit))).collect(),
        }
    }

    /// Adds the bytes of each token, which `bytes_of` returns.
    pub fn with_bytes(self, bytes_of: impl Fn(u32) -> Vec<u8>) -> TokenLogprobs {
        let with_bytes = |(token, logprob)| Logprob {
            token,
            bytes: bytes_of(token),
            logprob,
        };
        TokenLogprobs {
            chosen: with_bytes((self.token, self.logprob)),
            top: self.top.into_iter().map(with_bytes).collect(),
        }
    }
}

/// Returns the `n` highest logits with their ids, highest first, lower ids first among equals.
fn most_likely(logits: &[f32], n: usize) -> impl Iterator<Item = (u32, f32)> {
    let mut top: Vec<(u32, f32)> = Vec::with_capacity(n + 1);
    let tokens = (0..)
        .zip(logits)
        .take(if n == 0 { 0 } else { logits.len() });
    for (id, &logit) in tokens.filter(|(_, logit)| !logit.is_nan()) {
        let is_too_low = top.last().is_some_and(|(_, last)| logit <= *last);
        if is_too_low && top.len() == n {
            continue;
        }
        let at = top.partition_point(|(_, other)| *other >= logit);
        top.insert(at, (id, logit));
        top.truncate(n);
    }
    top.into_iter()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, in f64.
    fn log_softmax(logits: &[f32]) -> Vec<f64> {
        let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        logits.iter().map(|l| f64::from(*l) - sum.ln()).collect()
    }

    #[test]
    fn the_most_likely_tokens_come_first_and_lower_ids_among_equals() {
        let scores = Scores::new(&[1.0, 3.0, f32::NAN, 3.0, 2.0], 0, 3);
        let ids: Vec<u32> = scores.top.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [1, 3, 4]);
        assert_eq!(scores.top[0].1, scores.top[1].1);
        assert!(Scores::new(&[1.0, 2.0], 0, 0).top.is_empty());
        assert_eq!(Scores::new(&[1.0, 2.0], 0, 20).top.len(), 2);
    }

    #[test]
    fn log_probabilities_are_always_numbers() {
        let infinite = [f32::INFINITY, 0.0, f32::INFINITY];
        let scores = Scores::new(&infinite, 0, 3);
        assert!((scores.logprob - 0.5_f32.ln()).abs() < 1e-6, "{scores:?}");
        assert_eq!(scores.top[2], (1, LOWEST_LOGPROB));
        let impossible: [(&[f32], u32); 3] = [(&[f32::NEG_INFINITY; 2], 1), (&[], 0), (&[1.0], 7)];
        for (logits, token) in impossible {
            assert_eq!(Scores::new(logits, token, 0).logprob, LOWEST_LOGPROB);
        }
        assert_eq!(Scores::new(&[f32::NAN, 1.0], 0, 1).logprob, LOWEST_LOGPROB);
        assert_eq!(Scores::new(&[f32::NAN, 1.0], 1, 1).logprob, 0.0);
    }

    #[test]
    fn every_token_gets_its_own_bytes() {
        let scores = Scores::new(&[0.0, 1.0], 0, 1);
        let logprobs = scores.with_bytes(|token| vec![token as u8]);
        assert_eq!(logprobs.chosen.bytes, [0]);
        assert_eq!(
            (logprobs.top[0].token, &*logprobs.top[0].bytes),
            (1, &[1][..])
        );
    }

    proptest! {
        #[test]
        fn log_probabilities_are_those_of_the_softmax(
            logits in prop::collection::vec(-60.0..60.0_f32, 1..200),
            token in any::<prop::sample::Index>(),
            n_top in 0..=MAX_TOP_LOGPROBS,
        ) {
            let token = token.index(logits.len());
            let expected = log_softmax(&logits);
            let scores = Scores::new(&logits, token as u32, n_top);
            prop_assert!((f64::from(scores.logprob) - expected[token]).abs() < 1e-4);
            prop_assert_eq!(scores.top.len(), logits.len().min(n_top.into()));
            for (id, logprob) in &scores.top {
                prop_assert!((f64::from(*logprob) - expected[*id as usize]).abs() < 1e-4);
            }
            let mut sorted = logits.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let top = scores.top.iter().map(|(id, _)| logits[*id as usize]);
            prop_assert!(top.eq(sorted.into_iter().take(n_top.into())));
        }
    }
}
