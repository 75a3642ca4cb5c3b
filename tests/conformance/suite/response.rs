//! A response, which is checked against the contract of events and statistics.

use transom_engine::{
    EngineError, FinishReason, Section, Stats, TokenEvent, TokenLogprobs, ToolCallDelta,
};
use transom_engine_host::wire::{JobSummary, Request};

/// The events and the result of a request.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) started: Option<Started>,
    /// Prompt tokens done, from each report of prefill progress.
    pub(crate) prefill: Vec<usize>,
    /// The texts in order.
    pub(crate) pieces: Vec<(Section, String)>,
    /// The tool calls in order.
    pub(crate) calls: Vec<Call>,
    /// The log probabilities of its tokens.
    pub(crate) logprobs: Vec<TokenLogprobs>,
    /// The token count of the last text.
    generated_tokens: usize,
    pub(crate) result: Result<JobSummary, EngineError>,
}

/// A tool call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// The JSON of its arguments.
    pub(crate) arguments: String,
    pub(crate) is_complete: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Started {
    pub(crate) prompt_tokens: usize,
    pub(crate) cached_tokens: usize,
    pub(crate) dropped_messages: usize,
}

impl Response {
    /// Creates a response from the events of a job and checks all that the contract says of them.
    /// Their order is `Started`, `Prefill`*, `Text`*.
    pub(crate) fn checked(
        request: &Request,
        events: Vec<TokenEvent>,
        result: Result<JobSummary, EngineError>,
    ) -> Self {
        let mut response = Self {
            started: None,
            prefill: Vec::new(),
            pieces: Vec::new(),
            calls: Vec::new(),
            logprobs: Vec::new(),
            generated_tokens: 0,
            result,
        };
        let log = format!("{events:?}");
        for event in events {
            response.add_event(event, &log);
        }
        match &response.result {
            Ok(summary) => response.check_end(request, summary),
            Err(
                EngineError::InvalidParameter { .. }
                | EngineError::EmptyPrompt
                | EngineError::PromptTooLong { .. }
                | EngineError::InvalidConstraint { .. }
                | EngineError::Template { .. },
            ) => assert!(
                response.started.is_none(),
                "work began before the request was refused: {log}"
            ),
            Err(_) => {}
        }
        response
    }

    fn add_event(&mut self, event: TokenEvent, log: &str) {
        match event {
            TokenEvent::Started {
                prompt_tokens,
                cached_tokens,
                dropped_messages,
                ..
            } => {
                assert!(self.started.is_none(), "it started twice: {log}");
                assert!(cached_tokens < prompt_tokens, "nothing to prefill: {log}");
                self.started = Some(Started {
                    prompt_tokens,
                    cached_tokens,
                    dropped_messages,
                });
            }
            TokenEvent::Prefill { done, total } => {
                let started = self.started.expect("a start comes before prefill");
                assert!(self.pieces.is_empty(), "prefill after text: {log}");
                let before = self.prefill.last().copied();
                assert!(
                    done > before.unwrap_or(started.cached_tokens),
                    "no prefill progress: {log}"
                );
                assert!(done <= total && total == started.prompt_tokens, "{log}");
                self.prefill.push(done);
            }
            TokenEvent::ToolCall {
                index,
                delta,
                generated_tokens,
            } => {
                assert!(self.started.is_some(), "a call before the start: {log}");
                assert!(generated_tokens >= self.generated_tokens, "{log}");
                self.generated_tokens = generated_tokens;
                self.add_call(index, delta, log);
            }
            TokenEvent::Text {
                section,
                text,
                generated_tokens,
                logprobs,
            } => {
                assert!(self.started.is_some(), "text before the start: {log}");
                assert!(!text.is_empty(), "an empty text: {log}");
                let is_back = section == Section::Reasoning
                    && matches!(self.pieces.last(), Some((Section::Answer, _)));
                assert!(!is_back, "reasoning after the answer: {log}");
                assert!(generated_tokens > 0, "text without a token: {log}");
                assert!(
                    generated_tokens >= self.generated_tokens,
                    "the count of tokens went back: {log}"
                );
                self.generated_tokens = generated_tokens;
                self.pieces.push((section, text));
                self.logprobs.extend(logprobs);
            }
            TokenEvent::Pieces { .. } => panic!("a response has no pieces: {log}"),
            TokenEvent::Finished { .. } => panic!("only the summary may report the end: {log}"),
        }
    }

    fn add_call(&mut self, index: usize, delta: ToolCallDelta, log: &str) {
        if let ToolCallDelta::Begin { id, name } = delta {
            assert!(!id.is_empty(), "a call without an id: {log}");
            assert_eq!(index, self.calls.len(), "calls are numbered: {log}");
            assert!(
                self.calls.last().is_none_or(|call| call.is_complete),
                "{log}"
            );
            self.calls.push(Call {
                name,
                arguments: String::new(),
                is_complete: false,
            });
            return;
        }
        let call = self.calls.get_mut(index).expect("it began");
        assert!(!call.is_complete, "a call goes on after its end: {log}");
        match delta {
            ToolCallDelta::Arguments(json) => call.arguments.push_str(&json),
            _ => call.is_complete = true,
        }
    }

    fn check_end(&self, request: &Request, summary: &JobSummary) {
        let stats = summary.stats;
        let is_stopped = matches!(summary.reason, FinishReason::Canceled | FinishReason::Shed);
        let Some(started) = self.started else {
            assert!(is_stopped, "no start, yet {:?}", summary.reason);
            assert_eq!(
                stats,
                Stats::default(),
                "statistics of a job that never started"
            );
            return;
        };
        assert_eq!(stats.prompt_tokens, started.prompt_tokens);
        assert_eq!(stats.cached_tokens, started.cached_tokens);
        assert!(self.generated_tokens <= stats.generated_tokens, "{stats:?}");
        assert!(stats.accepted_tokens <= stats.drafted_tokens, "{stats:?}");
        assert!(stats.accepted_tokens <= stats.generated_tokens, "{stats:?}");
        if request.params.logprobs.is_none() {
            assert!(self.logprobs.is_empty(), "nobody asked for them");
        }
        if !request.params.may_speculate() {
            assert_eq!(
                stats.drafted_tokens, 0,
                "speculative decoding although it is off"
            );
        }
        if !request.params.shift_context {
            assert_eq!(
                stats.shifted_tokens, 0,
                "a context shift although it is off"
            );
        }
        if let Some(max_tokens) = request.params.max_tokens {
            assert!(stats.generated_tokens <= max_tokens, "{stats:?}");
        }
        if !is_stopped {
            let last = self.prefill.last();
            assert_eq!(
                last,
                Some(&started.prompt_tokens),
                "the last prefill progress"
            );
        }
        if stats.generated_tokens > 0 {
            assert!(stats.prefill_time <= stats.time_to_first_token, "{stats:?}");
        }
        assert!(
            stats.peak_memory_bytes <= summary.memory.peak_bytes,
            "a peak above the peak since the load: {summary:?}"
        );
    }

    /// Returns the summary. Panics if the request failed.
    pub(crate) fn summary(&self) -> JobSummary {
        match &self.result {
            Ok(summary) => *summary,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the error. Panics if the request did not fail.
    pub(crate) fn error(&self) -> &EngineError {
        match &self.result {
            Err(error) => error,
            Ok(summary) => panic!("generated {:?}: {summary:?}", self.full_text()),
        }
    }

    pub(crate) fn reason(&self) -> FinishReason {
        self.summary().reason
    }

    pub(crate) fn stats(&self) -> Stats {
        self.summary().stats
    }

    /// Returns the start event. Panics if there was none.
    pub(crate) fn started(&self) -> Started {
        self.started.expect("it started")
    }

    /// Returns the text of a section.
    pub(crate) fn section(&self, requested: Section) -> String {
        let pieces = self
            .pieces
            .iter()
            .filter(|(section, _)| *section == requested);
        pieces.map(|(_, text)| text.as_str()).collect()
    }

    /// Returns the text of the answer, without reasoning.
    pub(crate) fn text(&self) -> String {
        self.section(Section::Answer)
    }

    /// Returns reasoning in brackets, followed by the answer.
    pub(crate) fn full_text(&self) -> String {
        let reasoning = self.section(Section::Reasoning);
        match reasoning.is_empty() {
            true => self.text(),
            false => format!("[{reasoning}]{}", self.text()),
        }
    }
}
