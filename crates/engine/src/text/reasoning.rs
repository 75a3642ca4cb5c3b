//! Tells what a model thinks (`<think>` … `</think>`) from what it answers.
//!
//! The rules: the markers themselves are never text. `<think>` is a marker only while nothing but
//! white space has been answered; later it is a quotation. White space round the markers that is
//! there for layout only (line breaks after `<think>`, blank lines after `</think>`) is dropped, so
//! both sections start clean and an empty section reports nothing.

use crate::event::Section;
use crate::text::stop::longest_overlap;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Both are text to us, even where a vocabulary calls them special.
pub const REASONING_MARKERS: [&str; 2] = [OPEN, CLOSE];

/// Whether a rendered prompt leaves the model inside a reasoning section, as templates do that end
/// in `<think>`. A `<think>` further up, with other text after it, is a quotation in the
/// conversation or belongs to an earlier turn.
pub fn ends_in_open_reasoning(rendered_prompt: &str) -> bool {
    rendered_prompt.trim_end().ends_with(OPEN)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing but white space so far, and no marker.
    Opening,
    /// Right after `<think>`.
    ReasoningStart,
    /// Inside the reasoning.
    Reasoning,
    /// Right after `</think>`.
    AnswerStart,
    /// Inside the answer, to the end.
    Answer,
}

/// Splits text into sections; see the rules above.
#[derive(Debug)]
pub struct ReasoningSplitter {
    place: Place,
    held: String,
}

impl ReasoningSplitter {
    /// A splitter at the start of an answer, or right after `<think>` with `starts_in_reasoning`.
    pub fn new(starts_in_reasoning: bool) -> Self {
        Self {
            place: if starts_in_reasoning {
                Place::ReasoningStart
            } else {
                Place::Opening
            },
            held: String::new(),
        }
    }

    /// Takes text and emits what is certain, by section; pieces are never empty.
    pub fn push(&mut self, text: &str, emit: &mut dyn FnMut(Section, &str)) {
        self.held.push_str(text);
        while self.step(emit) {}
    }

    /// No more text will come: half a marker is text, and so is white space that no marker followed.
    pub fn finish(&mut self, emit: &mut dyn FnMut(Section, &str)) {
        self.enter_section();
        let section = match self.place {
            Place::Reasoning | Place::ReasoningStart => Section::Reasoning,
            Place::Opening | Place::AnswerStart | Place::Answer => Section::Answer,
        };
        if !self.held.is_empty() {
            emit(section, &self.held);
            self.held.clear();
        }
    }

    /// The white space with which the answer would begin once `text` is pushed, as long as it is
    /// open whether a marker follows.
    pub fn leading_blank(&self, text: &str) -> String {
        if self.place != Place::Opening {
            return String::new();
        }
        let mut blank = format!("{}{text}", self.held);
        blank.truncate(blank.len() - blank.trim_start().len());
        blank
    }

    /// Goes on by one place; false when more text is needed to do so.
    fn step(&mut self, emit: &mut dyn FnMut(Section, &str)) -> bool {
        match self.place {
            Place::Opening | Place::ReasoningStart | Place::AnswerStart => self.leave_start(),
            Place::Reasoning => self.reason(emit),
            Place::Answer => {
                if !self.held.is_empty() {
                    emit(Section::Answer, &self.held);
                    self.held.clear();
                }
                false
            }
        }
    }

    /// At the start of a section: a marker, or the section's first text.
    fn leave_start(&mut self) -> bool {
        let text = self.held.trim_start();
        if let Some(rest) = text.strip_prefix(OPEN) {
            // Some models repeat the marker that the prompt ended with; that changes nothing.
            self.held = rest.to_owned();
            self.place = Place::ReasoningStart;
            return true;
        }
        if self.place == Place::ReasoningStart {
            if let Some(rest) = text.strip_prefix(CLOSE) {
                self.held = rest.to_owned();
                self.place = Place::AnswerStart;
                return true;
            }
            if CLOSE.starts_with(text) {
                return false;
            }
        }
        if OPEN.starts_with(text) {
            return false;
        }
        self.enter_section();
        true
    }

    /// Settles that what is held begins the section's text, and drops layout before it.
    fn enter_section(&mut self) {
        let layout = match self.place {
            Place::Opening => 0,
            Place::ReasoningStart | Place::AnswerStart => layout_len(&self.held),
            Place::Reasoning | Place::Answer => return,
        };
        self.held.drain(..layout);
        self.place = match self.place {
            Place::ReasoningStart => Place::Reasoning,
            _ => Place::Answer,
        };
    }

    fn reason(&mut self, emit: &mut dyn FnMut(Section, &str)) -> bool {
        let end = self.held.find(CLOSE);
        let certain = end.unwrap_or(self.held.len() - longest_overlap(&self.held, CLOSE));
        if certain > 0 {
            emit(Section::Reasoning, &self.held[..certain]);
        }
        let marker = if end.is_some() { CLOSE.len() } else { 0 };
        self.held.drain(..certain + marker);
        if end.is_some() {
            self.place = Place::AnswerStart;
        }
        end.is_some()
    }
}

/// Bytes of white space at the start that are layout: whole blank lines, or the blank on the
/// marker's own line. The indentation of the first line of text is not.
fn layout_len(text: &str) -> usize {
    let blank = text.len() - text.trim_start().len();
    match text[..blank].rfind('\n') {
        Some(last_break) if blank < text.len() => last_break + 1,
        _ => blank,
    }
}
