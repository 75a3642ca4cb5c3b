//! A call whose name comes before an object with the arguments.

use super::arguments::{self, Scan, Scanner};
use super::{Declared, Part, Parts, Step};

/// Reads a call such as `weather[ARGS]{"city": "Zürich"}`.
#[derive(Debug, Default)]
pub(super) struct HeaderCall {
    header: String,
    scanner: Scanner,
    /// The arguments so far; empty in the header.
    json: String,
}

impl HeaderCall {
    pub(super) fn has_begun(&self) -> bool {
        !self.json.is_empty()
    }

    pub(super) fn push(&mut self, c: char, declared: &Declared, parts: &mut Parts) -> Step {
        if self.json.is_empty() {
            if c != '{' {
                self.header.push(c);
                return match may_name(&self.header, declared) {
                    true => Step::More,
                    false => Step::Malformed,
                };
            }
            let name = name(&self.header);
            if !declared.contains(name) {
                return Step::Malformed;
            }
            parts.begin(name);
        }
        self.json.push(c);
        parts.arguments(c.encode_utf8(&mut [0; 4]));
        if self.scanner.push(c) != Scan::Last {
            return Step::More;
        }
        if arguments::object(&self.json).is_none() {
            return Step::Malformed;
        }
        parts.0.push(Part::End);
        Step::Done
    }
}

/// Returns true if the start of a header may name a declared tool.
fn may_name(header: &str, declared: &Declared) -> bool {
    const FUNCTION: &str = "function<｜tool▁sep｜>";
    let header = header.trim_start();
    let of_function = header.strip_prefix(FUNCTION);
    declared.may_begin_with(of_function.unwrap_or(header)) || FUNCTION.starts_with(header)
}

/// Returns the name in a header: `NAME[ARGS]`, `NAME[CALL_ID]ID[ARGS]`, `NAME<｜tool▁sep｜>`,
/// `function<｜tool▁sep｜>NAME` and a line with a fence, or NAME and a line break.
fn name(header: &str) -> &str {
    let header = header.split("[CALL_ID]").next().unwrap_or_default();
    let header = header.split("[ARGS]").next().unwrap_or_default();
    let (before, after) = header.split_once("<｜tool▁sep｜>").unwrap_or((header, ""));
    let after = after.trim_start().lines().next().unwrap_or_default();
    match after.is_empty() || after.starts_with("```") {
        true => before.trim(),
        false => after.trim(),
    }
}
