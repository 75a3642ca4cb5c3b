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
use crate::event::{Section, TokenEvent};
use crate::logprobs::TokenLogprobs;
use crate::text::{OpenReasoning, TextStream};

/// Converts the bytes of one response to events.
#[derive(Debug)]
pub(crate) struct ResponseText {
    stream: TextStream,
    /// Texts that are not sent yet; empty between calls.
    texts: Vec<(Section, String)>,
    /// The bytes of the response so far.
    n_bytes: usize,
    /// Tokens whose text is held back, each with the position of its bytes.
    held: VecDeque<(Range<usize>, TokenLogprobs)>,
}

impl ResponseText {
    /// Creates the text of a response; see [`TextStream::new`].
    pub(crate) fn new(stop: &[String], open: Option<OpenReasoning>) -> Self {
        Self {
            stream: TextStream::new(stop, open),
            texts: Vec::new(),
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
        let texts = &mut self.texts;
        let mut emit = |section, text: &str| texts.push((section, text.to_owned()));
        let is_stopped = self.stream.push(bytes, &mut emit);
        self.send(generated_tokens, sink);
        is_stopped
    }

    /// Sends the text that was held back, at the end of the response.
    pub(crate) fn finish(&mut self, generated_tokens: usize, sink: &mut dyn TokenSink) {
        let texts = &mut self.texts;
        let mut emit = |section, text: &str| texts.push((section, text.to_owned()));
        self.stream.finish(&mut emit);
        self.send(generated_tokens, sink);
    }

    /// Returns which stop string ended the response; see [`TextStream::matched_stop`].
    pub(crate) fn matched_stop(&self) -> Option<usize> {
        self.stream.matched_stop()
    }

    fn send(&mut self, generated_tokens: usize, sink: &mut dyn TokenSink) {
        let mut logprobs = self.take_logprobs();
        let n_texts = self.texts.len();
        for (index, (section, text)) in self.texts.drain(..).enumerate() {
            // One token rarely completes several texts. Then the last one has its probability.
            let is_last = index + 1 == n_texts;
            let logprobs = if is_last {
                std::mem::take(&mut logprobs)
            } else {
                Vec::new()
            };
            sink.on_event(TokenEvent::Text {
                section,
                text,
                generated_tokens,
                logprobs,
            });
        }
    }

    /// Returns the log probabilities that belong to the texts, and drops those of tokens that are
    /// not visible.
    fn take_logprobs(&mut self) -> Vec<TokenLogprobs> {
        // All stages hold back the end of their input, so together they hold the end of the bytes.
        // A broken character counts as its replacement, which only delays a token.
        let end = self.n_bytes.saturating_sub(self.stream.n_held_bytes());
        let n_sent: usize = self.texts.iter().map(|(_, text)| text.len()).sum();
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
