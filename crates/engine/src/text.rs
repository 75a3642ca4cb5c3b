//! Converts detokenized bytes to text that can be shown.
//!
//! Stages, one file each: [`utf8`] assembles complete characters, [`reasoning`] separates reasoning
//! from the answer, [`crate::tools`] recognizes tool calls in the answer, if there are tools, and
//! [`stop`] ends the response at a stop string. [`TextStream`] runs them
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

use crate::tools::{Part, Parts, PreparedTools, ToolStream};

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
    answer: Answer,
}

/// The stages of the answer, after the reasoning.
#[derive(Debug)]
struct Answer {
    tools: Option<(PreparedTools, ToolStream)>,
    stop: StopFilter,
}

/// What a response contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output<'a> {
    Text(Section, &'a str),
    /// Of a tool call: never [`Part::Text`].
    Call(&'a Part),
}

impl TextStream {
    /// Creates a stream that ends at the first of `stop` (empty strings are ignored). `open` is the
    /// reasoning section that the prompt has opened.
    pub fn new(stop: &[String], open: Option<OpenReasoning>) -> Self {
        Self {
            utf8: Utf8Buffer::default(),
            reasoning: ReasoningSplitter::new(open),
            answer: Answer {
                tools: None,
                stop: StopFilter::new(stop),
            },
        }
    }

    /// Recognizes calls of these tools in the answer. Stop strings are not searched in calls.
    pub(crate) fn with_tools(mut self, tools: Option<PreparedTools>) -> Self {
        self.answer.tools = tools.map(|tools| {
            let stream = tools.stream();
            (tools, stream)
        });
        self
    }

    /// Adds one token's bytes. Calls `emit` with text that is now final: complete characters that
    /// are neither part of a marker nor of a possible stop string. Text is never empty.
    ///
    /// Returns true after a stop string. Nothing from its start on is emitted, now or later.
    pub fn push(&mut self, bytes: &[u8], emit: &mut dyn FnMut(Section, &str)) -> bool {
        self.push_output(bytes, &mut only_text(emit))
    }

    /// Emits text that was held back, at the end of the response. Incomplete characters become
    /// U+FFFD; incomplete markers and stop strings are text.
    pub fn finish(&mut self, emit: &mut dyn FnMut(Section, &str)) {
        self.finish_output(false, &mut only_text(emit));
    }

    /// Like [`TextStream::push`], with tool calls.
    pub(crate) fn push_output(&mut self, bytes: &[u8], emit: &mut dyn FnMut(Output<'_>)) -> bool {
        let text = self.utf8.push(bytes);
        self.advance(&text, emit);
        self.answer.stop.is_stopped()
    }

    /// Like [`TextStream::finish`], with tool calls. If a limit cut the response (`is_cut`), the beginning
    /// of a call is no text.
    pub(crate) fn finish_output(&mut self, is_cut: bool, emit: &mut dyn FnMut(Output<'_>)) {
        let text = self.utf8.finish();
        self.advance(text, emit);
        let answer = &mut self.answer;
        self.reasoning
            .finish(&mut |section, text| answer.push(section, text, emit));
        answer.finish(is_cut, emit);
    }

    /// Returns the index of the stop string that ended the response; `None` if none did.
    pub fn matched_stop(&self) -> Option<usize> {
        self.answer.stop.matched()
    }

    /// Returns the number of bytes at the end that are held back, or that a stop string cut off.
    pub fn n_held_bytes(&self) -> usize {
        self.utf8.n_held() + self.reasoning.n_held() + self.answer.n_held()
    }

    fn advance(&mut self, text: &str, emit: &mut dyn FnMut(Output<'_>)) {
        if text.is_empty() || self.answer.stop.is_stopped() {
            return;
        }
        // Leading white space is held back, because `<think>` may follow. But a stop string in it
        // ends the response.
        let whitespace = self.reasoning.leading_whitespace(text);
        if self.answer.stop.occurs_in(&whitespace) {
            let stop = &mut self.answer.stop;
            stop.push(&whitespace, &mut |text| {
                emit(Output::Text(Section::Answer, text));
            });
            return;
        }
        let answer = &mut self.answer;
        self.reasoning
            .push(text, &mut |section, text| answer.push(section, text, emit));
    }
}

impl Answer {
    fn push(&mut self, section: Section, text: &str, emit: &mut dyn FnMut(Output<'_>)) {
        if section == Section::Reasoning {
            return emit(Output::Text(section, text));
        }
        let Some((tools, stream)) = &mut self.tools else {
            return self.push_text(text, emit);
        };
        let mut parts = Parts::default();
        stream.push(text, tools.declared(), &mut parts);
        self.emit_parts(&parts, emit);
    }

    fn finish(&mut self, is_cut: bool, emit: &mut dyn FnMut(Output<'_>)) {
        let mut parts = Parts::default();
        if let Some((_, stream)) = &mut self.tools {
            stream.finish(is_cut, &mut parts);
        }
        self.emit_parts(&parts, emit);
        self.flush(emit);
    }

    fn emit_parts(&mut self, parts: &Parts, emit: &mut dyn FnMut(Output<'_>)) {
        for part in &parts.0 {
            if self.stop.is_stopped() {
                return;
            }
            match part {
                Part::Text(text) => self.push_text(text, emit),
                Part::Begin(_) | Part::Arguments(_) | Part::End => {
                    self.flush(emit);
                    emit(Output::Call(part));
                }
            }
        }
    }

    fn push_text(&mut self, text: &str, emit: &mut dyn FnMut(Output<'_>)) {
        self.stop.push(text, &mut |text| {
            emit(Output::Text(Section::Answer, text));
        });
    }

    fn flush(&mut self, emit: &mut dyn FnMut(Output<'_>)) {
        self.stop
            .finish(&mut |text| emit(Output::Text(Section::Answer, text)));
    }

    fn n_held(&self) -> usize {
        let of_tools = self.tools.as_ref().map_or(0, |(_, stream)| stream.n_held());
        self.stop.n_held() + of_tools
    }
}

/// Returns a receiver of output that passes texts on. Without tools there is nothing else.
fn only_text(emit: &mut dyn FnMut(Section, &str)) -> impl FnMut(Output<'_>) {
    move |output: Output<'_>| {
        if let Output::Text(section, text) = output {
            emit(section, text);
        }
    }
}

#[cfg(test)]
mod tests;
