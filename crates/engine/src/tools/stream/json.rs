//! A call as a JSON object with the name and the arguments.

use super::arguments::{self, Scan, Scanner};
use super::{Declared, Parts, Step};

#[derive(Debug, Default)]
enum State {
    /// Before the object.
    #[default]
    Start,
    /// Before a key or the end of the object.
    BeforeKey,
    /// In a key, with its quotes.
    Key(String),
    /// Before the value of a key.
    Colon(String),
    Value {
        key: String,
        scanner: Scanner,
        json: String,
    },
    AfterValue,
}

/// Reads a call such as `{"name": "weather", "arguments": {"city": "Zürich"}}`. Other keys are
/// skipped.
#[derive(Debug, Default)]
pub(super) struct JsonCall {
    state: State,
    name: Option<String>,
    /// Complete arguments that came before the name.
    arguments: Option<String>,
    has_begun: bool,
    has_arguments: bool,
    has_other_keys: bool,
}

/// The keys that models write in calls.
const KEYS: [&str; 4] = ["name", "parameters", "arguments", "type"];

impl JsonCall {
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Returns true if all keys so far are those of a call. Other JSON may be an answer.
    pub(super) fn has_keys_of_call(&self) -> bool {
        let begins_key = |begin: &str| KEYS.iter().any(|key| key.starts_with(begin));
        match &self.state {
            State::Key(key) => !self.has_other_keys && begins_key(key.trim_start_matches('"')),
            _ => !self.has_other_keys,
        }
    }

    pub(super) fn push(&mut self, c: char, declared: &Declared, parts: &mut Parts) -> Step {
        let is_space = c.is_whitespace();
        match std::mem::take(&mut self.state) {
            State::Start => match c {
                '{' => self.state = State::BeforeKey,
                _ if is_space => {}
                _ => return Step::Malformed,
            },
            State::BeforeKey => match c {
                '"' => self.state = State::Key(c.to_string()),
                '}' => return self.end(parts),
                _ if is_space => self.state = State::BeforeKey,
                _ => return Step::Malformed,
            },
            State::Key(mut key) => {
                key.push(c);
                self.state = match c {
                    '"' => {
                        let key = key.trim_matches('"');
                        self.has_other_keys |= !KEYS.contains(&key);
                        State::Colon(key.to_owned())
                    }
                    _ => State::Key(key),
                };
            }
            State::Colon(key) => match c {
                ':' => {
                    self.state = State::Value {
                        key,
                        scanner: Scanner::default(),
                        json: String::new(),
                    }
                }
                _ if is_space => self.state = State::Colon(key),
                _ => return Step::Malformed,
            },
            State::Value { key, json, scanner } if is_space && json.is_empty() => {
                self.state = State::Value { key, json, scanner };
            }
            State::Value { key, json, scanner } => {
                return self.push_value((key, json, scanner), c, declared, parts);
            }
            State::AfterValue => match c {
                ',' => self.state = State::BeforeKey,
                '}' => return self.end(parts),
                _ if is_space => self.state = State::AfterValue,
                _ => return Step::Malformed,
            },
        }
        Step::More
    }

    fn push_value(
        &mut self,
        (key, mut json, mut scanner): (String, String, Scanner),
        c: char,
        declared: &Declared,
        parts: &mut Parts,
    ) -> Step {
        let scan = scanner.push(c);
        if scan != Scan::Behind {
            json.push(c);
        }
        let is_name = key == "name" && self.name.is_none();
        let is_arguments = matches!(key.as_str(), "arguments" | "parameters");
        // An object goes out as it comes. Anything else is checked first.
        let is_streamed = is_arguments && self.has_begun && json.starts_with('{');
        if is_streamed {
            parts.arguments(c.encode_utf8(&mut [0; 4]));
        }
        if scan == Scan::Inside {
            let begins = json.strip_prefix('"').unwrap_or(&json);
            // An escape may stand for any letter.
            if is_name && !begins.contains('\\') && !declared.may_begin_with(begins) {
                return Step::Malformed;
            }
            self.state = State::Value { key, json, scanner };
            return Step::More;
        }
        if is_name {
            let name = serde_json::from_str::<String>(&json).ok();
            let Some(name) = name.filter(|name| declared.contains(name)) else {
                return Step::Malformed;
            };
            parts.begin(&name);
            self.has_begun = true;
            self.name = Some(name);
            if let Some(arguments) = self.arguments.take() {
                parts.arguments(&arguments);
            }
        } else if is_arguments && !self.has_arguments {
            let Some(object) = arguments::object(&json) else {
                return Step::Malformed;
            };
            self.has_arguments = true;
            match self.has_begun {
                true if is_streamed => {}
                true => parts.arguments(&object),
                false => self.arguments = Some(object),
            }
        }
        self.state = State::AfterValue;
        match scan {
            // The character belongs to the object.
            Scan::Behind => self.push(c, declared, parts),
            Scan::Inside | Scan::Last => Step::More,
        }
    }

    fn end(&mut self, parts: &mut Parts) -> Step {
        if !self.has_begun {
            return Step::Malformed;
        }
        if !self.has_arguments {
            parts.arguments("{}");
        }
        parts.0.push(super::Part::End);
        Step::Done
    }
}
