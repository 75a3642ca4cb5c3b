//! The quality of a form of a model: how well it predicts a fixed text, and how far its predictions
//! are from those of another form.

use serde::{Deserialize, Serialize};

/// A text in the public domain (CC0), written for Transom, so no model was trained with it.
pub const TEXT: &str = include_str!("quality.txt");

/// How many of the most likely tokens of the reference are compared one by one. All others count as one.
pub const COMPARED_TOKENS: u8 = 100;

/// The least probability of what was not reported, so that rounding gives no infinite divergence.
const LEAST: f64 = 1e-9;

/// A token of the text, as a model predicted it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredToken {
    /// Its id.
    pub token: u32,
    /// Bytes of the text that it stands for.
    pub n_bytes: usize,
    /// Natural logarithm of its probability.
    pub logprob: f64,
    /// Other tokens at its place with their log probabilities, the most likely one first.
    pub top: Vec<(u32, f64)>,
}

/// How well a model predicts the text. Lower is better.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Quality {
    /// Number of predicted tokens.
    pub n_tokens: usize,
    /// Bytes of text of these tokens.
    pub n_bytes: usize,
    /// Perplexity per token. Comparable only between models with the same tokenizer.
    pub perplexity: f64,
    /// Its standard error.
    pub perplexity_error: f64,
    /// Bits per byte of text, which do not depend on the tokenizer.
    pub bits_per_byte: f64,
}

impl Quality {
    /// Returns the quality of these predictions; `None` if there are none.
    pub fn new(tokens: &[ScoredToken]) -> Option<Self> {
        let (mean, error) = mean_and_error(tokens.iter().map(|token| -token.logprob))?;
        let n_bytes: usize = tokens.iter().map(|token| token.n_bytes).sum();
        let nats = mean * tokens.len() as f64;
        (n_bytes > 0).then(|| Self {
            n_tokens: tokens.len(),
            n_bytes,
            perplexity: mean.exp(),
            perplexity_error: mean.exp() * error,
            bits_per_byte: nats / std::f64::consts::LN_2 / n_bytes as f64,
        })
    }
}

/// How far the predictions of a model are from those of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct Divergence {
    /// Mean Kullback-Leibler divergence from the reference in nats. The tokens that are not among the
    /// [`COMPARED_TOKENS`] most likely ones of the reference count as one, so it is a lower bound.
    pub kl_nats: f64,
    /// Its standard error.
    pub kl_error: f64,
    /// Share of the places where both find the same token most likely, from 0 to 1.
    pub same_top: f64,
}

impl Divergence {
    /// Compares predictions of the same text. `tokens` contains the most likely token of each place,
    /// and after it those of `reference` with the log probabilities of the other model.
    ///
    /// `None` if the models have different tokens for the text.
    pub fn new(reference: &[ScoredToken], tokens: &[ScoredToken]) -> Option<Self> {
        let ids = |tokens: &[ScoredToken]| -> Vec<u32> {
            tokens.iter().map(|token| token.token).collect()
        };
        if ids(reference) != ids(tokens) {
            return None;
        }
        let pairs = || reference.iter().zip(tokens);
        let (kl_nats, kl_error) = mean_and_error(pairs().map(|(p, q)| divergence(p, q)))?;
        let top = |token: &ScoredToken| token.top.first().map(|(id, _)| *id);
        let n_same = pairs().filter(|(p, q)| top(p) == top(q)).count();
        Some(Self {
            kl_nats,
            kl_error,
            same_top: n_same as f64 / tokens.len() as f64,
        })
    }
}

/// Returns the divergence of `q` from `p` at one place, in nats.
fn divergence(p: &ScoredToken, q: &ScoredToken) -> f64 {
    let (mut sum, mut rest_p, mut rest_q) = (0.0, 1.0, 1.0);
    for ((_, p), (_, q)) in p.top.iter().zip(q.top.iter().skip(1)) {
        sum += p.exp() * (p - q);
        rest_p -= p.exp();
        rest_q -= q.exp();
    }
    let (rest_p, rest_q) = (rest_p.max(LEAST), rest_q.max(LEAST));
    (sum + rest_p * (rest_p / rest_q).ln()).max(0.0)
}

/// Returns the mean and its standard error.
fn mean_and_error(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let values: Vec<f64> = values.collect();
    let n = values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = match values.len() {
        1 => 0.0,
        _ => (squares / (n - 1.0) / n).sqrt(),
    };
    Some((mean, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token of two bytes, with the log probabilities of these probabilities.
    fn token(token: u32, probability: f64, top: &[(u32, f64)]) -> ScoredToken {
        ScoredToken {
            token,
            n_bytes: 2,
            logprob: probability.ln(),
            top: top.iter().map(|(id, p)| (*id, p.ln())).collect(),
        }
    }

    #[test]
    fn perplexity_is_the_inverse_of_the_geometric_mean_of_the_probabilities() {
        let quality = Quality::new(&[token(1, 0.5, &[]), token(2, 0.125, &[])]).unwrap();
        assert!((quality.perplexity - 4.0).abs() < 1e-12);
        // One bit and three bits for four bytes.
        assert!((quality.bits_per_byte - 1.0).abs() < 1e-12);
        assert_eq!((quality.n_tokens, quality.n_bytes), (2, 4));
        assert!((quality.perplexity_error - 4.0 * 2.0_f64.ln()).abs() < 1e-12);
        assert_eq!(Quality::new(&[]), None);
    }

    #[test]
    fn the_divergence_is_that_of_the_distributions() {
        // Three tokens, of which two are reported.
        let reference = [token(1, 0.5, &[(1, 0.5), (2, 0.3)])];
        let other = [token(1, 0.25, &[(2, 0.6), (1, 0.25), (2, 0.6)])];
        let found = Divergence::new(&reference, &other).unwrap();
        let expected = 0.5 * 2.0_f64.ln() + 0.3 * 0.5_f64.ln() + 0.2 * (0.2_f64 / 0.15).ln();
        assert!((found.kl_nats - expected).abs() < 1e-12, "{found:?}");
        assert_eq!(found.same_top, 0.0);
        let itself = [token(1, 0.5, &[(1, 0.5), (1, 0.5), (2, 0.3)])];
        let found = Divergence::new(&reference, &itself).unwrap();
        assert_eq!((found.kl_nats, found.same_top), (0.0, 1.0));
    }

    #[test]
    fn texts_with_other_tokens_are_not_compared() {
        let reference = [token(1, 0.5, &[(1, 0.5)])];
        assert_eq!(Divergence::new(&reference, &[token(2, 0.5, &[])]), None);
        assert_eq!(Divergence::new(&reference, &[]), None);
    }

    #[test]
    fn certain_predictions_have_a_finite_divergence() {
        let reference = [token(1, 1.0, &[(1, 1.0)])];
        let other = [token(1, 1.0, &[(1, 1.0), (1, 1.0)])];
        assert_eq!(Divergence::new(&reference, &other).unwrap().kl_nats, 0.0);
    }

    #[test]
    fn the_text_is_long_enough_and_normalized() {
        assert!(TEXT.len() > 4000 && TEXT.len() < 8000, "{}", TEXT.len());
        assert!(
            TEXT.is_ascii(),
            "so every tokenizer sees the same characters"
        );
        assert!(!TEXT.starts_with(char::is_whitespace) && TEXT.ends_with('\n'));
    }
}
