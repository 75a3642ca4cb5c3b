//! From detokenized bytes to text that may be shown.
//!
//! Three stages, one file each: [`utf8`] makes whole characters of bytes, [`reasoning`] tells
//! thinking from answering, [`stop`] ends the answer at a stop string. [`TextStream`] runs them in
//! that order; engines need only it. The rule of all three: what is emitted is final, and it does
//! not depend on how the bytes were cut into tokens.

pub mod reasoning;
pub mod stop;
pub mod utf8;

use crate::event::Section;
use reasoning::ReasoningSplitter;
use stop::StopFilter;
use utf8::Utf8Buffer;

pub(crate) use reasoning::STRIPPED_MARKERS;
pub use reasoning::{OpenReasoning, REASONING_MARKERS};

/// Detokenized bytes in, safe text out: one answer's way from the model to the reader.
///
/// Stop strings are looked for in the answer only, never in the reasoning: a blank line as a stop
/// string must not cut a model short while it thinks. That is what callers of OpenAI's interface
/// see, where reasoning is hidden from stop sequences. (vLLM matches the raw text, reasoning
/// included, so a stop string like `</think>` works there and not here.)
#[derive(Debug)]
pub struct TextStream {
    utf8: Utf8Buffer,
    reasoning: ReasoningSplitter,
    stop: StopFilter,
}

impl TextStream {
    /// A stream that ends at the first of `stop` (empty strings are ignored). `open` is the reasoning
    /// section that the prompt has already opened.
    pub fn new(stop: &[String], open: Option<OpenReasoning>) -> Self {
        Self {
            utf8: Utf8Buffer::default(),
            reasoning: ReasoningSplitter::new(open),
            stop: StopFilter::new(stop),
        }
    }

    /// Takes one token's bytes and calls `emit` with the text that is now certain: whole characters
    /// that are neither a marker nor possibly part of a stop string. The pieces are never empty.
    ///
    /// Returns true once a stop string was met. Nothing from it on is emitted, then or later.
    pub fn push(&mut self, bytes: &[u8], emit: &mut dyn FnMut(Section, &str)) -> bool {
        let text = self.utf8.push(bytes);
        self.advance(&text, emit);
        self.stop.is_stopped()
    }

    /// The answer has ended by itself: emits what was held back. Bytes that never became a character
    /// turn into U+FFFD; half a marker and half a stop string are text after all.
    pub fn finish(&mut self, emit: &mut dyn FnMut(Section, &str)) {
        let text = self.utf8.finish();
        self.advance(text, emit);
        let stop = &mut self.stop;
        self.reasoning
            .finish(&mut |section, text| pass(stop, section, text, emit));
        stop.finish(&mut |text| emit(Section::Answer, text));
    }

    fn advance(&mut self, text: &str, emit: &mut dyn FnMut(Section, &str)) {
        if text.is_empty() || self.stop.is_stopped() {
            return;
        }
        // White space before the answer is held, because `<think>` may follow; but a stop string in
        // it ends the answer all the same.
        let blank = self.reasoning.leading_blank(text);
        if self.stop.is_met_in(&blank) {
            self.stop
                .push(&blank, &mut |text| emit(Section::Answer, text));
            return;
        }
        let stop = &mut self.stop;
        self.reasoning
            .push(text, &mut |section, text| pass(stop, section, text, emit));
    }
}

fn pass(stop: &mut StopFilter, section: Section, text: &str, emit: &mut dyn FnMut(Section, &str)) {
    match section {
        Section::Reasoning => emit(section, text),
        Section::Answer => stop.push(text, &mut |text| emit(section, text)),
    }
}

#[cfg(test)]
mod tests;
