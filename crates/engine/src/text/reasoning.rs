//! Separates reasoning from the answer. Most models write `<think>` … `</think>`, Mistral's write
//! `[THINK]` … `[/THINK]`, Gemma 4 writes `<|channel>thought` … `<channel|>`, and gpt-oss gives
//! every message a channel.
//!
//! Rule: markers are never text. An opening marker counts only if nothing but white space precedes
//! it in the answer; later it is a quotation. White space around the markers that is there for
//! layout only (line breaks after `<think>`, blank lines after `</think>`) is dropped, so an empty
//! section emits nothing.

use crate::event::Section;
use crate::text::stop::longest_overlap;

/// Markers that open and close a reasoning section.
const SECTIONS: [(&str, &str); 3] = [
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    // Gemma 4's channels have names. This is the only name that it uses.
    ("<|channel>thought", "<channel|>"),
];

/// Markers of gpt-oss: `<|channel|>analysis<|message|>…<|end|>`, then a header such as
/// `<|start|>assistant<|channel|>final<|message|>`, and the answer. A message with a recipient, as
/// in `<|channel|>commentary to=functions.weather<|message|>{…}`, is a tool call.
const CHANNEL: &str = "<|channel|>";
const START: &str = "<|start|>";
const MESSAGE: &str = "<|message|>";
const END: &str = "<|end|>";
/// The only channel with reasoning. `commentary` without a recipient is written for the user.
const ANALYSIS: &str = "analysis";
const RECIPIENT: &str = "to=";

/// Markers that open a reasoning section or a message's header, as single tokens of vocabularies.
pub(crate) const OPENING_MARKERS: [&str; 4] = ["<think>", "[THINK]", "<|channel>", CHANNEL];

/// Markers that begin the header of the next message of gpt-oss.
pub(crate) const MESSAGE_STARTS: [&str; 2] = [START, CHANNEL];

/// Tokens whose text is emitted even if the vocabulary calls them special.
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

/// Markers that chat templates search in earlier assistant messages, to remove the reasoning.
pub(crate) const STRIPPED_MARKERS: [&str; 4] = ["<think>", "</think>", "<|channel>", "<channel|>"];

/// A reasoning section that the prompt has opened. The response starts inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenReasoning {
    close: &'static str,
}

impl OpenReasoning {
    /// A section that ends at `</think>`.
    pub const THINK: Self = Self {
        close: SECTIONS[0].1,
    };

    /// Returns the reasoning section that a rendered prompt ends in, for example with `<think>`. A
    /// marker with other text after it is a quotation or belongs to an earlier message.
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
enum State {
    /// Only white space so far, and no marker.
    Opening,
    /// After the marker that opens the reasoning.
    ReasoningStart,
    /// Inside the reasoning.
    Reasoning,
    /// After the marker that closes the reasoning, or after a header.
    AnswerStart,
    /// Inside the answer, to the end.
    Answer,
    /// Inside a message's header, which names its channel.
    Header,
}

/// Where in a response its text so far ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Before the answer: in the reasoning, in a header, or in white space that may precede them.
    BeforeAnswer,
    /// Between two messages of gpt-oss.
    BetweenMessages,
    /// In a message that calls a tool.
    ToolCall,
    /// After the marker that the answer follows, or in the answer.
    Answer,
}

/// Splits text into sections; see the rule above.
#[derive(Debug)]
pub struct ReasoningSplitter {
    state: State,
    held: String,
    /// The marker that ends the reasoning.
    close: &'static str,
    /// True if messages have headers.
    has_headers: bool,
    /// Text to put before the answer's next text: blank lines after an earlier message, a tool's
    /// name.
    prefix: String,
    has_answered: bool,
    /// The newest marker was a header.
    is_after_header: bool,
}

impl ReasoningSplitter {
    /// Creates a splitter at the start of a response, or inside the reasoning that the prompt has
    /// opened.
    pub fn new(open: Option<OpenReasoning>) -> Self {
        let close = open.unwrap_or(OpenReasoning::THINK).close;
        Self {
            state: if open.is_some() {
                State::ReasoningStart
            } else {
                State::Opening
            },
            held: String::new(),
            close,
            has_headers: close == END,
            prefix: String::new(),
            has_answered: false,
            is_after_header: false,
        }
    }

    /// Adds text, and emits text whose section is certain. Text is never empty.
    pub fn push(&mut self, text: &str, emit: &mut dyn FnMut(Section, &str)) {
        self.held.push_str(text);
        while self.step(emit) {}
    }

    /// Emits the text that was held back, at the end of the response. Incomplete markers and white
    /// space are text.
    pub fn finish(&mut self, emit: &mut dyn FnMut(Section, &str)) {
        self.enter_section();
        let section = match self.state {
            State::Reasoning | State::ReasoningStart => Section::Reasoning,
            State::Opening | State::AnswerStart | State::Answer => Section::Answer,
            // An incomplete header is not text.
            State::Header => return self.held.clear(),
        };
        if !self.held.is_empty() {
            emit(section, &self.held);
            self.held.clear();
        }
    }

    /// Returns where the text so far ends.
    pub(crate) fn place(&self) -> Place {
        match self.state {
            State::Opening | State::ReasoningStart | State::Reasoning | State::Header => {
                Place::BeforeAnswer
            }
            _ if self.prefix.contains(RECIPIENT) => Place::ToolCall,
            State::AnswerStart if self.has_headers && !self.is_after_header => {
                Place::BetweenMessages
            }
            State::AnswerStart | State::Answer => Place::Answer,
        }
    }

    /// Returns the text that is held back.
    pub(crate) fn held(&self) -> &str {
        &self.held
    }

    /// Returns the number of bytes that are held back.
    pub fn n_held(&self) -> usize {
        self.held.len()
    }

    /// Returns the white space with which the answer would begin after `text`, while a marker may
    /// still follow.
    pub fn leading_whitespace(&self, text: &str) -> String {
        if self.state != State::Opening {
            return String::new();
        }
        let mut whitespace = format!("{}{text}", self.held);
        whitespace.truncate(whitespace.len() - whitespace.trim_start().len());
        whitespace
    }

    /// Advances by one state. Returns false if that needs more text.
    fn step(&mut self, emit: &mut dyn FnMut(Section, &str)) -> bool {
        match self.state {
            State::Opening | State::ReasoningStart | State::AnswerStart => {
                self.read_section_start()
            }
            State::Reasoning => self.emit_until(self.close, Section::Reasoning, emit),
            State::Answer if self.has_headers => self.emit_until(END, Section::Answer, emit),
            State::Answer => {
                if !self.held.is_empty() {
                    emit(Section::Answer, &self.held);
                    self.held.clear();
                }
                false
            }
            State::Header => self.read_header(),
        }
    }

    /// Reads a marker, or the first text of a section.
    fn read_section_start(&mut self) -> bool {
        let text = self.held.trim_start();
        // Some models repeat the marker that the prompt ended with; that changes nothing.
        for (open, close) in SECTIONS {
            if let Some(rest) = text.strip_prefix(open) {
                self.held = rest.to_owned();
                self.state = State::ReasoningStart;
                self.close = close;
                return true;
            }
        }
        for open in [CHANNEL, START] {
            if let Some(rest) = text.strip_prefix(open)
                && (self.has_headers || open == CHANNEL)
            {
                self.held = rest.to_owned();
                self.state = State::Header;
                self.has_headers = true;
                return true;
            }
        }
        if self.state == State::ReasoningStart {
            if let Some(rest) = text.strip_prefix(self.close) {
                self.held = rest.to_owned();
                self.state = State::AnswerStart;
                self.is_after_header = false;
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

    /// Reads the channel and the recipient of a message when its header is complete.
    fn read_header(&mut self) -> bool {
        let Some(end) = self.held.find(MESSAGE) else {
            return false;
        };
        let header = &self.held[..end];
        let recipient = header.find(RECIPIENT).map(|at| &header[at..]);
        let recipient = recipient.and_then(|text| text.split([' ', '<']).next());
        let channel = header.rsplit(CHANNEL).next().unwrap_or(header);
        self.state = if recipient.is_none() && channel.trim_start().starts_with(ANALYSIS) {
            State::ReasoningStart
        } else {
            // A tool call is part of the answer: nothing runs it, and it must not get lost.
            self.prefix = if self.has_answered { "\n\n" } else { "" }.to_owned();
            if let Some(recipient) = recipient {
                self.prefix += recipient;
                self.prefix.push('\n');
            }
            State::AnswerStart
        };
        self.close = END;
        self.is_after_header = true;
        self.held.drain(..end + MESSAGE.len());
        true
    }

    /// Starts the section's text with the held text, and drops layout before it.
    fn enter_section(&mut self) {
        let layout = match self.state {
            State::Opening => 0,
            State::ReasoningStart | State::AnswerStart => leading_layout_len(&self.held),
            State::Reasoning | State::Answer | State::Header => return,
        };
        self.held.drain(..layout);
        self.state = match self.state {
            State::ReasoningStart => State::Reasoning,
            _ => {
                self.held.insert_str(0, &std::mem::take(&mut self.prefix));
                State::Answer
            }
        };
    }

    /// Emits text before the marker `close`, which ends the section.
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
            self.state = State::AnswerStart;
            self.is_after_header = false;
        }
        end.is_some()
    }
}

/// Returns the number of bytes of leading white space that is layout: blank lines, or white space
/// on the marker's own line. The indentation of the first line of text is not layout.
fn leading_layout_len(text: &str) -> usize {
    let whitespace = text.len() - text.trim_start().len();
    match text[..whitespace].rfind('\n') {
        Some(last_break) if whitespace < text.len() => last_break + 1,
        _ => whitespace,
    }
}
