//! A call whose arguments are plain text in tags. The schema of the tool says what they are.

use super::{Declared, Part, Parts, Step};
use crate::text::stop::longest_overlap;
use crate::tools::families::Tags;
use crate::tools::schema::{ValueTypes, coerce};

#[derive(Debug)]
enum State {
    /// Before the name.
    Start,
    Name,
    /// Before a key or the end.
    Body,
    Key,
    /// Between a key and the tag of its value.
    BeforeValue(String),
    Value {
        types: ValueTypes,
        /// The value is a string, and goes out as it comes.
        is_open: bool,
    },
}

/// Reads a call such as `<function=weather>` `<parameter=city>` Zürich `</parameter>` `</function>`.
#[derive(Debug)]
pub(super) struct TaggedCall {
    tags: &'static Tags,
    state: State,
    held: String,
    name: String,
    has_begun: bool,
    has_keys: bool,
    /// A line break at the start of the value is layout.
    may_skip_break: bool,
}

impl TaggedCall {
    pub(super) fn new(tags: &'static Tags) -> Self {
        Self {
            tags,
            state: State::Start,
            held: String::new(),
            name: String::new(),
            has_begun: false,
            has_keys: false,
            may_skip_break: false,
        }
    }

    /// A call whose first tag was read.
    pub(super) fn after_open(tags: &'static Tags) -> Self {
        Self {
            state: State::Name,
            ..Self::new(tags)
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub(super) fn push(&mut self, c: char, declared: &Declared, parts: &mut Parts) -> Step {
        self.held.push(c);
        let tags = self.tags;
        match &self.state {
            State::Start => {
                if tags.before_name.is_empty() {
                    self.state = State::Name;
                    return self.read_name(declared, parts);
                }
                self.expect(tags.before_name, State::Name)
            }
            State::Name => self.read_name(declared, parts),
            State::Body => {
                if self.held.trim_start() == tags.end {
                    parts.arguments(if self.has_keys { "}" } else { "{}" });
                    parts.0.push(Part::End);
                    return Step::Done;
                }
                let end = tags.end.starts_with(self.held.trim_start());
                match self.expect(tags.before_key, State::Key) {
                    Step::Malformed if end => Step::More,
                    step => step,
                }
            }
            State::Key => {
                if let Some(key) = self.held.strip_suffix(tags.after_key) {
                    self.state = State::BeforeValue(key.trim().to_owned());
                    self.held.clear();
                    if tags.before_value.is_empty() {
                        self.begin_value(declared, parts);
                    }
                }
                Step::More
            }
            State::BeforeValue(_) => {
                let text = self.held.trim_start();
                if text == tags.before_value {
                    self.held.clear();
                    self.begin_value(declared, parts);
                } else if !tags.before_value.starts_with(text) {
                    return Step::Malformed;
                }
                Step::More
            }
            State::Value { .. } => {
                match std::mem::take(&mut self.may_skip_break) && c == '\n' {
                    true => self.held.clear(),
                    false => self.read_value(parts),
                }
                Step::More
            }
        }
    }

    /// Waits for this text after white space.
    fn expect(&mut self, expected: &str, next: State) -> Step {
        let text = self.held.trim_start();
        if text == expected {
            self.state = next;
            self.held.clear();
            return Step::More;
        }
        match expected.starts_with(text) {
            true => Step::More,
            false => Step::Malformed,
        }
    }

    fn read_name(&mut self, declared: &Declared, parts: &mut Parts) -> Step {
        // A name without a tag ends with its line, or where the first tag begins.
        let is_line = self.tags.after_name == "\n";
        let end = match is_line {
            true => self.held.find(['\n', '<']),
            false => self.held.find(self.tags.after_name),
        };
        let Some(end) = end else {
            return match declared.may_begin_with(&self.held) {
                true => Step::More,
                false => Step::Malformed,
            };
        };
        let name = self.held[..end].trim().to_owned();
        if !declared.contains(&name) {
            return Step::Malformed;
        }
        let rest = self.held.split_off(end);
        self.held = rest.trim_start_matches(['\n', '>']).to_owned();
        parts.begin(&name);
        self.name = name;
        self.has_begun = true;
        self.state = State::Body;
        Step::More
    }

    fn begin_value(&mut self, declared: &Declared, parts: &mut Parts) {
        let State::BeforeValue(key) = &self.state else {
            return;
        };
        let types = declared.value_types(&self.name, key);
        let is_open = types.is_only_string();
        parts.arguments(if self.has_keys { ", " } else { "{" });
        parts.arguments(&serde_json::Value::from(key.as_str()).to_string());
        parts.arguments(if is_open { ": \"" } else { ": " });
        self.has_keys = true;
        self.state = State::Value { types, is_open };
        self.may_skip_break = self.tags.has_line_breaks;
    }

    fn read_value(&mut self, parts: &mut Parts) {
        let State::Value { types, is_open } = &self.state else {
            return;
        };
        let close = self.tags.after_value;
        let layout = if self.tags.has_line_breaks { "\n" } else { "" };
        if let Some(value) = self.held.strip_suffix(close) {
            let value = value.strip_suffix(layout).unwrap_or(value);
            match is_open {
                true => {
                    parts.arguments(&escaped(value));
                    parts.arguments("\"");
                }
                false => parts.arguments(&coerce(value, types)),
            }
            self.state = State::Body;
            self.held.clear();
        } else if *is_open {
            let with_layout = format!("{layout}{close}");
            let overlap = longest_overlap(&self.held, close);
            let overlap = overlap.max(longest_overlap(&self.held, &with_layout));
            let certain = self.held.len() - overlap;
            parts.arguments(&escaped(&self.held[..certain]));
            self.held.drain(..certain);
        }
    }
}

/// Returns `text` as the inside of a JSON string.
fn escaped(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}
