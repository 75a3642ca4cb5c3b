//! The loop of an answer: prefill, then token after token, as text and with the figures.
//!
//! Both engines run it round their own decoder, so that order, endings and counts are the same.
//! Rule: nothing of an answer runs any more when its end is told.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use crate::contract::{GenerationParams, JobControl, PreparedPrompt, TokenSink};
use crate::error::EngineError;
use crate::event::{FinishReason, Stats, TokenEvent};
use crate::text::TextStream;

/// One answer's way from a prompt to tokens, as an engine computes it. Dropping it settles the
/// device.
pub trait Decode {
    /// Tokens of the prompt that were cached.
    fn n_cached(&self) -> usize;

    /// Processes the rest of `prompt` in steps of at most `chunk` tokens, calling `on_progress` with
    /// the tokens done after each. Returns early when the job is stopped.
    ///
    /// # Errors
    /// What failed in the engine.
    fn prefill(
        &mut self,
        prompt: &[u32],
        chunk: usize,
        control: &JobControl,
        on_progress: impl FnMut(usize),
    ) -> Result<(), EngineError>;

    /// The next token. `room` is how many more may be wanted, this one included; at least one.
    ///
    /// # Errors
    /// What failed in the engine.
    fn next(&mut self, room: usize, control: &JobControl) -> Result<Next, EngineError>;

    /// Counts so far.
    fn counts(&self) -> Counts;

    /// Gives buffers that nothing uses back to the system.
    fn give_spare_memory_back();
}

/// Token ids to text, in order.
pub trait Spell {
    /// Whether this token ends the text.
    fn is_end(&self, token: u32) -> bool;

    /// The next token's bytes; perhaps none, or half a character.
    fn push(&mut self, token: u32) -> Cow<'_, [u8]>;
}

/// What the next step of an answer gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The next token.
    Token(u32),
    /// The context is full.
    Full,
    /// The job was asked to end.
    Stopped,
}

/// Counts that only the decoder knows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Tokens that were guessed ahead.
    pub drafted: usize,
    /// Of these, tokens that the model agreed to and that were handed out.
    pub accepted: usize,
    /// Tokens that context shifts forgot.
    pub shifted: usize,
}

/// What to answer, and within which bounds.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The prompt.
    pub prompt: &'a PreparedPrompt,
    /// How to answer it; validated.
    pub params: &'a GenerationParams,
    /// Most tokens of the answer.
    pub max_tokens: usize,
    /// Most tokens of a prefill step.
    pub chunk: usize,
    /// When the engine was called.
    pub began: Instant,
}

/// Answers: tells `sink` everything but the end, and gives each token to `on_token` before its text
/// is told, end-of-text tokens too. Returns why it ended and all figures but the peak of memory, for
/// the engine to complete and to tell as [`TokenEvent::Finished`].
///
/// # Errors
/// What failed in the decoder.
pub fn run<D: Decode>(
    job: Job<'_>,
    mut decoder: D,
    mut words: impl Spell,
    control: &JobControl,
    sink: &mut dyn TokenSink,
    on_token: &mut dyn FnMut(u32),
) -> Result<(FinishReason, Stats), EngineError> {
    let Job { prompt, params, .. } = job;
    let mut stats = Stats {
        prompt_tokens: prompt.tokens.len(),
        cached_tokens: decoder.n_cached(),
        ..Stats::default()
    };
    sink.on_event(TokenEvent::Started {
        prompt_tokens: stats.prompt_tokens,
        cached_tokens: stats.cached_tokens,
        dropped_messages: prompt.dropped_messages,
    });
    let total = stats.prompt_tokens;
    decoder.prefill(&prompt.tokens, job.chunk, control, |done| {
        trim_if_asked::<D>(control);
        sink.on_event(TokenEvent::Prefill { done, total });
    })?;
    stats.prefill_time = job.began.elapsed();
    let mut last_token = Duration::ZERO;
    let mut text = TextStream::new(&params.stop, prompt.starts_in_reasoning);
    let reason = loop {
        if let Some(reason) = control.stop_reason() {
            break reason;
        }
        if stats.generated_tokens == job.max_tokens {
            break FinishReason::Length;
        }
        trim_if_asked::<D>(control);
        let room = job.max_tokens - stats.generated_tokens;
        let token = match decoder.next(room, control)? {
            Next::Token(token) => token,
            Next::Full => break FinishReason::Length,
            Next::Stopped => break control.stop_reason().unwrap_or(FinishReason::Length),
        };
        last_token = job.began.elapsed();
        if stats.generated_tokens == 0 {
            stats.time_to_first_token = last_token;
        }
        on_token(token);
        if words.is_end(token) && !params.ignore_end_of_text {
            break FinishReason::Stop;
        }
        stats.generated_tokens += 1;
        let mut emit = to(sink, stats.generated_tokens);
        if text.push(&words.push(token), &mut emit) {
            break FinishReason::Stop;
        }
    };
    let counts = decoder.counts();
    // Settled before the caller is told: from here on nothing of this answer runs.
    drop(decoder);
    text.finish(&mut to(sink, stats.generated_tokens));
    stats.drafted_tokens = counts.drafted;
    stats.accepted_tokens = counts.accepted;
    stats.shifted_tokens = counts.shifted;
    stats.decode_time = last_token.saturating_sub(stats.time_to_first_token);
    Ok((reason, stats))
}

fn trim_if_asked<D: Decode>(control: &JobControl) {
    if control.take_trim_request() {
        D::give_spare_memory_back();
    }
}

/// Tells `sink` of texts when so many tokens were generated.
fn to(
    sink: &mut dyn TokenSink,
    generated_tokens: usize,
) -> impl FnMut(crate::event::Section, &str) {
    move |section, text| {
        sink.on_event(TokenEvent::Text {
            section,
            text: text.to_owned(),
            generated_tokens,
        });
    }
}

#[cfg(test)]
mod tests;
