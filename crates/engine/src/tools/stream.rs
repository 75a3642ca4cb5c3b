//! Recognizes tool calls in the text of an answer while it is streamed.
//!
//! Every character moves a state machine, so the result does not depend on how the text is split.
//! Text is held back only while it may become a marker, or a call whose name is not known yet.
//!
//! Rule: a call begins with the name of a declared tool. Everything else stays text, and what is inside
//! a string of the arguments is data.

mod arguments;
mod gemma;
mod header;
mod json;
mod tags;

use std::collections::VecDeque;

use self::gemma::GemmaCall;
use self::header::HeaderCall;
use self::json::JsonCall;
use self::tags::TaggedCall;
use super::Declared;
use super::families::{ARGUMENT_TAGS, CallGrammar, FUNCTION_TAGS, Family, Form, Open};
use crate::text::stop::longest_overlap;

/// Longest text before the name of a call is complete.
const MAX_HEADER_BYTES: usize = 1024;

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// Text that belongs to no call.
    Text(String),
    /// A call of this tool begins.
    Begin(String),
    /// The next part of its arguments, which together are a JSON object.
    Arguments(String),
    /// The call is complete.
    End,
}

/// Parts in order; texts and arguments in a row are joined.
#[derive(Debug, Default)]
pub(crate) struct Parts(pub(crate) Vec<Part>);

impl Parts {
    fn text(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(last)) => last.push_str(text),
            _ => self.0.push(Part::Text(text.to_owned())),
        }
    }

    fn begin(&mut self, name: &str) {
        self.0.push(Part::Begin(name.to_owned()));
    }

    fn arguments(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Arguments(last)) => last.push_str(text),
            _ => self.0.push(Part::Arguments(text.to_owned())),
        }
    }
}

/// How a call goes on after a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It needs more.
    More,
    /// It is complete.
    Done,
    /// This is no call.
    Malformed,
}

/// A call in the making.
#[derive(Debug)]
enum Call {
    Json(JsonCall),
    Header(HeaderCall),
    Tagged(TaggedCall),
    Gemma(GemmaCall),
}

impl Call {
    fn push(&mut self, c: char, declared: &Declared, parts: &mut Parts) -> Step {
        match self {
            Self::Json(call) => call.push(c, declared, parts),
            Self::Header(call) => call.push(c, declared, parts),
            Self::Tagged(call) => call.push(c, declared, parts),
            Self::Gemma(call) => call.push(c, declared, parts),
        }
    }

    /// Returns true if what is known so far can hardly be anything but a call.
    fn is_likely(&self, open: Open) -> bool {
        match self {
            // Only the keys tell it from an answer in JSON.
            Self::Json(call) if open.marker == "{" => call.has_keys_of_call(),
            _ => true,
        }
    }

    fn has_begun(&self) -> bool {
        match self {
            Self::Json(call) => call.has_begun(),
            Self::Header(call) => call.has_begun(),
            Self::Tagged(call) => call.has_begun(),
            Self::Gemma(call) => call.has_begun(),
        }
    }
}

#[derive(Debug)]
enum State {
    /// Text. What is held may become a marker, or white space before one.
    Text,
    /// After an opening text, which is held, while only white space followed.
    Opened(Open),
    /// In a call. Until it has begun, all of it is held.
    Call { call: Call, open: Open },
    /// After a call, while only layout and closing texts follow.
    After(Open),
}

/// Splits the text of an answer into text and calls.
#[derive(Debug)]
pub(crate) struct ToolStream {
    family: &'static Family,
    is_required: bool,
    state: State,
    held: String,
    /// True while the answer has no text and no call yet.
    is_first: bool,
    /// Characters to read before new ones.
    again: VecDeque<char>,
}

impl ToolStream {
    /// `is_required` is true if the answer is calls and nothing else.
    pub(crate) fn new(family: &'static Family, is_required: bool) -> Self {
        Self {
            family,
            is_required,
            state: State::Text,
            held: String::new(),
            is_first: true,
            again: VecDeque::new(),
        }
    }

    /// Returns the number of bytes that are held back as possible text.
    pub(crate) fn n_held(&self) -> usize {
        self.held.len()
    }

    /// Adds text of the answer, and the parts that are now certain.
    pub(crate) fn push(&mut self, text: &str, declared: &Declared, parts: &mut Parts) {
        for c in text.chars() {
            self.step(c, declared, parts);
            while let Some(c) = self.again.pop_front() {
                self.step(c, declared, parts);
            }
        }
    }

    /// Adds the text that was held back, at the end of the response. A call that is not complete has no
    /// end. If a limit cut the response (`is_cut`), the beginning of a call is no text, even if its name
    /// is not known yet.
    pub(crate) fn finish(&mut self, is_cut: bool, parts: &mut Parts) {
        let is_call = match &self.state {
            State::Text => is_cut && (self.is_required || self.ends_in_marker()),
            State::Opened(_) => is_cut,
            State::Call { call, open } => call.has_begun() || is_cut && call.is_likely(*open),
            // Layout.
            State::After(_) => true,
        };
        // What is dropped still counts as held back.
        if !is_call {
            parts.text(&std::mem::take(&mut self.held));
        }
    }

    /// Returns the texts before a call that are no text of the response.
    fn markers(&self) -> impl Iterator<Item = &'static str> + use<> {
        let opens = self.family.opens.iter().map(|open| open.marker);
        opens.chain(self.family.wrappers.iter().copied())
    }

    /// Returns true if the text ends in half of a text that comes before calls, or in more of it.
    fn ends_in_marker(&self) -> bool {
        self.markers().any(|marker| {
            let begun = &marker[..longest_overlap(&self.held, marker)];
            !begun.is_empty() && 2 * begun.chars().count() + 1 >= marker.chars().count()
        })
    }

    fn step(&mut self, c: char, declared: &Declared, parts: &mut Parts) {
        match &mut self.state {
            State::Text => {
                self.held.push(c);
                self.read_text(parts);
            }
            State::Opened(open) => {
                let open = *open;
                self.held.push(c);
                if c.is_whitespace() {
                    return;
                }
                let call = Call::new(open.form, c, self.family);
                self.state = State::Call { call, open };
                if c != '[' || open.form != Form::Any {
                    self.read_call(c, open, declared, parts);
                }
            }
            State::Call { open, .. } => {
                let open = *open;
                self.held.push(c);
                self.read_call(c, open, declared, parts);
            }
            State::After(open) => {
                let open = *open;
                self.held.push(c);
                self.read_after(open);
            }
        }
    }

    /// Searches the held text for a marker. Emits what can be none.
    fn read_text(&mut self, parts: &mut Parts) {
        let is_ready = |open: &&Open| {
            let before = self.held.len().checked_sub(open.marker.len());
            let at_start = || before.is_some_and(|n| self.held[..n].trim_start().is_empty());
            self.held.ends_with(open.marker) && (!open.only_first || self.is_first && at_start())
        };
        if let Some(open) = self.family.opens.iter().find(is_ready).copied() {
            let before = self.held.len() - open.marker.len();
            let text = self.held[..before].trim_end();
            self.is_first &= text.is_empty();
            parts.text(text);
            let n_text = text.len();
            self.held.drain(..n_text);
            if open.marker == "{" {
                // The marker is the first character of the call.
                self.held.pop();
                self.again.push_front('{');
            }
            self.state = State::Opened(open);
            return;
        }
        let mut wrappers = self.family.wrappers.iter();
        if let Some(wrapper) = wrappers.find(|text| self.held.ends_with(**text)) {
            self.held.truncate(self.held.len() - wrapper.len());
            return;
        }
        let overlap = self
            .markers()
            .map(|marker| longest_overlap(&self.held, marker));
        let overlap = overlap.max().unwrap_or(0);
        let certain = self.held[..self.held.len() - overlap].trim_end().len();
        if certain > 0 {
            self.is_first = false;
            parts.text(&self.held[..certain]);
            self.held.drain(..certain);
        }
    }

    fn read_call(&mut self, c: char, open: Open, declared: &Declared, parts: &mut Parts) {
        let State::Call { call, .. } = &mut self.state else {
            return;
        };
        let step = call.push(c, declared, parts);
        let has_begun = call.has_begun();
        if has_begun {
            self.held.clear();
            self.is_first = false;
        }
        let is_too_long = !has_begun && step == Step::More && {
            !matches!(call, Call::Json(_)) && self.held.len() > MAX_HEADER_BYTES
        };
        match step {
            Step::Done => self.state = State::After(open),
            Step::More if !is_too_long => {}
            Step::More | Step::Malformed => {
                self.state = State::Text;
                if has_begun {
                    // The rest of a broken call stays visible.
                    self.held.clear();
                    self.again.push_front(c);
                    self.is_first = false;
                } else {
                    self.reject(open, parts);
                }
            }
        }
    }

    /// Makes the start of what is held text, and reads the rest again.
    fn reject(&mut self, open: Open, parts: &mut Parts) {
        let held = std::mem::take(&mut self.held);
        let start = match held.find(open.marker) {
            Some(at) => at + open.marker.len(),
            // Another object of a list: its first character.
            None => held.chars().next().map_or(0, char::len_utf8),
        };
        let (text, rest) = held.split_at(start);
        parts.text(text);
        self.is_first = false;
        for c in rest.chars().rev() {
            self.again.push_front(c);
        }
    }

    fn read_after(&mut self, open: Open) {
        let text = self.held.trim_start();
        let mut closers = self.family.closers.iter();
        if text.is_empty() {
            return;
        }
        if closers.any(|closer| text == *closer) {
            self.held.clear();
            return;
        }
        if self.family.closers.iter().any(|it| it.starts_with(text)) {
            return;
        }
        let held = std::mem::take(&mut self.held);
        // Another object of the same list.
        let is_object = open.form == Form::Any && held.trim_start() == "{";
        self.state = match is_object {
            true => State::Opened(open),
            false => State::Text,
        };
        for c in held.trim_start().chars().rev() {
            self.again.push_front(c);
        }
        self.is_first = false;
    }
}

impl Call {
    /// Returns a call whose first character is `c`.
    fn new(form: Form, c: char, family: &Family) -> Self {
        let has_header = matches!(family.grammar, CallGrammar::Json { before: "", .. });
        match form {
            Form::Header => Self::Header(HeaderCall::default()),
            Form::Function => Self::Tagged(TaggedCall::after_open(&FUNCTION_TAGS)),
            Form::Gemma => Self::Gemma(GemmaCall::default()),
            Form::Any if c == '<' => Self::Tagged(TaggedCall::new(&FUNCTION_TAGS)),
            Form::Any if matches!(c, '{' | '[') => Self::Json(JsonCall::default()),
            Form::Any if family.grammar == CallGrammar::Tags(&ARGUMENT_TAGS) => {
                Self::Tagged(TaggedCall::new(&ARGUMENT_TAGS))
            }
            Form::Any if has_header => Self::Header(HeaderCall::default()),
            // This refuses anything but an object.
            Form::Any => Self::Json(JsonCall::default()),
        }
    }
}
