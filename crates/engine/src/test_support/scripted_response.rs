//! A response of the scripted engine.

use std::collections::VecDeque;

use super::{Step, WEIGHT_BYTES};
use crate::contract::{Limits, TokenSink};
use crate::error::EngineError;
use crate::event::{FinishReason, Stats, TokenEvent};
use crate::generation::ResponseText;
use crate::job_control::JobControl;
use crate::logprobs::{Logprob, TokenLogprobs};
use crate::request::{ConversationId, GenerationParams, PreparedPrompt};

pub(super) struct ScriptedResponse {
    steps: VecDeque<Step>,
    pub(super) prompt_tokens: Vec<u32>,
    pub(super) conversation: Option<ConversationId>,
    pub(super) stats: Stats,
    control: JobControl,
    text: ResponseText,
    n_top: Option<u8>,
    max_tokens: usize,
    chunk: usize,
    dropped_messages: usize,
    is_started: bool,
    /// Number of tokens of the prompt that are processed.
    done: usize,
}

impl ScriptedResponse {
    pub(super) fn new(
        steps: Vec<Step>,
        prompt: &PreparedPrompt,
        params: &GenerationParams,
        control: &JobControl,
        limits: &Limits,
    ) -> Self {
        let free = limits.context_length - prompt.tokens.len();
        let chunk = params.prefill_chunk.unwrap_or(limits.prefill_chunk);
        let (open, tools) = (prompt.starts_in_reasoning, prompt.tools.clone());
        Self {
            steps: steps.into(),
            prompt_tokens: prompt.tokens.clone(),
            conversation: params.conversation,
            stats: Stats {
                prompt_tokens: prompt.tokens.len(),
                peak_memory_bytes: WEIGHT_BYTES,
                ..Stats::default()
            },
            control: control.clone(),
            text: ResponseText::new(&params.stop, open, tools),
            n_top: params.logprobs,
            max_tokens: params.max_tokens.unwrap_or(free).min(free),
            chunk: chunk.min(limits.prefill_chunk).max(1),
            dropped_messages: prompt.dropped_messages,
            is_started: false,
            done: 0,
        }
    }

    pub(super) fn with_cached(mut self, cached_tokens: usize) -> Self {
        self.stats.cached_tokens = cached_tokens;
        self
    }

    /// Processes a chunk of the prompt, or a step of the script. Returns the reason at the end.
    pub(super) fn step(
        &mut self,
        sink: &mut dyn TokenSink,
    ) -> Result<Option<FinishReason>, EngineError> {
        let total = self.stats.prompt_tokens;
        if !self.is_started {
            self.is_started = true;
            sink.on_event(TokenEvent::Started {
                prompt_tokens: total,
                cached_tokens: self.stats.cached_tokens,
                dropped_messages: self.dropped_messages,
                unconstrained_tools: Vec::new(),
            });
        }
        let reason = match self.control.stop_reason() {
            Some(reason) => Some(reason),
            None if self.done < total => {
                self.done = total.min(self.done + self.chunk);
                let done = self.done;
                sink.on_event(TokenEvent::Prefill { done, total });
                None
            }
            None => self.decode(sink)?,
        };
        if let Some(reason) = reason {
            self.text.finish(reason, self.stats.generated_tokens, sink);
            self.stats.matched_stop = self.text.matched_stop();
        }
        Ok(reason)
    }

    fn decode(&mut self, sink: &mut dyn TokenSink) -> Result<Option<FinishReason>, EngineError> {
        match self.steps.pop_front() {
            None => return Ok(Some(FinishReason::Stop)),
            Some(Step::Fail(error)) => return Err(error),
            Some(Step::Call(call)) => call(),
            Some(Step::Token(bytes)) => {
                let stats = &mut self.stats;
                stats.generated_tokens += 1;
                let logprobs = self.n_top.map(|n_top| logprobs(&bytes, n_top));
                if self
                    .text
                    .push(&bytes, logprobs, stats.generated_tokens, sink)
                {
                    return Ok(Some(FinishReason::Stop));
                }
                if stats.generated_tokens == self.max_tokens {
                    return Ok(Some(FinishReason::Length));
                }
                // In the same step, so that a stop cannot end the response before the call.
                let is_call = |step: &mut Step| matches!(step, Step::Call(_));
                if let Some(Step::Call(call)) = self.steps.pop_front_if(is_call) {
                    call();
                }
            }
        }
        Ok(None)
    }
}

/// Returns the log probabilities of a scripted token: it has `e^-0.5`, and the next most likely
/// tokens are those after it in the alphabet, each one `e` times less likely.
fn logprobs(bytes: &[u8], n_top: u8) -> TokenLogprobs {
    let first = bytes.first().copied().unwrap_or_default();
    let alternative = |n: u8| Logprob {
        token: first.wrapping_add(n).into(),
        bytes: match n {
            0 => bytes.to_vec(),
            _ => vec![first.wrapping_add(n)],
        },
        logprob: -0.5 - f32::from(n),
    };
    TokenLogprobs {
        chosen: alternative(0),
        top: (0..n_top).map(alternative).collect(),
    }
}
