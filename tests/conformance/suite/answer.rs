//! One answer, held against the contract of events and figures.

use transom_engine::{EngineError, FinishReason, Section, Stats, TokenEvent};
use transom_engine_host::wire::{JobSummary, Request};

/// What was said to one ask.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) started: Option<Started>,
    /// Prompt tokens done, as prefill reported them.
    pub(crate) prefill: Vec<usize>,
    /// Texts as they came.
    pub(crate) pieces: Vec<(Section, String)>,
    /// Tokens that the last of them told of.
    generated_tokens: usize,
    pub(crate) result: Result<JobSummary, EngineError>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Started {
    pub(crate) prompt_tokens: usize,
    pub(crate) cached_tokens: usize,
    pub(crate) dropped_messages: usize,
}

impl Answer {
    /// Takes the events of a job in, in the order `Started`, `Prefill`*, `Text`*, and checks all
    /// that the contract says of them.
    pub(crate) fn checked(
        request: &Request,
        events: Vec<TokenEvent>,
        result: Result<JobSummary, EngineError>,
    ) -> Self {
        let mut answer = Self {
            started: None,
            prefill: Vec::new(),
            pieces: Vec::new(),
            generated_tokens: 0,
            result,
        };
        let was = format!("{events:?}");
        for event in events {
            answer.take(event, &was);
        }
        match &answer.result {
            Ok(summary) => answer.check_end(request, summary),
            Err(
                EngineError::InvalidParameter { .. }
                | EngineError::EmptyPrompt
                | EngineError::PromptTooLong { .. }
                | EngineError::Template { .. },
            ) => assert!(
                answer.started.is_none(),
                "work began before it was refused: {was}"
            ),
            Err(_) => {}
        }
        answer
    }

    fn take(&mut self, event: TokenEvent, was: &str) {
        match event {
            TokenEvent::Started {
                prompt_tokens,
                cached_tokens,
                dropped_messages,
            } => {
                assert!(self.started.is_none(), "it started twice: {was}");
                assert!(cached_tokens < prompt_tokens, "nothing to prefill: {was}");
                self.started = Some(Started {
                    prompt_tokens,
                    cached_tokens,
                    dropped_messages,
                });
            }
            TokenEvent::Prefill { done, total } => {
                let started = self.started.expect("a start comes before prefill");
                assert!(self.pieces.is_empty(), "prefill after text: {was}");
                let before = self.prefill.last().copied();
                assert!(
                    done > before.unwrap_or(started.cached_tokens),
                    "prefill stands still: {was}"
                );
                assert!(done <= total && total == started.prompt_tokens, "{was}");
                self.prefill.push(done);
            }
            TokenEvent::Text {
                section,
                text,
                generated_tokens,
            } => {
                assert!(self.started.is_some(), "text before the start: {was}");
                assert!(!text.is_empty(), "an empty text: {was}");
                let is_back = section == Section::Reasoning
                    && matches!(self.pieces.last(), Some((Section::Answer, _)));
                assert!(!is_back, "reasoning after the answer: {was}");
                assert!(generated_tokens > 0, "text of no token: {was}");
                assert!(
                    generated_tokens >= self.generated_tokens,
                    "the count of tokens went back: {was}"
                );
                self.generated_tokens = generated_tokens;
                self.pieces.push((section, text));
            }
            TokenEvent::Finished { .. } => panic!("the end is told by the summary: {was}"),
        }
    }

    fn check_end(&self, request: &Request, summary: &JobSummary) {
        let stats = summary.stats;
        let is_stopped = matches!(summary.reason, FinishReason::Canceled | FinishReason::Shed);
        let Some(started) = self.started else {
            assert!(is_stopped, "no start, yet {:?}", summary.reason);
            assert_eq!(stats, Stats::default(), "figures of a job that never began");
            return;
        };
        assert_eq!(stats.prompt_tokens, started.prompt_tokens);
        assert_eq!(stats.cached_tokens, started.cached_tokens);
        assert!(self.generated_tokens <= stats.generated_tokens, "{stats:?}");
        assert!(stats.accepted_tokens <= stats.drafted_tokens, "{stats:?}");
        assert!(stats.accepted_tokens <= stats.generated_tokens, "{stats:?}");
        if !request.params.speculate {
            assert_eq!(stats.drafted_tokens, 0, "it guessed though told not to");
        }
        if !request.params.shift_context {
            assert_eq!(stats.shifted_tokens, 0, "it forgot though told not to");
        }
        if let Some(max_tokens) = request.params.max_tokens {
            assert!(stats.generated_tokens <= max_tokens, "{stats:?}");
        }
        if !is_stopped {
            let last = self.prefill.last();
            assert_eq!(last, Some(&started.prompt_tokens), "prefill's last word");
        }
        if stats.generated_tokens > 0 {
            assert!(stats.prefill_time <= stats.time_to_first_token, "{stats:?}");
        }
        assert!(stats.peak_memory_bytes > 0);
        assert!(
            stats.peak_memory_bytes <= summary.memory.peak_bytes,
            "an answer above the peak since the load: {summary:?}"
        );
    }

    /// How it ended; it must not have failed.
    pub(crate) fn summary(&self) -> JobSummary {
        match &self.result {
            Ok(summary) => *summary,
            Err(error) => panic!("{error}"),
        }
    }

    /// How it failed; it must have.
    pub(crate) fn error(&self) -> &EngineError {
        match &self.result {
            Err(error) => error,
            Ok(summary) => panic!("answered {:?}: {summary:?}", self.everything()),
        }
    }

    pub(crate) fn reason(&self) -> FinishReason {
        self.summary().reason
    }

    pub(crate) fn stats(&self) -> Stats {
        self.summary().stats
    }

    /// The start, which must have come.
    pub(crate) fn started(&self) -> Started {
        self.started.expect("it started")
    }

    /// The text of one section.
    pub(crate) fn section(&self, wanted: Section) -> String {
        let pieces = self.pieces.iter().filter(|(section, _)| *section == wanted);
        pieces.map(|(_, text)| text.as_str()).collect()
    }

    /// The text of the answer proper.
    pub(crate) fn text(&self) -> String {
        self.section(Section::Answer)
    }

    /// Reasoning and answer, told apart.
    pub(crate) fn everything(&self) -> String {
        let reasoning = self.section(Section::Reasoning);
        match reasoning.is_empty() {
            true => self.text(),
            false => format!("[{reasoning}]{}", self.text()),
        }
    }
}
