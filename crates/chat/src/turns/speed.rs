//! Tokens a second of late, while an answer is written.
//!
//! Text comes without a count of its tokens, so it is estimated: bytes a second, measured, through
//! bytes a token, which the figures of the same model's earlier answers tell. Bytes rather than
//! characters, because tokens of all scripts take about as many of them.
//!
//! Rule: nothing is guessed. Without an earlier answer, or before a second of text, there is none.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use transom_store::Message;

use crate::ending;

/// What "of late" means.
const WINDOW: Duration = Duration::from_secs(3);

/// Less text than that says little about a speed.
const LEAST_TIME: Duration = Duration::from_secs(1);

/// Fewer tokens than that say little about their length.
const LEAST_TOKENS: u64 = 30;

/// How long the tokens of each model are, as far as its answers told.
#[derive(Debug, Default)]
pub(super) struct TokenLengths(HashMap<String, Written>);

/// Bytes and the tokens that they were.
#[derive(Debug, Default, Clone, Copy)]
struct Written {
    n_bytes: u64,
    n_tokens: u64,
}

impl TokenLengths {
    /// Learns from an answer of `model` that is over.
    pub(super) fn learn(&mut self, model: &str, n_bytes: usize, n_tokens: u32) {
        let written = self.0.entry(model.to_owned()).or_default();
        written.n_bytes += n_bytes as u64;
        written.n_tokens += u64::from(n_tokens);
    }

    /// Bytes a token of `model`, from its answers here or else from those in `path`.
    pub(super) fn of(&self, model: &str, path: &[Message]) -> Option<f64> {
        let known = self.0.get(model).copied().unwrap_or_default();
        known.bytes_a_token().or_else(|| {
            let of_model = path
                .iter()
                .filter(|message| message.model.as_deref() == Some(model));
            let mut said = Written::default();
            for message in of_model {
                let Some(stats) = ending::stats_of(message) else {
                    continue;
                };
                said.n_bytes += (message.reasoning.len() + message.text.len()) as u64;
                said.n_tokens += u64::from(stats.generated_tokens);
            }
            said.bytes_a_token()
        })
    }
}

impl Written {
    fn bytes_a_token(self) -> Option<f64> {
        let is_enough = self.n_tokens >= LEAST_TOKENS && self.n_bytes > 0;
        is_enough.then(|| self.n_bytes as f64 / self.n_tokens as f64)
    }
}

/// The speed of one answer.
#[derive(Debug)]
pub(super) struct Speed {
    bytes_a_token: Option<f64>,
    /// When there were how many bytes; those of the window, and the last before it.
    seen: VecDeque<(Instant, usize)>,
}

impl Speed {
    /// Of an answer whose tokens are `bytes_a_token` long, if that is known.
    pub(super) fn new(bytes_a_token: Option<f64>) -> Self {
        Self {
            bytes_a_token,
            seen: VecDeque::new(),
        }
    }

    /// Tokens a second of late, where the answer has `n_bytes` at `now`.
    pub(super) fn at(&mut self, now: Instant, n_bytes: usize) -> Option<f32> {
        let bytes_a_token = self.bytes_a_token?;
        // Ten a second are plenty.
        let is_news = self
            .seen
            .back()
            .is_none_or(|(at, _)| now.duration_since(*at) >= WINDOW / 30);
        if is_news {
            self.seen.push_back((now, n_bytes));
        }
        while self
            .seen
            .get(1)
            .is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW)
        {
            self.seen.pop_front();
        }
        let (since, n_before) = *self.seen.front()?;
        let time = now.duration_since(since);
        let n_new = n_bytes.saturating_sub(n_before);
        (time >= LEAST_TIME).then(|| (n_new as f64 / bytes_a_token / time.as_secs_f64()) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: f64) -> Duration {
        Duration::from_secs_f64(n)
    }

    #[test]
    fn without_an_earlier_answer_there_is_no_speed() {
        let begin = Instant::now();
        let mut speed = Speed::new(TokenLengths::default().of("m", &[]));
        assert_eq!(speed.at(begin, 0), None);
        assert_eq!(speed.at(begin + second(2.0), 1000), None);
    }

    #[test]
    fn the_speed_is_that_of_the_last_seconds() {
        let mut lengths = TokenLengths::default();
        lengths.learn("m", 400, 100);
        let begin = Instant::now();
        let mut speed = Speed::new(lengths.of("m", &[]));
        let mut last = None;
        // Ten seconds at 10 tokens a second, then four at 40.
        let mut n_bytes = 0;
        for tick in 0..=140 {
            last = speed.at(begin + second(f64::from(tick) / 10.0), n_bytes);
            if tick == 5 {
                assert_eq!(last, None, "half a second says too little");
            }
            if tick == 100 {
                let of_slow = last.expect("there is a speed after a second");
                assert!((of_slow - 10.0).abs() < 0.5, "{of_slow}");
            }
            n_bytes += if tick < 100 { 4 } else { 16 };
        }
        let of_fast = last.expect("there is a speed after a second");
        assert!((of_fast - 40.0).abs() < 1.0, "{of_fast}");
        assert!(speed.seen.len() < 40, "{} samples", speed.seen.len());
    }

    #[test]
    fn a_few_tokens_say_nothing_about_their_length() {
        let mut lengths = TokenLengths::default();
        lengths.learn("m", 80, 20);
        assert_eq!(lengths.of("m", &[]), None);
        lengths.learn("m", 80, 20);
        assert_eq!(lengths.of("m", &[]), Some(4.0));
        assert_eq!(lengths.of("another", &[]), None);
    }
}
