//! Scores of tokens: the log probabilities that a response reports, and the scoring of a known text.
//!
//! A decoder takes each token from [`Scorer::known`] before it samples one. So a text is scored on
//! the same path as a response: one token after another, with the same steps and KV cache.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::logprobs::Scores;
use crate::request::{GenerationParams, PreparedPrompt};

/// The scores of one response; by default there are none.
#[derive(Debug, Default)]
pub struct Scorer {
    n_top: Option<u8>,
    is_prompt: bool,
    known: VecDeque<u32>,
    also: VecDeque<Vec<u32>>,
}

impl Scorer {
    /// Returns the scorer of a response, and the part of the prompt that is processed before it.
    pub fn new<'a>(
        prompt: &'a PreparedPrompt,
        params: &GenerationParams,
    ) -> (Cow<'a, PreparedPrompt>, Self) {
        let mut scorer = Self {
            n_top: params.logprobs,
            is_prompt: false,
            known: VecDeque::new(),
            also: VecDeque::new(),
        };
        let Some(score) = &params.score else {
            return (Cow::Borrowed(prompt), scorer);
        };
        let mut first = prompt.clone();
        scorer.is_prompt = true;
        scorer.known = first.tokens.split_off(1.min(first.tokens.len())).into();
        scorer.also = score.tokens.clone().into();
        (Cow::Owned(first), scorer)
    }

    /// Returns the maximum number of tokens of the response, which is `max_tokens` unless the prompt
    /// is scored and has fewer.
    pub fn max_tokens(&self, max_tokens: usize) -> usize {
        match self.is_prompt {
            true => max_tokens.min(self.known.len()),
            false => max_tokens,
        }
    }

    /// Returns true if [`Self::score`] needs the logits of each token.
    pub fn needs_logits(&self) -> bool {
        self.n_top.is_some()
    }

    /// Returns the next token, if it is not sampled.
    pub fn known(&self) -> Option<u32> {
        self.known.front().copied()
    }

    /// Returns the scores of the next token, if they are reported. `logits` has one entry per token of
    /// the vocabulary.
    pub fn score(&mut self, logits: &[f32], token: u32) -> Option<Scores> {
        self.known.pop_front();
        let n_top = self.n_top?;
        let also = self.also.pop_front().unwrap_or_default();
        Some(Scores::with(logits, token, n_top, &also))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ScorePrompt;

    fn prompt(tokens: &[u32]) -> PreparedPrompt {
        PreparedPrompt::new(tokens.to_vec())
    }

    #[test]
    fn the_tokens_after_the_first_are_the_response() {
        let params = GenerationParams {
            logprobs: Some(1),
            score: Some(ScorePrompt {
                tokens: vec![vec![0, 1]],
            }),
            ..GenerationParams::default()
        };
        let prompt = prompt(&[7, 1, 2]);
        let (first, mut scorer) = Scorer::new(&prompt, &params);
        assert_eq!(first.tokens, [7]);
        assert_eq!((scorer.max_tokens(9), scorer.max_tokens(1)), (2, 1));
        let logits = [0.0, 1.0, 2.0];
        assert_eq!(scorer.known(), Some(1));
        let scores = scorer.score(&logits, 1).unwrap().with_bytes(|_| Vec::new());
        let ids = |scores: &crate::TokenLogprobs| -> Vec<u32> {
            scores.top.iter().map(|one| one.token).collect()
        };
        assert_eq!((scores.chosen.token, ids(&scores)), (1, vec![2, 0, 1]));
        assert_eq!(scorer.known(), Some(2));
        let scores = scorer.score(&logits, 2).unwrap().with_bytes(|_| Vec::new());
        assert_eq!(ids(&scores), [2], "without a list the most likely tokens");
        assert_eq!(scorer.known(), None);
    }

    #[test]
    fn another_response_is_sampled() {
        let prompt = prompt(&[7, 1]);
        let (whole, mut scorer) = Scorer::new(&prompt, &GenerationParams::default());
        assert_eq!(whole.tokens, [7, 1]);
        assert_eq!((scorer.max_tokens(9), scorer.known()), (9, None));
        assert!(!scorer.needs_logits() && scorer.score(&[1.0], 0).is_none());
    }
}
