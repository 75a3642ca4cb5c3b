//! The events that a job reports while it runs. All engines report the same events.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::logprobs::TokenLogprobs;
use crate::token_pieces::TokenPiece;

/// An event of a running generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TokenEvent {
    /// The prompt was accepted.
    Started {
        /// Number of tokens in the prompt.
        prompt_tokens: usize,
        /// How many of them were in the KV cache.
        cached_tokens: usize,
        /// Number of messages that were dropped because they do not fit the context.
        #[serde(default)]
        dropped_messages: usize,
        /// Tools whose schemas cannot be held while decoding. Their arguments are any JSON object.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unconstrained_tools: Vec<String>,
    },
    /// Prefill progressed.
    Prefill {
        /// Prompt tokens processed, including cached ones.
        done: usize,
        /// All prompt tokens.
        total: usize,
    },
    /// New text of the response: complete characters, without stop strings and special tokens.
    Text {
        /// The section that this text belongs to.
        section: Section,
        /// Text to append; never empty.
        text: String,
        /// Tokens generated so far, including those of this text and those that gave no text yet.
        /// The difference between two events gives the speed.
        #[serde(default)]
        generated_tokens: usize,
        /// The log probabilities of the tokens whose text begins here, if the request asks for them
        /// ([`crate::GenerationParams::logprobs`]).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        logprobs: Vec<TokenLogprobs>,
    },
    /// A tool call of the response begins, continues or is complete. A call without
    /// [`ToolCallDelta::End`] was cut off, or is broken.
    ToolCall {
        /// The number of the call in this response, from 0. Calls come one after another.
        index: usize,
        /// What is new.
        delta: ToolCallDelta,
        /// As in [`TokenEvent::Text`].
        #[serde(default)]
        generated_tokens: usize,
    },
    /// The next tokens of [`crate::TokenInput`], in order. The job has no other events.
    Pieces {
        /// The tokens.
        pieces: Vec<TokenPiece>,
    },
    /// The response is complete. Always the last event.
    Finished {
        /// Why it ended.
        reason: FinishReason,
        /// Counts and times.
        stats: Stats,
    },
}

impl TokenEvent {
    /// Joins `next` to this event, for a slow reader: texts of a section without log probabilities, or
    /// arguments of a call, if they have at most `max_text_bytes` together, and prefill progress, of which the latest
    /// counts. Returns `next` if that would lose anything.
    pub fn join(&mut self, next: Self, max_text_bytes: usize) -> Option<Self> {
        match (self, next) {
            (
                Self::Text {
                    section,
                    text,
                    generated_tokens,
                    logprobs,
                },
                Self::Text {
                    section: next_section,
                    text: next_text,
                    generated_tokens: latest,
                    logprobs: next_logprobs,
                },
            ) if *section == next_section
                && text.len() + next_text.len() <= max_text_bytes
                && logprobs.is_empty()
                && next_logprobs.is_empty() =>
            {
                text.push_str(&next_text);
                *generated_tokens = latest;
            }
            (
                Self::ToolCall {
                    index,
                    delta: ToolCallDelta::Arguments(json),
                    generated_tokens,
                },
                Self::ToolCall {
                    index: next_index,
                    delta: ToolCallDelta::Arguments(next_json),
                    generated_tokens: latest,
                },
            ) if *index == next_index && json.len() + next_json.len() <= max_text_bytes => {
                json.push_str(&next_json);
                *generated_tokens = latest;
            }
            (last @ Self::Prefill { .. }, next @ Self::Prefill { .. }) => *last = next,
            (_, next) => return Some(next),
        }
        None
    }
}

/// What is new in a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallDelta {
    /// The call begins.
    Begin {
        /// Its id, which no other call has.
        id: String,
        /// The name of the tool, one of those of the request.
        name: String,
    },
    /// More of the arguments; never empty. All of them together are the text of a JSON object.
    Arguments(String),
    /// The call is complete.
    End,
}

/// A section of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// The model's reasoning (between `<think>` and `</think>`).
    Reasoning,
    /// The final answer.
    Answer,
}

/// Why a response ended. None of these is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model ended its response, or a stop string occurred ([`Stats::matched_stop`]).
    Stop,
    /// `max_tokens` or the context length was reached.
    Length,
    /// The caller canceled the job.
    Canceled,
    /// The machine was short of memory or too hot. The partial response is kept.
    Shed,
}

/// Counts and times of a response.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Number of tokens in the prompt.
    pub prompt_tokens: usize,
    /// How many of them were in the KV cache.
    pub cached_tokens: usize,
    /// Generated tokens, without the end-of-text token.
    pub generated_tokens: usize,
    /// Draft tokens of speculative decoding.
    #[serde(default)]
    pub drafted_tokens: usize,
    /// Accepted draft tokens; they also count as generated.
    #[serde(default)]
    pub accepted_tokens: usize,
    /// Tokens that context shifts dropped.
    #[serde(default)]
    pub shifted_tokens: usize,
    /// The stop string that ended the response: its index in [`crate::GenerationParams::stop`].
    /// `None` if the response ended otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched_stop: Option<usize>,
    /// Time from the call to the first generated token, including prefill.
    #[serde(rename = "time_to_first_token_seconds", with = "crate::serde_seconds")]
    pub time_to_first_token: Duration,
    /// Time in which the tokens that a constraint allows were computed; zero without a constraint. A GPU
    /// may compute a step meanwhile.
    #[serde(
        default,
        rename = "mask_time_seconds",
        with = "crate::serde_seconds",
        skip_serializing_if = "Duration::is_zero"
    )]
    pub mask_time: Duration,
    /// Time of prefill, which processed `prompt_tokens - cached_tokens` tokens.
    #[serde(rename = "prefill_time_seconds", with = "crate::serde_seconds")]
    pub prefill_time: Duration,
    /// Time from the first generated token to the last.
    #[serde(rename = "decode_time_seconds", with = "crate::serde_seconds")]
    pub decode_time: Duration,
    /// Peak memory of the engine in bytes since the start of the load; 0 if it is not known, as after
    /// several responses were generated at the same time.
    pub peak_memory_bytes: u64,
    /// Peak of the engine's memory in bytes from the start of this response to its first token, weights
    /// included; 0 if it is not known.
    #[serde(default)]
    pub prefill_peak_bytes: u64,
    /// The same, from the first token to the end.
    #[serde(default)]
    pub decode_peak_bytes: u64,
}

impl Stats {
    /// Returns the speed of prefill; `None` if nothing was processed.
    pub fn prefill_tokens_per_second(&self) -> Option<f64> {
        rate(
            self.prompt_tokens.saturating_sub(self.cached_tokens),
            self.prefill_time,
        )
    }

    /// Returns the speed of decoding after the first token; `None` for responses of fewer than two
    /// tokens.
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
    use crate::logprobs::Logprob;

    #[test]
    fn events_are_joined_only_without_loss() {
        let text = |section, text: &str, generated_tokens| TokenEvent::Text {
            section,
            text: text.to_owned(),
            generated_tokens,
            logprobs: Vec::new(),
        };
        let mut last = text(Section::Answer, "ab", 1);
        assert_eq!(last.join(text(Section::Answer, "c", 2), 3), None);
        assert_eq!(last, text(Section::Answer, "abc", 2));
        let too_long = text(Section::Answer, "d", 3);
        assert_eq!(last.join(too_long.clone(), 3), Some(too_long));
        let other = text(Section::Reasoning, "d", 3);
        assert_eq!(last.join(other.clone(), 9), Some(other));
        let chosen = Logprob {
            token: 1,
            bytes: b"d".to_vec(),
            logprob: -0.5,
        };
        let with_logprobs = TokenEvent::Text {
            section: Section::Answer,
            text: "d".to_owned(),
            generated_tokens: 3,
            logprobs: vec![TokenLogprobs {
                chosen,
                top: Vec::new(),
            }],
        };
        let next = with_logprobs.clone();
        assert_eq!(last.join(next, 9), Some(with_logprobs));
        let mut last = TokenEvent::Prefill { done: 1, total: 9 };
        let next = TokenEvent::Prefill { done: 5, total: 9 };
        assert_eq!(last.join(next.clone(), 0), None);
        assert_eq!(last, next);
    }

    #[test]
    fn durations_round_trip_as_seconds() {
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
