//! One response, generated step by step.

use std::time::{Duration, Instant};

use super::{Decode, Detokenize, NextToken, OPENING_TOKENS, ResponseText};
use crate::constraint::ConstraintCheck;
use crate::contract::TokenSink;
use crate::error::EngineError;
use crate::event::{FinishReason, Stats, TokenEvent};
use crate::job_control::JobControl;
use crate::request::{GenerationParams, PreparedPrompt};

/// The response to generate.
#[derive(Debug)]
pub struct Job {
    /// The prompt.
    pub prompt: PreparedPrompt,
    /// Stops or trims the response.
    pub control: JobControl,
    /// Strings that end the response, as in [`GenerationParams`].
    pub stop: Vec<String>,
    /// As in [`GenerationParams`].
    pub ignore_end_of_text: bool,
    /// Maximum number of generated tokens.
    pub max_tokens: usize,
    /// Maximum number of tokens per prefill step.
    pub prefill_chunk: usize,
    /// When the engine was called.
    pub start: Instant,
    /// The constraint that the decoder applies, while it is compiled.
    pub constraint: Option<ConstraintCheck>,
}

/// A response that is generated step by step, so that its thread can work on others in between.
#[derive(Debug)]
pub struct Generation<D, T> {
    job: Job,
    decoder: D,
    detokenizer: T,
    prefill: Prefill,
    text: ResponseText,
    stats: Stats,
    /// The first event, until it is sent.
    started: Option<TokenEvent>,
    /// When the last token was known.
    last_token: Duration,
}

impl Job {
    /// Returns the job of a request.
    pub fn new(
        prompt: PreparedPrompt,
        params: &GenerationParams,
        control: &JobControl,
        start: Instant,
    ) -> Self {
        Self {
            max_tokens: params.max_tokens.unwrap_or(usize::MAX),
            prefill_chunk: params.prefill_chunk.unwrap_or(usize::MAX),
            prompt,
            control: control.clone(),
            stop: params.stop.clone(),
            ignore_end_of_text: params.ignore_end_of_text,
            start,
            constraint: None,
        }
    }
}

impl<D: Decode, T: Detokenize> Generation<D, T> {
    /// Prepares a response. `decoder` has reused what it can of the prompt.
    pub fn new(job: Job, mut decoder: D, detokenizer: T) -> Self {
        let prompt = &job.prompt;
        let tools = prompt.tools.as_ref();
        let stats = Stats {
            prompt_tokens: prompt.tokens.len(),
            cached_tokens: decoder.n_cached(),
            ..Stats::default()
        };
        let started = TokenEvent::Started {
            prompt_tokens: stats.prompt_tokens,
            cached_tokens: stats.cached_tokens,
            dropped_messages: prompt.dropped_messages,
            unconstrained_tools: tools
                .map_or_else(Vec::new, |tools| tools.unconstrained().to_vec()),
        };
        Self {
            prefill: match prompt.keeps_checkpoints {
                true => Prefill::without_checkpoints(&decoder, &prompt.tokens),
                false => Prefill::new(&mut decoder, &prompt.tokens),
            },
            text: ResponseText::new(&job.stop, prompt.starts_in_reasoning, prompt.tools.clone()),
            decoder,
            detokenizer,
            stats,
            started: Some(started),
            last_token: Duration::ZERO,
            job,
        }
    }

    /// Computes the next step, a part of the prompt or a token. Sends its tokens and all events but
    /// the last to `sink`. At the end, returns the finish reason and all statistics but the peak
    /// memory; the engine completes them and sends [`TokenEvent::Finished`]. After the end and after
    /// an error nothing of the response is running, and this is not called again.
    ///
    /// # Errors
    /// Those of the decoder and of the constraint.
    pub fn step(
        &mut self,
        sink: &mut dyn TokenSink,
    ) -> Result<Option<(FinishReason, Stats)>, EngineError> {
        match self.advance(sink) {
            Ok(None) => Ok(None),
            Ok(Some(reason)) => Ok(Some((reason, self.finish(reason, sink)))),
            Err(error) => {
                self.decoder.finish();
                Err(error)
            }
        }
    }

    /// Returns true if the next token waits for the compilation of the constraint. A step only waits
    /// for it then, and no longer than for a moment.
    pub fn is_waiting(&self) -> bool {
        let check = self.job.constraint.as_ref();
        self.prefill.is_done() && check.is_some_and(|check| check.poll() == Ok(false))
    }

    /// Replaces the check of the constraint.
    #[cfg(test)]
    pub(super) fn set_constraint(&mut self, check: ConstraintCheck) {
        self.job.constraint = Some(check);
    }

    /// Returns the decoder.
    pub fn decoder(&self) -> &D {
        &self.decoder
    }

    /// Returns the decoder, between two steps.
    pub fn decoder_mut(&mut self) -> &mut D {
        &mut self.decoder
    }

    /// Returns the decoder after the last step.
    pub fn into_decoder(self) -> D {
        self.decoder
    }

    fn advance(&mut self, sink: &mut dyn TokenSink) -> Result<Option<FinishReason>, EngineError> {
        match self.prefill.is_done() {
            true => self.decode(sink),
            false => self.read_prompt(sink).map(|()| None),
        }
    }

    fn read_prompt(&mut self, sink: &mut dyn TokenSink) -> Result<(), EngineError> {
        // An invalid constraint is an error before the first event.
        self.start_if_valid(sink)?;
        let Job {
            prompt,
            control,
            prefill_chunk,
            ..
        } = &self.job;
        let is_read =
            self.prefill
                .step(&mut self.decoder, &prompt.tokens, *prefill_chunk, control)?;
        if is_read {
            self.trim_if_requested();
            if self.start_if_valid(sink)? {
                self.send_progress(sink);
            }
        }
        if self.prefill.is_done() {
            self.stats.prefill_time = self.job.start.elapsed();
            if self.job.prompt.continues_message
                && let Some(token) = self.job.prompt.tokens.last()
            {
                // Tokenizers that begin words with a space drop it at the start of a text.
                self.detokenizer.push(*token);
            }
        }
        Ok(())
    }

    /// Takes the next token.
    fn decode(&mut self, sink: &mut dyn TokenSink) -> Result<Option<FinishReason>, EngineError> {
        let is_stopped = self.job.control.is_stopped();
        let check = self.job.constraint.as_ref().filter(|_| !is_stopped);
        if !check.map_or(Ok(true), ConstraintCheck::wait)? {
            return Ok(None);
        }
        // The constraint was compiled after the last part of the prompt was read.
        let is_late = self.started.is_some();
        self.send_started(sink);
        if is_late {
            self.send_progress(sink);
        }
        if let Some(reason) = self.job.control.stop_reason() {
            return Ok(Some(reason));
        }
        if self.stats.generated_tokens >= self.job.max_tokens {
            return Ok(Some(FinishReason::Length));
        }
        self.trim_if_requested();
        let control = &self.job.control;
        let n_left = self.job.max_tokens - self.stats.generated_tokens;
        let token = match self.decoder.next(n_left, control)? {
            NextToken::Token(token) => token,
            NextToken::Complete => return Ok(Some(FinishReason::Stop)),
            NextToken::ContextFull => return Ok(Some(FinishReason::Length)),
            NextToken::Stopped => {
                return Ok(Some(control.stop_reason().unwrap_or(FinishReason::Length)));
            }
        };
        self.last_token = self.job.start.elapsed();
        if self.stats.generated_tokens == 0 {
            self.stats.time_to_first_token = self.last_token;
        }
        sink.on_token(token);
        let detokenizer = &mut self.detokenizer;
        if detokenizer.is_end(token) && !self.job.ignore_end_of_text {
            return Ok(Some(FinishReason::Stop));
        }
        self.stats.generated_tokens += 1;
        let scores = self.decoder.take_scores();
        let logprobs = scores.map(|scores| scores.with_bytes(|token| detokenizer.peek(token)));
        let tools = self.job.prompt.tools.as_ref();
        let bytes = match tools.and_then(|tools| tools.marker(token)) {
            // Other special tokens are no text.
            Some(marker) => marker.as_bytes().into(),
            None => detokenizer.push(token),
        };
        let n_tokens = self.stats.generated_tokens;
        let is_stopped = self.text.push(&bytes, logprobs, n_tokens, sink);
        Ok(is_stopped.then_some(FinishReason::Stop))
    }

    fn finish(&mut self, reason: FinishReason, sink: &mut dyn TokenSink) -> Stats {
        self.decoder.add_counts(&mut self.stats);
        // Waits until the device is idle, before the caller learns of the end.
        self.decoder.finish();
        self.text.finish(reason, self.stats.generated_tokens, sink);
        self.stats.matched_stop = self.text.matched_stop();
        let to_first = self.stats.time_to_first_token;
        self.stats.decode_time = self.last_token.saturating_sub(to_first);
        self.stats
    }

    /// Sends the first event once the constraint is known to be valid, and returns true from then on.
    fn start_if_valid(&mut self, sink: &mut dyn TokenSink) -> Result<bool, EngineError> {
        let check = self.job.constraint.as_ref();
        let is_valid = check.map_or(Ok(true), ConstraintCheck::poll)?;
        if is_valid {
            self.send_started(sink);
        }
        Ok(is_valid)
    }

    fn send_started(&mut self, sink: &mut dyn TokenSink) {
        if let Some(event) = self.started.take() {
            sink.on_event(event);
        }
    }

    fn send_progress(&self, sink: &mut dyn TokenSink) {
        sink.on_event(TokenEvent::Prefill {
            done: self.prefill.done,
            total: self.stats.prompt_tokens,
        });
    }

    fn trim_if_requested(&mut self) {
        if self.job.control.take_trim_request() {
            self.decoder.release_spare_memory();
        }
    }
}

/// The prefill of a prompt, in steps.
#[derive(Debug)]
pub struct Prefill {
    /// Number of tokens that are processed.
    done: usize,
    /// Where a step ends, for a checkpoint, if one is saved.
    checkpoint: Option<usize>,
    /// Number of tokens to process.
    end: usize,
}

impl Prefill {
    /// Prepares the prefill of `prompt`, of which `decoder` has reused what it can.
    pub fn new(decoder: &mut impl Decode, prompt: &[u32]) -> Self {
        let done = decoder.n_cached();
        // If the user edits the new message, the next prompt rewinds to here. Another response to
        // the same message has no new message, so the earlier checkpoints stay.
        if prompt.len() > done + OPENING_TOKENS {
            decoder.add_checkpoint();
        }
        // The end of the user's message: another response, and a next prompt without the reasoning,
        // rewind to here. The next token overwrites a recurrent state, so a step ends here.
        let checkpoint = match decoder.is_recurrent() {
            true => prompt.len().saturating_sub(OPENING_TOKENS),
            false => prompt.len(),
        };
        Self {
            done,
            checkpoint: Some(checkpoint),
            end: prompt.len(),
        }
    }

    /// As [`Prefill::new`], but saves no checkpoints.
    pub fn without_checkpoints(decoder: &impl Decode, prompt: &[u32]) -> Self {
        Self {
            done: decoder.n_cached(),
            checkpoint: None,
            end: prompt.len(),
        }
    }

    /// Returns true after the last step, and after the job was stopped.
    pub fn is_done(&self) -> bool {
        self.done >= self.end
    }

    /// Processes at most `chunk` more tokens of `prompt`. Returns false if the job was stopped before
    /// they were processed; then the prefill is done.
    ///
    /// # Errors
    /// Those of the decoder.
    pub fn step(
        &mut self,
        decoder: &mut impl Decode,
        prompt: &[u32],
        chunk: usize,
        control: &JobControl,
    ) -> Result<bool, EngineError> {
        let mut end = prompt.len().min(self.done.saturating_add(chunk.max(1)));
        if let Some(checkpoint) = self.checkpoint.filter(|&at| self.done < at) {
            end = end.min(checkpoint);
        }
        let part = prompt.get(self.done..end).unwrap_or_default();
        let is_last = end == prompt.len();
        // Checked before the step, because a queued step cannot be canceled.
        if control.is_stopped() || !decoder.prefill_step(part, is_last, control)? {
            self.end = self.done;
            return Ok(false);
        }
        if self.checkpoint == Some(end) {
            decoder.add_checkpoint();
        }
        self.done = end;
        Ok(true)
    }
}
