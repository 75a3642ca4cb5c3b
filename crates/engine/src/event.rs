//! What a job reports while it runs. One closed enum for every backend and every shell.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One step in the life of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TokenEvent {
    /// The prompt was accepted.
    Started {
        /// Tokens in the prompt.
        prompt_tokens: usize,
        /// Of these, tokens whose keys and values were still cached from an earlier turn.
        cached_tokens: usize,
        /// Messages at the start of the conversation that no longer fit and were left out.
        #[serde(default)]
        dropped_messages: usize,
    },
    /// Prefill went on.
    Prefill {
        /// Prompt tokens processed, cached ones included.
        done: usize,
        /// Prompt tokens in all.
        total: usize,
    },
    /// More of the answer: whole characters, free of stop strings and special tokens.
    Text {
        /// The section that this text belongs to.
        section: Section,
        /// Text to append; never empty.
        text: String,
        /// Tokens generated so far, those of this text included: of two events it tells the pace
        /// between them. Tokens that gave no text yet count as well.
        #[serde(default)]
        generated_tokens: usize,
    },
    /// The answer is complete. Always the last event.
    Finished {
        /// Why it ended.
        reason: FinishReason,
        /// What it took.
        stats: Stats,
    },
}

/// Part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// What the model thinks before it answers (between `<think>` and `</think>`).
    Reasoning,
    /// The answer proper.
    Answer,
}

/// Why an answer ended. None of these is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended its answer, or a stop string was met.
    Stop,
    /// `max_tokens` or the context length was reached.
    Length,
    /// The caller asked for it.
    Cancelled,
    /// The machine ran short of memory or got too hot; the partial answer stands.
    Shed,
}

/// What an answer took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Tokens in the prompt.
    pub prompt_tokens: usize,
    /// Of these, tokens taken from the prompt cache.
    pub cached_tokens: usize,
    /// Tokens generated, the end-of-text token not counted.
    pub generated_tokens: usize,
    /// Tokens that speculation guessed ahead.
    #[serde(default)]
    pub drafted_tokens: usize,
    /// Of these, tokens that the model agreed to; they count as generated.
    #[serde(default)]
    pub accepted_tokens: usize,
    /// Tokens that context shifts forgot.
    #[serde(default)]
    pub shifted_tokens: usize,
    /// From the call to the first generated token, prefill included.
    #[serde(rename = "time_to_first_token_seconds", with = "crate::seconds")]
    pub time_to_first_token: Duration,
    /// Time in prefill: `prompt_tokens - cached_tokens` tokens were processed in it.
    #[serde(rename = "prefill_time_seconds", with = "crate::seconds")]
    pub prefill_time: Duration,
    /// From the first generated token to the last.
    #[serde(rename = "decode_time_seconds", with = "crate::seconds")]
    pub decode_time: Duration,
    /// Highest memory use of the engine since the model began to load, in bytes.
    pub peak_memory_bytes: u64,
}

impl Stats {
    /// Prompt tokens processed a second; `None` where nothing was measured.
    pub fn prefill_tokens_per_second(&self) -> Option<f64> {
        rate(
            self.prompt_tokens.saturating_sub(self.cached_tokens),
            self.prefill_time,
        )
    }

    /// Tokens generated a second after the first; `None` for answers of fewer than two tokens.
    pub fn decode_tokens_per_second(&self) -> Option<f64> {
        rate(self.generated_tokens.saturating_sub(1), self.decode_time)
    }
}

fn rate(n_tokens: usize, time: Duration) -> Option<f64> {
    (n_tokens > 0 && !time.is_zero()).then(|| n_tokens as f64 / time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_on_the_wire_and_come_back_whole() {
        let stats = Stats {
            time_to_first_token: Duration::new(3, 123_456_789),
            decode_time: Duration::from_millis(250),
            ..Stats::default()
        };
        let json = serde_json::to_value(stats).unwrap();
        assert_eq!(json["decode_time_seconds"], 0.25);
        assert_eq!(serde_json::from_value::<Stats>(json).unwrap(), stats);
    }

    #[test]
    fn a_negative_time_is_refused() {
        let mut json = serde_json::to_value(Stats::default()).unwrap();
        json["prefill_time_seconds"] = (-1.0).into();
        assert!(serde_json::from_value::<Stats>(json).is_err());
    }
}
