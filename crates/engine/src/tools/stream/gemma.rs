//! A call in the notation of Gemma 4: keys without quotes, and strings between `<|"|>`.

use super::arguments;
use super::{Declared, Part, Parts, Step};

const QUOTE: &str = "<|\"|>";
const CALL: &str = "call:";

/// What is open in the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Object,
    Array,
}

/// Reads a call such as `call:weather{city:<|"|>Zürich<|"|>,days:2}`.
#[derive(Debug, Default)]
pub(super) struct GemmaCall {
    /// The header, then what may become a quote, a key or a number.
    held: String,
    open: Vec<Open>,
    /// A key comes next, not a value.
    wants_key: bool,
    in_string: bool,
    /// A string was the last key or value.
    after_string: bool,
    /// The arguments as JSON.
    json: String,
}

impl GemmaCall {
    pub(super) fn has_begun(&self) -> bool {
        !self.json.is_empty()
    }

    pub(super) fn push(&mut self, c: char, declared: &Declared, parts: &mut Parts) -> Step {
        if !self.has_begun() {
            return self.push_header(c, declared, parts);
        }
        self.held.push(c);
        if self.in_string {
            self.push_string(parts);
            return Step::More;
        }
        if self.held.trim_start() == QUOTE {
            self.held.clear();
            self.in_string = true;
            self.write("\"", parts);
            return Step::More;
        }
        if QUOTE.starts_with(self.held.trim_start()) {
            return Step::More;
        }
        match c {
            ':' if self.wants_key => {
                self.write_word(true, parts);
                self.write(": ", parts);
                self.wants_key = false;
                Step::More
            }
            '{' | '[' => {
                self.held.clear();
                let kind = if c == '{' { Open::Object } else { Open::Array };
                self.open.push(kind);
                self.wants_key = kind == Open::Object;
                self.write(c.encode_utf8(&mut [0; 4]), parts);
                Step::More
            }
            ',' | '}' | ']' => self.push_end(c, parts),
            _ => Step::More,
        }
    }

    fn push_header(&mut self, c: char, declared: &Declared, parts: &mut Parts) -> Step {
        if c != '{' {
            self.held.push(c);
            let text = self.held.trim_start();
            let may_be_call = match text.strip_prefix(CALL) {
                Some(name) => declared.may_begin_with(name),
                None => CALL.starts_with(text),
            };
            return if may_be_call {
                Step::More
            } else {
                Step::Malformed
            };
        }
        let name = self.held.trim().strip_prefix(CALL).unwrap_or_default();
        if !declared.contains(name) {
            return Step::Malformed;
        }
        parts.begin(name);
        self.held.clear();
        self.open.push(Open::Object);
        self.wants_key = true;
        self.write("{", parts);
        Step::More
    }

    fn push_string(&mut self, parts: &mut Parts) {
        let end = self.held.strip_suffix(QUOTE);
        let certain = match end {
            Some(text) => text.len(),
            None => self.held.len() - crate::text::stop::longest_overlap(&self.held, QUOTE),
        };
        let json = serde_json::Value::from(&self.held[..certain]).to_string();
        let is_end = end.is_some();
        self.held.drain(..certain);
        self.write(&json[1..json.len() - 1], parts);
        if is_end {
            self.held.clear();
            self.in_string = false;
            self.after_string = true;
            self.write("\"", parts);
        }
    }

    /// Reads a comma or the end of an object or array.
    fn push_end(&mut self, c: char, parts: &mut Parts) -> Step {
        self.write_word(false, parts);
        if c == ',' {
            self.wants_key = self.open.last() == Some(&Open::Object);
            self.write(", ", parts);
            return Step::More;
        }
        let expected = if c == '}' { Open::Object } else { Open::Array };
        if self.open.pop() != Some(expected) {
            return Step::Malformed;
        }
        self.wants_key = false;
        self.write(c.encode_utf8(&mut [0; 4]), parts);
        if !self.open.is_empty() {
            return Step::More;
        }
        if arguments::object(&self.json).is_none() {
            return Step::Malformed;
        }
        parts.0.push(Part::End);
        Step::Done
    }

    /// Writes the key or value before the character that ends it, unless it was a string.
    fn write_word(&mut self, is_key: bool, parts: &mut Parts) {
        let held = std::mem::take(&mut self.held);
        let word = held.trim_end_matches([':', ',', '}', ']']).trim();
        if !std::mem::take(&mut self.after_string) && !word.is_empty() {
            match is_key {
                true => self.write(&serde_json::Value::from(word).to_string(), parts),
                false => self.write(word, parts),
            }
        }
    }

    fn write(&mut self, json: &str, parts: &mut Parts) {
        self.json.push_str(json);
        parts.arguments(json);
    }
}
