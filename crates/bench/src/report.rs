//! The results: tokens and times of each case.
//!
//! Rule: the field names are an interface, because programs read them as JSON.

use std::time::Duration;

use serde::Serialize;
use transom_engine::{ModelInfo, Stats, serde_seconds};

/// The results of one model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Name of the model.
    pub model: String,
    /// The engine that runs it.
    pub engine: String,
    /// The format of the weights in the files.
    pub stored_as: String,
    /// How the engine computes with the weights.
    pub computed_as: String,
    /// Number of tokens in the context.
    pub context_length: usize,
    /// Approximate number of tokens of a long prompt.
    pub prompt_tokens: usize,
    /// One result for each of [`CaseKind::ALL`], in that order.
    pub cases: Vec<Case>,
}

impl Report {
    pub(crate) fn new(info: &ModelInfo, prompt_tokens: usize, cases: Vec<Case>) -> Self {
        Self {
            model: info.name.clone(),
            engine: info.engine.clone(),
            stored_as: info.stored_as.clone(),
            computed_as: info.computed_as.clone(),
            context_length: info.context_length,
            prompt_tokens,
            cases,
        }
    }
}

/// What happens before the measured turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseKind {
    /// Only the first turn.
    SecondTurn,
    /// The first turn, and another conversation of the same length.
    Switch,
    /// Another conversation with the same long system prompt. The measured turn begins a new one.
    SharedSystemPrompt,
    /// Four turns. The measured turn replaces the last question.
    EditLastQuestion,
    /// Four turns. The measured turn replaces the second question and what followed it.
    EditEarlierQuestion,
    /// The first turn, and the supervisor has unloaded the idle model.
    IdleUnload,
    /// The first turn, another conversation of the same length, and the supervisor has unloaded the
    /// idle model.
    SwitchAndUnload,
    /// The first turn, and the user has paused and resumed, which starts a new model process.
    PauseAndResume,
    /// The first turn, and the supervisor has quit and another one has started.
    Restart,
    /// A conversation that fills the context. Ten turns are measured, from the first one that
    /// drops messages.
    Overflow,
}

impl CaseKind {
    /// All cases, in the order in which they are measured.
    pub const ALL: [Self; 10] = [
        Self::SecondTurn,
        Self::Switch,
        Self::SharedSystemPrompt,
        Self::EditLastQuestion,
        Self::EditEarlierQuestion,
        Self::IdleUnload,
        Self::SwitchAndUnload,
        Self::PauseAndResume,
        Self::Restart,
        Self::Overflow,
    ];
}

/// The result of one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Case {
    /// The case.
    pub case: CaseKind,
    /// Time to first token of the measured turns, their mean. Does not include a load.
    #[serde(rename = "ttft_seconds", with = "serde_seconds")]
    pub ttft: Duration,
    /// Time to first token of a cold read of the last measured prompt.
    #[serde(rename = "cold_ttft_seconds", with = "serde_seconds")]
    pub cold_ttft: Duration,
    /// `ttft` divided by `cold_ttft`.
    pub ratio: f64,
    /// Prompt tokens that no earlier turn contained, in all measured turns.
    pub new_tokens: usize,
    /// Prompt tokens that an earlier turn contained and that were read again, in all measured
    /// turns.
    pub reread_tokens: usize,
    /// Number of measured turns that read more than 30 % of their prompt again.
    pub n_turns_reread: usize,
    /// Bytes written for saved KV caches.
    pub written_bytes: u64,
    /// Peak memory of the engine since the model was loaded; `None` if it is not known.
    pub peak_memory_bytes: Option<u64>,
    /// How long the model took to load again; `None` if it stayed loaded.
    #[serde(rename = "load_time_seconds", with = "serde_seconds::option")]
    pub load_time: Option<Duration>,
    /// The measured turns.
    pub turns: Vec<Turn>,
}

impl Case {
    /// Summarizes the measured turns, of which there is at least one. `cold` is the cold read.
    pub(crate) fn new(
        case: CaseKind,
        turns: Vec<Turn>,
        cold: &Stats,
        written_bytes: u64,
        load_time: Option<Duration>,
    ) -> Self {
        let sum = |count: fn(&Turn) -> usize| -> usize { turns.iter().map(count).sum() };
        let total: Duration = turns.iter().map(|turn| turn.ttft).sum();
        let ttft = total / u32::try_from(turns.len()).unwrap_or(u32::MAX).max(1);
        let cold_ttft = cold.time_to_first_token;
        let peaks = turns.iter().map(|turn| turn.peak_memory_bytes);
        Self {
            case,
            ttft,
            cold_ttft,
            ratio: ttft.as_secs_f64() / cold_ttft.as_secs_f64().max(f64::MIN_POSITIVE),
            new_tokens: sum(|turn| turn.new_tokens),
            reread_tokens: sum(|turn| turn.reread_tokens),
            n_turns_reread: turns.iter().filter(|turn| turn.is_reread()).count(),
            written_bytes,
            peak_memory_bytes: peaks.max().filter(|bytes| *bytes > 0),
            load_time,
            turns,
        }
    }
}

/// A measured turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Turn {
    /// Number of tokens in the prompt.
    pub prompt_tokens: usize,
    /// How many of them were in the KV cache.
    pub cached_tokens: usize,
    /// How many of them no earlier turn contained.
    pub new_tokens: usize,
    /// How many of the others were not in the KV cache.
    pub reread_tokens: usize,
    /// Time to first token.
    #[serde(rename = "ttft_seconds", with = "serde_seconds")]
    pub ttft: Duration,
    /// Peak memory of the engine in bytes since the model was loaded; 0 if it is not known.
    pub peak_memory_bytes: u64,
}

impl Turn {
    /// Returns the turn with these statistics. Earlier turns contained `known_tokens` of the prompt.
    pub(crate) fn new(stats: &Stats, known_tokens: usize) -> Self {
        let known_tokens = known_tokens.min(stats.prompt_tokens);
        Self {
            prompt_tokens: stats.prompt_tokens,
            cached_tokens: stats.cached_tokens,
            new_tokens: stats.prompt_tokens - known_tokens,
            reread_tokens: known_tokens.saturating_sub(stats.cached_tokens),
            ttft: stats.time_to_first_token,
            peak_memory_bytes: stats.peak_memory_bytes,
        }
    }

    /// Returns true if the turn read more than 30 % of its prompt again.
    pub fn is_reread(&self) -> bool {
        self.reread_tokens * 10 > self.prompt_tokens * 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(prompt_tokens: usize, cached_tokens: usize, milliseconds: u64) -> Stats {
        Stats {
            prompt_tokens,
            cached_tokens,
            time_to_first_token: Duration::from_millis(milliseconds),
            ..Stats::default()
        }
    }

    #[test]
    fn tokens_are_new_or_cached_or_read_again() {
        let check = |cached, known, expected: (usize, usize, bool)| {
            let turn = Turn::new(&stats(100, cached, 1), known);
            let found = (turn.new_tokens, turn.reread_tokens, turn.is_reread());
            assert_eq!(found, expected, "{cached} cached, {known} known");
        };
        check(0, 0, (100, 0, false));
        check(80, 80, (20, 0, false));
        check(50, 80, (20, 30, false));
        check(49, 80, (20, 31, true));
        check(0, 80, (20, 80, true));
        check(82, 80, (20, 0, false));
        check(0, 120, (0, 100, true));
    }

    #[test]
    fn a_case_adds_its_turns_and_compares_their_mean_with_the_cold_read() {
        let turns = vec![
            Turn::new(&stats(100, 90, 10), 95),
            Turn::new(&stats(120, 0, 50), 100),
        ];
        let case = Case::new(CaseKind::Overflow, turns, &stats(120, 0, 60), 7, None);
        assert_eq!((case.new_tokens, case.reread_tokens), (25, 105));
        assert_eq!(case.n_turns_reread, 1);
        assert_eq!((case.ttft, case.ratio), (Duration::from_millis(30), 0.5));
        assert_eq!((case.written_bytes, case.peak_memory_bytes), (7, None));
    }
}
