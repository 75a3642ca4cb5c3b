//! Converts detokenized bytes to text that can be shown.
//!
//! Three stages, one file each: [`utf8`] assembles complete characters, [`reasoning`] separates
//! reasoning from the answer, [`stop`] ends the response at a stop string. [`TextStream`] runs them
//! in that order; engines need only it.
//!
//! Rule: emitted text is final, and it does not depend on how tokens split the bytes.

pub mod reasoning;
pub mod stop;
pub mod utf8;

use crate::event::Section;
use reasoning::ReasoningSplitter;
use stop::StopFilter;
use utf8::Utf8Buffer;

pub(crate) use reasoning::STRIPPED_MARKERS;
pub use reasoning::{OpenReasoning, REASONING_MARKERS};

/// Converts the bytes of one response to text.
///
/// Stop strings are searched in the answer only, never in the reasoning: a blank line as a stop
/// string must not end a response while the model is reasoning. Callers of OpenAI's API get the
/// same, because it hides reasoning from stop sequences. (vLLM searches the raw text, including
/// reasoning, so a stop string like `</think>` works there and not here.)
#[derive(Debug)]
pub struct TextStream {
    utf8: Utf8Buffer,
    reasoning: ReasoningSplitter,
    stop: StopFilter,
}

impl TextStream {
    /// Creates a stream that ends at the first of `stop` (empty strings are ignored). `open` is the
    /// reasoning section that the prompt has opened.
    pub fn new(stop: &[String], open: Option<OpenReasoning>) -> Self {
        Self {
            utf8: Utf8Buffer::default(),
            reasoning: ReasoningSplitter::new(open),
            stop: StopFilter::new(stop),
        }
    }

    /// Adds one token's bytes. Calls `emit` with text that is now final: complete characters that
    /// are neither part of a marker nor of a possible stop string. Text is never empty.
    ///
    /// Returns true after a stop string. Nothing from its start on is emitted, now or later.
    pub fn push(&mut self, bytes: &[u8], emit: &mut dyn FnMut(Section, &str)) -> bool {
        let text = self.utf8.push(bytes);
        self.advance(&text, emit);
        self.stop.is_stopped()
    }

    /// Emits text that was held back, at the end of the response. Incomplete characters become
    /// U+FFFD; incomplete markers and stop strings are text.
    pub fn finish(&mut self, emit: &mut dyn FnMut(Section, &str)) {
        let text = self.utf8.finish();
        self.advance(text, emit);
        let stop = &mut self.stop;
        self.reasoning
            .finish(&mut |section, text| pass(stop, section, text, emit));
        stop.finish(&mut |text| emit(Section::Answer, text));
    }

    /// Returns the index of the stop string that ended the response; `None` if none did.
    pub fn matched_stop(&self) -> Option<usize> {
        self.stop.matched()
    }

    /// Returns the number of bytes at the end that are held back, or that a stop string cut off.
    pub fn n_held_bytes(&self) -> usize {
        self.utf8.n_held() + self.reasoning.n_held() + self.stop.n_held()
    }

    fn advance(&mut self, text: &str, emit: &mut dyn FnMut(Section, &str)) {
        if text.is_empty() || self.stop.is_stopped() {
            return;
        }
        // Leading white space is held back, because `<think>` may follow. But a stop string in it
        // ends the response.
        let whitespace = self.reasoning.leading_whitespace(text);
        if self.stop.occurs_in(&whitespace) {
            self.stop
                .push(&whitespace, &mut |text| emit(Section::Answer, text));
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
