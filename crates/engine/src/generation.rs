//! The generation loop: prefill, then one token after another, with text and statistics.
//!
//! Both engines run this loop around their own decoder, so order, finish reasons and counts are the
//! same.
//! Rule: none of a response's work is running when its end is reported.

mod response_text;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::constraint::{Constraint, ConstraintCheck, Constraints, ResponseConstraint, TokenTable};
use crate::contract::TokenSink;
use crate::error::EngineError;
use crate::event::{FinishReason, Stats, TokenEvent};
use crate::job_control::JobControl;
use crate::logprobs::Scores;
use crate::request::{GenerationParams, PreparedPrompt};

pub(crate) use response_text::ResponseText;

/// Tokens at the end of a prompt that open the response (transformers' "generation prompt"). The next
/// prompt may have other tokens in their place: a template does not repeat an opened reasoning section.
pub const OPENING_TOKENS: usize = 8;

/// Returns the number of tokens that both start with.
pub fn common_prefix_len(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Computes the tokens of one response. Dropping it waits until the device is idle.
pub trait Decode {
    /// Returns how many tokens of the prompt were in the KV cache.
    fn n_cached(&self) -> usize;

    /// Returns true if a layer has a recurrent state, which rewinds only to checkpoints.
    fn is_recurrent(&self) -> bool;

    /// Saves a checkpoint of this position, if the KV cache cannot rewind to every position.
    fn add_checkpoint(&mut self);

    /// Processes these tokens of the prompt. After the last ones, the next token is known. Returns
    /// false if the job was stopped before they were processed.
    fn prefill_step(
        &mut self,
        tokens: &[u32],
        is_last: bool,
        control: &JobControl,
    ) -> Result<bool, EngineError>;

    /// Processes the rest of `prompt` in steps of at most `prefill_chunk` tokens. Calls `on_progress` with
    /// the decoder and the number of processed tokens after each step. Returns early if the job is
    /// stopped.
    fn prefill(
        &mut self,
        prompt: &[u32],
        prefill_chunk: usize,
        control: &JobControl,
        mut on_progress: impl FnMut(&mut Self, usize) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut done = self.n_cached();
        // If the user edits the new message, the next prompt rewinds to here. Another response to
        // the same message has no new message, so the earlier checkpoints stay.
        if prompt.len() > done + OPENING_TOKENS {
            self.add_checkpoint();
        }
        // The end of the user's message: another response, and a next prompt without the reasoning,
        // rewind to here. The next token overwrites a recurrent state, so a step ends here.
        let checkpoint = match self.is_recurrent() {
            true => prompt.len().saturating_sub(OPENING_TOKENS),
            false => prompt.len(),
        };
        while done < prompt.len() {
            // Checked before the step, because a queued step cannot be canceled.
            if control.is_stopped() {
                return Ok(());
            }
            let mut end = prompt.len().min(done + prefill_chunk.max(1));
            if done < checkpoint {
                end = end.min(checkpoint);
            }
            if !self.prefill_step(&prompt[done..end], end == prompt.len(), control)? {
                return Ok(());
            }
            if end == checkpoint {
                self.add_checkpoint();
            }
            done = end;
            on_progress(self, done)?;
        }
        Ok(())
    }

    /// Returns the next token. The caller needs at most `n_left` more tokens, including this one;
    /// at least one.
    fn next(&mut self, n_left: usize, control: &JobControl) -> Result<NextToken, EngineError>;

    /// Returns the scores of the token that [`Decode::next`] returned last, if the request asks for
    /// log probabilities.
    fn take_scores(&mut self) -> Option<Scores>;

    /// Adds what only the decoder knows: draft tokens, those that were accepted and returned to the
    /// caller, and tokens that context shifts dropped.
    fn add_counts(&self, _: &mut Stats) {}

    /// Returns unused buffers and the KV caches of other conversations to the system.
    fn release_spare_memory(&mut self);
}

/// Converts token ids to text, in order.
pub trait Detokenize {
    /// Returns true if this token ends the text.
    fn is_end(&self, token: u32) -> bool;

    /// Returns the bytes of the next token; possibly none, or part of a character.
    fn push(&mut self, token: u32) -> Cow<'_, [u8]>;

    /// Returns the bytes that `push` would return, and changes nothing.
    fn peek(&self, token: u32) -> Vec<u8>;
}

/// The result of [`Decode::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextToken {
    /// A token.
    Token(u32),
    /// The response matches its constraint, and nothing may follow.
    Complete,
    /// The context is full.
    ContextFull,
    /// The job was stopped.
    Stopped,
}

/// The sampled tokens of a response that the decoder has not returned yet, and the counts of its
/// draft tokens.
#[derive(Debug, Default)]
pub struct PendingTokens {
    tokens: VecDeque<u32>,
    n_drafted: usize,
    n_accepted: usize,
}

impl PendingTokens {
    /// Adds a token.
    pub fn push(&mut self, token: u32) {
        self.tokens.push_back(token);
    }

    /// Removes and returns the oldest token.
    pub fn pop(&mut self) -> Option<u32> {
        self.tokens.pop_front()
    }

    /// Returns true if all tokens were returned.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Records a draft of `n_drafted` tokens. The first `n_accepted` of them were added, and one
    /// token that was sampled after them.
    pub fn record_draft(&mut self, n_drafted: usize, n_accepted: usize) {
        self.n_drafted += n_drafted;
        self.n_accepted += n_accepted;
    }

    /// Adds the counts of draft tokens. Accepted ones that are still pending do not count: after a
    /// stop string the response has no more tokens.
    pub fn add_counts(&self, stats: &mut Stats) {
        // The last pending token was sampled after the draft.
        let n_unused = self.tokens.len().saturating_sub(1);
        stats.drafted_tokens = self.n_drafted;
        stats.accepted_tokens = self.n_accepted.saturating_sub(n_unused);
    }
}

impl PreparedPrompt {
    /// Returns what a response to this prompt must match: what the request asks for, or what its tools
    /// require.
    ///
    /// # Errors
    /// [`EngineError::InvalidParameter`] if the request has both a constraint and tools: a call would
    /// not match the constraint.
    fn constraint<'a>(
        &'a self,
        params: &'a GenerationParams,
    ) -> Result<Option<&'a Constraint>, EngineError> {
        match (&self.tools, &params.constraint) {
            (None, constraint) => Ok(constraint.as_ref()),
            (Some(tools), None) => Ok(tools.constraint()),
            (Some(_), Some(_)) => {
                let expected = "none: the tools may be called; forbid calls or leave one out";
                let error = EngineError::invalid_parameter("constraint", "one", expected);
                Err(error)
            }
        }
    }

    /// Begins to compile [`Self::constraint`], so that it is ready when the prompt is processed. `table`
    /// returns the tokens of the model; it is called for the first constraint of the model only.
    ///
    /// # Errors
    /// Those of [`Self::constraint`] and of [`Constraints::compile`].
    pub fn compile_constraint(
        &self,
        params: &GenerationParams,
        constraints: &mut Constraints,
        table: impl FnOnce() -> Result<TokenTable, EngineError>,
    ) -> Result<ResponseConstraint, EngineError> {
        let constraint = self.constraint(params)?;
        let is_text_start = !self.continues_message;
        constraints.compile(constraint, self.starts_in_reasoning, is_text_start, table)
    }
}

/// A generation to run.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The prompt.
    pub prompt: &'a PreparedPrompt,
    /// Valid parameters.
    pub params: &'a GenerationParams,
    /// Maximum number of generated tokens.
    pub max_tokens: usize,
    /// Maximum number of tokens per prefill step.
    pub prefill_chunk: usize,
    /// When the engine was called.
    pub start: Instant,
    /// The constraint that the decoder applies, while it is compiled.
    pub constraint: Option<&'a ConstraintCheck>,
}

/// Generates a response. Sends its tokens and all events but the last to `sink`. Returns the finish
/// reason and all statistics but the peak memory; the engine completes them and sends
/// [`TokenEvent::Finished`].
pub fn run<D: Decode>(
    job: Job<'_>,
    mut decoder: D,
    mut detokenizer: impl Detokenize,
    control: &JobControl,
    sink: &mut dyn TokenSink,
) -> Result<(FinishReason, Stats), EngineError> {
    let Job { prompt, params, .. } = job;
    let mut stats = Stats {
        prompt_tokens: prompt.tokens.len(),
        cached_tokens: decoder.n_cached(),
        ..Stats::default()
    };
    let started = TokenEvent::Started {
        prompt_tokens: stats.prompt_tokens,
        cached_tokens: stats.cached_tokens,
        dropped_messages: prompt.dropped_messages,
        unconstrained_tools: prompt
            .tools
            .as_ref()
            .map_or_else(Vec::new, |tools| tools.unconstrained().to_vec()),
    };
    // An invalid constraint is an error before the first event.
    let is_valid = || job.constraint.map_or(Ok(true), ConstraintCheck::poll);
    let mut started = Some(started);
    let mut start = |sink: &mut dyn TokenSink| {
        if let Some(event) = started.take() {
            sink.on_event(event);
        }
    };
    if is_valid()? {
        start(sink);
    }
    let total = stats.prompt_tokens;
    let prefill_chunk = job.prefill_chunk;
    decoder.prefill(&prompt.tokens, prefill_chunk, control, |decoder, done| {
        trim_if_requested(decoder, control);
        if is_valid()? {
            start(sink);
            sink.on_event(TokenEvent::Prefill { done, total });
        }
        Ok(())
    })?;
    start(sink);
    stats.prefill_time = job.start.elapsed();
    if prompt.continues_message
        && let Some(token) = prompt.tokens.last()
    {
        // Tokenizers that begin words with a space drop it at the start of a text.
        detokenizer.push(*token);
    }
    let mut last_token = Duration::ZERO;
    let tools = prompt.tools.clone();
    let mut text = ResponseText::new(&params.stop, prompt.starts_in_reasoning, tools);
    let reason = loop {
        if let Some(reason) = control.stop_reason() {
            break reason;
        }
        if stats.generated_tokens == job.max_tokens {
            break FinishReason::Length;
        }
        trim_if_requested(&mut decoder, control);
        let n_left = job.max_tokens - stats.generated_tokens;
        let token = match decoder.next(n_left, control)? {
            NextToken::Token(token) => token,
            NextToken::Complete => break FinishReason::Stop,
            NextToken::ContextFull => break FinishReason::Length,
            NextToken::Stopped => break control.stop_reason().unwrap_or(FinishReason::Length),
        };
        last_token = job.start.elapsed();
        if stats.generated_tokens == 0 {
            stats.time_to_first_token = last_token;
        }
        sink.on_token(token);
        if detokenizer.is_end(token) && !params.ignore_end_of_text {
            break FinishReason::Stop;
        }
        stats.generated_tokens += 1;
        let scores = decoder.take_scores();
        let logprobs = scores.map(|scores| scores.with_bytes(|token| detokenizer.peek(token)));
        let marker = prompt.tools.as_ref().and_then(|tools| tools.marker(token));
        let bytes = match marker {
            // Other special tokens are no text.
            Some(marker) => Cow::Borrowed(marker.as_bytes()),
            None => detokenizer.push(token),
        };
        if text.push(&bytes, logprobs, stats.generated_tokens, sink) {
            break FinishReason::Stop;
        }
    };
    decoder.add_counts(&mut stats);
    // Waits until the device is idle, before the caller learns of the end.
    drop(decoder);
    text.finish(reason, stats.generated_tokens, sink);
    stats.matched_stop = text.matched_stop();
    stats.decode_time = last_token.saturating_sub(stats.time_to_first_token);
    Ok((reason, stats))
}

fn trim_if_requested(decoder: &mut impl Decode, control: &JobControl) {
    if control.take_trim_request() {
        decoder.release_spare_memory();
    }
}

#[cfg(test)]
mod tests;
