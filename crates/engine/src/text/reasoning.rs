//! Separates a model's reasoning from its answer. Most models write `<think>` … `</think>`, Mistral's
//! write `[THINK]` … `[/THINK]`, Gemma 4 writes `<|channel>thought` … `<channel|>`, and gpt-oss gives
//! every message a channel.
//!
//! Rule: the markers themselves are never text. An opening marker counts only while nothing but
//! white space has been answered; later it is a quotation. White space around the markers that is
//! there for layout only (line breaks after `<think>`, blank lines after `</think>`) is dropped, so
//! both sections start clean and an empty section reports nothing.

use crate::event::Section;
use crate::text::stop::longest_overlap;

/// Markers that open and close a reasoning section.
const SECTIONS: [(&str, &str); 3] = [
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    // Gemma 4's channels have names. This is the only name that it uses.
    ("<|channel>thought", "<channel|>"),
];

/// gpt-oss: `<|channel|>analysis<|message|>…<|end|>`, then a header such as
/// `<|start|>assistant<|channel|>final<|message|>`, and the answer. A message with a recipient, as in
/// `<|channel|>commentary to=functions.weather<|message|>{…}`, is a tool call.
const CHANNEL: &str = "<|channel|>";
const START: &str = "<|start|>";
const MESSAGE: &str = "<|message|>";
const END: &str = "<|end|>";
/// The only channel that is reasoning. `commentary` without a recipient is written for the user.
const ANALYSIS: &str = "analysis";
const RECIPIENT: &str = "to=";

/// Tokens that are text to us, even if a vocabulary calls them special.
pub const REASONING_MARKERS: [&str; 10] = [
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "<|channel>",
    "<channel|>",
    CHANNEL,
    START,
    MESSAGE,
    END,
];

/// Markers that chat templates look for in the assistant's earlier messages, to leave its reasoning
/// out.
pub(crate) const STRIPPED_MARKERS: [&str; 4] = ["<think>", "</think>", "<|channel>", "<channel|>"];

/// A reasoning section that the prompt has opened, so the response starts inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenReasoning {
    close: &'static str,
}

impl OpenReasoning {
    /// A section that ends at `</think>`.
    pub const THINK: Self = Self {
        close: SECTIONS[0].1,
    };

    /// Returns the reasoning section that a rendered prompt ends in, as templates do that end in
    /// `<think>`. A marker further up, with other text after it, is a quotation in the conversation
    /// or belongs to an earlier message.
    pub fn at_end_of(rendered_prompt: &str) -> Option<Self> {
        let text = rendered_prompt.trim_end();
        let section = SECTIONS.iter().find(|(open, _)| text.ends_with(open));
        if let Some((_, close)) = section {
            return Some(Self { close });
        }
        let (_, channel) = text.strip_suffix(MESSAGE)?.rsplit_once(CHANNEL)?;
        (channel == ANALYSIS).then_some(Self { close: END })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing but white space so far, and no marker.
    Opening,
    /// Right after the marker that opens the reasoning.
    ReasoningStart,
    /// Inside the reasoning.
    Reasoning,
    /// Right after the marker that closes the reasoning, or a header.
    AnswerStart,
    /// Inside the answer, to the end.
    Answer,
    /// Inside a message's header, which names its channel.
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
    /// What the answer's next text begins with: space after an earlier message, a tool's name.
    lead: String,
    has_answered: bool,
}

impl ReasoningSplitter {
    /// A splitter at the start of a response, or inside the reasoning that the prompt has opened.
    pub fn new(open: Option<OpenReasoning>) -> Self {
        let close = open.unwrap_or(OpenReasoning::THINK).close;
        Self {
            place: if open.is_some() {
                Place::ReasoningStart
            } else {
                Place::Opening
            },
            held: String::new(),
            close,
            has_headers: close == END,
            lead: String::new(),
            has_answered: false,
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
        for (open, close) in SECTIONS {
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
        let mut opens = SECTIONS.iter().map(|(open, _)| open).chain([&CHANNEL]);
        if opens.any(may_be) || self.has_headers && START.starts_with(text) {
            return false;
        }
        self.enter_section();
        true
    }

    /// Reads the channel and the recipient of a message, once its whole header is there.
    fn leave_header(&mut self) -> bool {
        let Some(end) = self.held.find(MESSAGE) else {
            return false;
        };
        let header = &self.held[..end];
        let recipient = header.find(RECIPIENT).map(|at| &header[at..]);
        let recipient = recipient.and_then(|text| text.split([' ', '<']).next());
        let channel = header.rsplit(CHANNEL).next().unwrap_or(header);
        self.place = if recipient.is_none() && channel.trim_start().starts_with(ANALYSIS) {
            Place::ReasoningStart
        } else {
            // A tool call is part of the answer: nobody here runs it, and it must not get lost.
            self.lead = if self.has_answered { "\n\n" } else { "" }.to_owned();
            if let Some(recipient) = recipient {
                self.lead += recipient;
                self.lead.push('\n');
            }
            Place::AnswerStart
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
            _ => {
                self.held.insert_str(0, &std::mem::take(&mut self.lead));
                Place::Answer
            }
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
            self.has_answered |= section == Section::Answer;
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
