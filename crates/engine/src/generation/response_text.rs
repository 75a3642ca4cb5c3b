//! The text of a response on its way to the sink, with the log probabilities of its tokens.
//!
//! Text is held back while it may become part of a character, a marker or a stop string, and so are
//! the log probabilities of its tokens.
//!
//! Rule: an event has the log probabilities of the tokens whose text begins in it, in order. Tokens
//! without visible text have none: markers, layout around them, and stop strings.

use std::collections::VecDeque;
use std::ops::Range;

use crate::contract::TokenSink;
use crate::event::{FinishReason, Section, TokenEvent, ToolCallDelta};
use crate::logprobs::TokenLogprobs;
use crate::text::{OpenReasoning, Output, TextStream};
use crate::tools::{Part, PreparedTools};

/// A text, or a part of a tool call.
#[derive(Debug)]
enum Sent {
    Text(Section, String),
    Call(Part),
}

impl From<Output<'_>> for Sent {
    fn from(output: Output<'_>) -> Self {
        match output {
            Output::Text(section, text) => Self::Text(section, text.to_owned()),
            Output::Call(part) => Self::Call(part.clone()),
        }
    }
}

/// Converts the bytes of one response to events.
#[derive(Debug)]
pub(crate) struct ResponseText {
    stream: TextStream,
    /// Output that is not sent yet; empty between calls.
    outputs: Vec<Sent>,
    tools: Option<PreparedTools>,
    /// Number of tool calls that began.
    n_calls: usize,
    /// The bytes of the response so far.
    n_bytes: usize,
    /// Tokens whose text is held back, each with the position of its bytes.
    held: VecDeque<(Range<usize>, TokenLogprobs)>,
}

impl ResponseText {
    /// Creates the text of a response; see [`TextStream::new`].
    pub(crate) fn new(
        stop: &[String],
        open: Option<OpenReasoning>,
        tools: Option<PreparedTools>,
    ) -> Self {
        Self {
            stream: TextStream::new(stop, open).with_tools(tools.clone()),
            outputs: Vec::new(),
            tools,
            n_calls: 0,
            n_bytes: 0,
            held: VecDeque::new(),
        }
    }

    /// Adds the bytes of a token, which is the last of `generated_tokens`, and sends what is now
    /// final. Returns true after a stop string.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        logprobs: Option<TokenLogprobs>,
        generated_tokens: usize,
        sink: &mut dyn TokenSink,
    ) -> bool {
        let begin = self.n_bytes;
        self.n_bytes += bytes.len();
        let position = begin..self.n_bytes;
        self.held
            .extend(logprobs.map(|logprobs| (position, logprobs)));
        let outputs = &mut self.outputs;
        let mut emit = |output: Output<'_>| outputs.push(output.into());
        let is_stopped = self.stream.push_output(bytes, &mut emit);
        self.send(generated_tokens, sink);
        is_stopped
    }

    /// Sends the text that was held back, at the end of the response. The beginning of a tool call that
    /// was cut off is no text.
    pub(crate) fn finish(
        &mut self,
        reason: FinishReason,
        generated_tokens: usize,
        sink: &mut dyn TokenSink,
    ) {
        let outputs = &mut self.outputs;
        let mut emit = |output: Output<'_>| outputs.push(output.into());
        let is_cut = reason != FinishReason::Stop;
        self.stream.finish_output(is_cut, &mut emit);
        self.send(generated_tokens, sink);
    }

    /// Returns which stop string ended the response; see [`TextStream::matched_stop`].
    pub(crate) fn matched_stop(&self) -> Option<usize> {
        self.stream.matched_stop()
    }

    fn send(&mut self, generated_tokens: usize, sink: &mut dyn TokenSink) {
        let mut logprobs = self.take_logprobs();
        let is_text = |output: &Sent| matches!(output, Sent::Text(..));
        let last_text = self.outputs.iter().rposition(is_text);
        for (index, output) in std::mem::take(&mut self.outputs).into_iter().enumerate() {
            let (section, text) = match output {
                Sent::Text(section, text) => (section, text),
                Sent::Call(part) => {
                    self.send_call(part, generated_tokens, sink);
                    continue;
                }
            };
            // One token rarely completes several texts. Then the last one has its probability.
            let logprobs = match Some(index) == last_text {
                true => std::mem::take(&mut logprobs),
                false => Vec::new(),
            };
            sink.on_event(TokenEvent::Text {
                section,
                text,
                generated_tokens,
                logprobs,
            });
        }
    }

    fn send_call(&mut self, part: Part, generated_tokens: usize, sink: &mut dyn TokenSink) {
        let delta = match part {
            Part::Begin(name) => {
                self.n_calls += 1;
                let id = self.tools.as_ref().map(PreparedTools::new_id);
                let id = id.unwrap_or_default();
                ToolCallDelta::Begin { id, name }
            }
            Part::Arguments(json) => ToolCallDelta::Arguments(json),
            Part::End => ToolCallDelta::End,
            Part::Text(_) => return,
        };
        sink.on_event(TokenEvent::ToolCall {
            index: self.n_calls.saturating_sub(1),
            delta,
            generated_tokens,
        });
    }

    /// Returns the log probabilities that belong to the texts, and drops those of tokens that are
    /// not visible.
    fn take_logprobs(&mut self) -> Vec<TokenLogprobs> {
        // All stages hold back the end of their input, so together they hold the end of the bytes.
        // A broken character counts as its replacement, which only delays a token.
        let end = self.n_bytes.saturating_sub(self.stream.n_held_bytes());
        let text_len = |output: &Sent| match output {
            Sent::Text(_, text) => text.len(),
            Sent::Call(_) => 0,
        };
        let n_sent: usize = self.outputs.iter().map(text_len).sum();
        let sent = end.saturating_sub(n_sent)..end;
        let mut logprobs = Vec::new();
        while let Some((position, of_token)) = self.held.pop_front() {
            if position.start >= end {
                self.held.push_front((position, of_token));
                break;
            }
            if position.end > sent.start && !sent.is_empty() {
                logprobs.push(of_token);
            }
        }
        logprobs
    }
}
