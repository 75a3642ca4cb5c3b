//! A JSON value that arrives character by character.

/// What a character is to the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scan {
    /// Part of it.
    Inside,
    /// Its last character.
    Last,
    /// The first character after it, which ends a number or a word.
    Behind,
}

/// Finds the end of a JSON value. It does not check the value.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    in_word: bool,
}

impl Scanner {
    pub(super) fn push(&mut self, c: char) -> Scan {
        if self.in_string {
            match c {
                _ if self.is_escaped => self.is_escaped = false,
                '\\' => self.is_escaped = true,
                '"' => self.in_string = false,
                _ => {}
            }
            return self.inside_or_last(!self.in_string);
        }
        if self.in_word {
            return match c {
                ',' | '}' | ']' => Scan::Behind,
                _ if c.is_whitespace() => Scan::Behind,
                _ => Scan::Inside,
            };
        }
        match c {
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            '"' => self.in_string = true,
            _ if self.depth == 0 => self.in_word = true,
            _ => {}
        }
        self.inside_or_last(matches!(c, '}' | ']'))
    }

    fn inside_or_last(&self, is_end: bool) -> Scan {
        match is_end && self.depth == 0 {
            true => Scan::Last,
            false => Scan::Inside,
        }
    }
}

/// Returns the arguments that `json` holds: an object, or a string that contains one, as some models
/// write it.
pub(super) fn object(json: &str) -> Option<String> {
    match serde_json::from_str(json).ok()? {
        serde_json::Value::Object(_) => Some(json.to_owned()),
        serde_json::Value::String(text) => {
            let inner: serde_json::Value = serde_json::from_str(&text).ok()?;
            inner.is_object().then_some(text)
        }
        _ => None,
    }
}
