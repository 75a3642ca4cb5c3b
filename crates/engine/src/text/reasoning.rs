//! Tells what a model thinks from what it answers. Most write `<think>` … `</think>`, Gemma 4 writes
//! `<|channel>thought` … `<channel|>`, and gpt-oss says of every message to which channel it goes.
//!
//! The rules: the markers themselves are never text. `<think>` is a marker only while nothing but
//! white space has been answered; later it is a quotation. White space round the markers that is
//! there for layout only (line breaks after `<think>`, blank lines after `</think>`) is dropped, so
//! both sections start clean and an empty section reports nothing.

use crate::event::Section;
use crate::text::stop::longest_overlap;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Gemma 4: a channel has a name, and there is one only.
const GEMMA_OPEN: &str = "<|channel>thought";
const GEMMA_CLOSE: &str = "<channel|>";

/// gpt-oss: `<|channel|>analysis<|message|>…<|end|>`, then a header such as
/// `<|start|>assistant<|channel|>final<|message|>`, and the answer.
const CHANNEL: &str = "<|channel|>";
const START: &str = "<|start|>";
const MESSAGE: &str = "<|message|>";
const END: &str = "<|end|>";
/// The channel that is the answer; all others are thought.
const FINAL: &str = "final";

/// What is text to us, even where a vocabulary calls it special.
pub const REASONING_MARKERS: [&str; 8] = [
    OPEN,
    CLOSE,
    "<|channel>",
    GEMMA_CLOSE,
    CHANNEL,
    START,
    MESSAGE,
    END,
];

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
    /// Inside a message's header, which says where the message goes.
    Header,
}

/// Splits text into sections; see the rules above.
#[derive(Debug)]
pub struct ReasoningSplitter {
    place: Place,
    held: String,
    /// What ends the reasoning.
    close: &'static str,
    /// Whether messages have headers.
    has_headers: bool,
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
            close: CLOSE,
            has_headers: false,
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
            // Half a header is no text.
            Place::Header => return self.held.clear(),
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
            Place::Reasoning => self.emit_until(self.close, Section::Reasoning, emit),
            Place::Answer if self.has_headers => self.emit_until(END, Section::Answer, emit),
            Place::Answer => {
                if !self.held.is_empty() {
                    emit(Section::Answer, &self.held);
                    self.held.clear();
                }
                false
            }
            Place::Header => self.leave_header(),
        }
    }

    /// At the start of a section: a marker, or the section's first text.
    fn leave_start(&mut self) -> bool {
        let text = self.held.trim_start();
        // Some models repeat the marker that the prompt ended with; that changes nothing.
        for (open, close) in [(OPEN, CLOSE), (GEMMA_OPEN, GEMMA_CLOSE)] {
            if let Some(rest) = text.strip_prefix(open) {
                self.held = rest.to_owned();
                self.place = Place::ReasoningStart;
                self.close = close;
                return true;
            }
        }
        for open in [CHANNEL, START] {
            if let Some(rest) = text.strip_prefix(open)
                && (self.has_headers || open == CHANNEL)
            {
                self.held = rest.to_owned();
                self.place = Place::Header;
                self.has_headers = true;
                return true;
            }
        }
        if self.place == Place::ReasoningStart {
            if let Some(rest) = text.strip_prefix(self.close) {
                self.held = rest.to_owned();
                self.place = Place::AnswerStart;
                return true;
            }
            if self.close.starts_with(text) {
                return false;
            }
        }
        let may_be = |open: &&str| open.starts_with(text);
        if [OPEN, GEMMA_OPEN, CHANNEL].iter().any(may_be)
            || self.has_headers && START.starts_with(text)
        {
            return false;
        }
        self.enter_section();
        true
    }

    /// Reads where the message goes, once the whole header is there.
    fn leave_header(&mut self) -> bool {
        let Some(end) = self.held.find(MESSAGE) else {
            return false;
        };
        let header = &self.held[..end];
        let channel = header.rsplit(CHANNEL).next().unwrap_or(header);
        self.place = if channel.trim_start().starts_with(FINAL) {
            Place::AnswerStart
        } else {
            Place::ReasoningStart
        };
        self.close = END;
        self.held.drain(..end + MESSAGE.len());
        true
    }

    /// Settles that what is held begins the section's text, and drops layout before it.
    fn enter_section(&mut self) {
        let layout = match self.place {
            Place::Opening => 0,
            Place::ReasoningStart | Place::AnswerStart => layout_len(&self.held),
            Place::Reasoning | Place::Answer | Place::Header => return,
        };
        self.held.drain(..layout);
        self.place = match self.place {
            Place::ReasoningStart => Place::Reasoning,
            _ => Place::Answer,
        };
    }

    /// Emits what comes before the marker `close`, which ends the section.
    fn emit_until(
        &mut self,
        close: &str,
        section: Section,
        emit: &mut dyn FnMut(Section, &str),
    ) -> bool {
        let end = self.held.find(close);
        let certain = end.unwrap_or(self.held.len() - longest_overlap(&self.held, close));
        if certain > 0 {
            emit(section, &self.held[..certain]);
        }
        let marker = if end.is_some() { close.len() } else { 0 };
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
