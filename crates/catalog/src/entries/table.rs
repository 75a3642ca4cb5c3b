//! Reads a TOML table key by key.
//!
//! Rule: an error is reported once, in words, at the position of the value. A wrong value then
//! counts as missing.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::line_of;
use super::{CatalogError, CatalogErrorCode};

/// Maximum length of a text value in bytes.
const MAX_TEXT_BYTES: usize = 2000;

/// Keys that had another name before: the old name, which is still read, and the new one.
const OLD_SPELLINGS: [(&str, &str); 2] = [("licence", "license"), ("packing", "quantization")];

/// A file that is being read, and the errors in it so far.
pub(super) struct Document<'a> {
    text: &'a str,
    file: &'a Path,
    errors: RefCell<Vec<CatalogError>>,
}

impl<'a> Document<'a> {
    pub(super) fn new(text: &'a str, file: &'a Path) -> Self {
        Self {
            text,
            file,
            errors: RefCell::default(),
        }
    }

    /// Records an error of `key` at this byte of the file.
    pub(super) fn report(
        &self,
        code: CatalogErrorCode,
        at: usize,
        key: &str,
        reason: impl Into<String>,
    ) {
        let error = CatalogError::at(self.file, self.text, at, code, key, reason);
        self.errors.borrow_mut().push(error);
    }

    pub(super) fn wrong(&self, at: usize, key: &str, reason: impl Into<String>) {
        self.report(CatalogErrorCode::WrongValue, at, key, reason);
    }

    pub(super) fn n_errors(&self) -> usize {
        self.errors.borrow().len()
    }

    /// Returns the line of this byte, from 1.
    pub(super) fn line_of(&self, at: usize) -> usize {
        line_of(self.text, at)
    }

    pub(super) fn into_errors(self) -> Vec<CatalogError> {
        let mut errors = self.errors.into_inner();
        errors.sort_by_key(|error| (error.line, error.column));
        errors
    }
}

/// A value, and the byte of the file where it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) at: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    values: &'a DeTable<'a>,
    pub(super) document: &'a Document<'a>,
    /// The byte where the table begins.
    pub(super) at: usize,
    /// Name of the table in messages, such as `this variant`.
    what: &'static str,
}

impl<'a> Table<'a> {
    pub(super) fn root(values: &'a DeTable<'a>, document: &'a Document<'a>) -> Self {
        Self {
            values,
            document,
            at: 0,
            what: "the list",
        }
    }

    pub(super) fn wrong(&self, at: usize, key: &str, reason: impl Into<String>) {
        self.document.wrong(at, key, reason);
    }

    pub(super) fn allow_only(&self, known: &[&str]) {
        for key in self.values.keys() {
            let name: &str = key.get_ref();
            let at = key.span().start;
            if known.contains(&name) {
                continue;
            }
            if let Some(new) = new_spelling(name).filter(|new| known.contains(new)) {
                if self.values.contains_key(new) {
                    let reason =
                        format!("`{name}` is the old name of `{new}`; remove one of the two");
                    self.document
                        .report(CatalogErrorCode::Duplicate, at, name, reason);
                }
                continue;
            }
            let shown = displayable(name);
            let reason = match suggestion(name, known) {
                Some(suggestion) => format!("there is no key `{shown}`{suggestion}"),
                None => {
                    let known = known.join(", ");
                    format!("there is no key `{shown}` here; the keys are {known}")
                }
            };
            self.document
                .report(CatalogErrorCode::UnknownKey, at, &shown, reason);
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns the position of the value of `key`, else that of the table.
    pub(super) fn position_of(&self, key: &str) -> usize {
        self.get(key).map_or(self.at, |value| value.span().start)
    }

    pub(super) fn missing(&self, key: &str, reason: impl Into<String>) {
        self.document
            .report(CatalogErrorCode::MissingKey, self.at, key, reason);
    }

    /// Returns `found`. If the key is missing, reports an error with `example`.
    pub(super) fn require<T>(&self, key: &str, example: &str, found: Option<T>) -> Option<T> {
        if found.is_none() && !self.has(key) {
            let reason = format!("{} has no `{key}`; write {key} = {example}", self.what);
            self.missing(key, reason);
        }
        found
    }

    /// Returns a text: not empty, and without invisible characters.
    pub(super) fn text(&self, key: &str) -> Option<Located<String>> {
        self.text_of(self.get(key)?, key, &format!("`{key}`"))
    }

    /// Returns a text as it is, with its blanks and line breaks.
    pub(super) fn exact_text(&self, key: &str) -> Option<Located<String>> {
        self.exact_text_of(self.get(key)?, key, &format!("`{key}`"), &['\n'])
    }

    pub(super) fn required_text(&self, key: &str, example: &str) -> Option<Located<String>> {
        self.require(key, example, self.text(key))
    }

    /// Returns the text `found` of `key` if it `is_right`; else reports `reason`.
    pub(super) fn check(
        &self,
        key: &str,
        found: Option<Located<String>>,
        reason: &str,
        is_right: impl Fn(&str) -> bool,
    ) -> Option<Located<String>> {
        let found = found?;
        if !is_right(&found.value) {
            self.wrong(found.at, key, reason);
            return None;
        }
        Some(found)
    }

    /// Returns the correct texts of a list; empty if the key is missing.
    pub(super) fn texts(&self, key: &str) -> Vec<Located<String>> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let Some(array) = value.get_ref().as_array() else {
            let example = format!("a list such as {key} = [\"…\"]");
            self.wrong_type::<()>(value, key, &format!("`{key}`"), &example);
            return Vec::new();
        };
        let what = format!("each of `{key}`");
        let texts = array.iter();
        texts
            .filter_map(|value| self.text_of(value, key, &what))
            .collect()
    }

    pub(super) fn number(&self, key: &str, range: RangeInclusive<u64>) -> Option<Located<u64>> {
        let value = self.get(key)?;
        let Some(number) = value.get_ref().as_integer() else {
            return self.wrong_type(value, key, &format!("`{key}`"), "a whole number");
        };
        let number = u64::from_str_radix(number.as_str(), number.radix());
        self.in_range(value, key, number.ok(), range)
    }

    /// Returns a number in `range`, with or without a fraction.
    pub(super) fn fraction(&self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let value = self.get(key)?;
        let number = match value.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
            _ => return self.wrong_type(value, key, &format!("`{key}`"), "a number"),
        };
        Some(self.in_range(value, key, number, range)?.value)
    }

    fn in_range<T: PartialOrd + Display>(
        &self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        number: Option<T>,
        range: RangeInclusive<T>,
    ) -> Option<Located<T>> {
        let at = value.span().start;
        let found = number.filter(|number| range.contains(number));
        if found.is_none() {
            let (least, most) = range.into_inner();
            self.wrong(at, key, format!("`{key}` must be from {least} to {most}"));
        }
        found.map(|value| Located { value, at })
    }

    pub(super) fn table(&self, key: &str, what: &'static str) -> Option<Self> {
        self.table_of(self.get(key)?, key, &format!("`{key}`"), what)
    }

    /// Returns the correct tables of a list inside this table. `header` is how each begins.
    pub(super) fn tables(&self, key: &str, header: &str, what: &'static str) -> Vec<Self> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let Some(array) = value.get_ref().as_array() else {
            let reason = format!("begin each `{key}` with {header}");
            let at = value.span().start;
            self.document
                .report(CatalogErrorCode::WrongType, at, key, reason);
            return Vec::new();
        };
        let each = format!("each `{key}`");
        let tables = array.iter();
        tables
            .filter_map(|value| self.table_of(value, key, &each, what))
            .collect()
    }

    fn table_of(
        &self,
        value: &'a Spanned<DeValue<'a>>,
        key: &str,
        name: &str,
        what: &'static str,
    ) -> Option<Self> {
        let Some(values) = value.get_ref().as_table() else {
            return self.wrong_type(value, key, name, "a table");
        };
        Some(Self {
            values,
            document: self.document,
            at: value.span().start,
            what,
        })
    }

    fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        let old = || {
            let (old, _) = OLD_SPELLINGS.iter().find(|(_, new)| *new == key)?;
            self.values.get(*old)
        };
        self.values.get(key).or_else(old)
    }

    fn text_of(
        &self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        what: &str,
    ) -> Option<Located<String>> {
        let Located { value, at } = self.exact_text_of(value, key, what, &[])?;
        let value = value.trim().to_owned();
        Some(Located { value, at })
    }

    fn exact_text_of(
        &self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        what: &str,
        allowed: &[char],
    ) -> Option<Located<String>> {
        let at = value.span().start;
        let Some(text) = value.get_ref().as_str() else {
            return self.wrong_type(value, key, what, "text in quotes");
        };
        let reason = if text.trim().is_empty() {
            format!("{what} is empty; write something, or remove the key")
        } else if text.len() > MAX_TEXT_BYTES {
            let n_bytes = text.len();
            format!("{what} is {n_bytes} bytes long; the limit is {MAX_TEXT_BYTES}")
        } else if let Some(hidden) = text.chars().find(|c| is_hidden(*c) && !allowed.contains(c)) {
            let code = u32::from(hidden);
            format!("{what} contains an invisible character (U+{code:04X}); remove it")
        } else {
            let value = text.to_owned();
            return Some(Located { value, at });
        };
        self.wrong(at, key, reason);
        None
    }

    /// Reports a value of the wrong type. `what` names the value.
    fn wrong_type<T>(
        &self,
        value: &Spanned<DeValue<'_>>,
        key: &str,
        what: &str,
        expected: &str,
    ) -> Option<T> {
        let found = match value.get_ref() {
            DeValue::String(_) => "text in quotes",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let reason = format!("{what} must be {expected}, not {found}");
        let at = value.span().start;
        self.document
            .report(CatalogErrorCode::WrongType, at, key, reason);
        None
    }
}

/// Returns the current spelling of a key whose old spelling is `name`.
pub(super) fn new_spelling(name: &str) -> Option<&'static str> {
    let (_, new) = OLD_SPELLINGS.iter().find(|(old, _)| *old == name)?;
    Some(new)
}

/// Returns true for control characters, which a terminal would obey, and for characters that change
/// the direction of the text after them, so that a name reads as another.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Returns the end of a sentence that suggests the most similar name in `known`.
pub(super) fn suggestion(name: &str, known: &[&str]) -> Option<String> {
    nearest(name, known).map(|near| format!("; did you mean `{near}`?"))
}

fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let name = name.to_lowercase();
    let changes = |other: &&&str| strsim::damerau_levenshtein(&name, &other.to_lowercase());
    let near = known.iter().min_by_key(changes)?;
    let most = (near.len().min(name.len()) / 3).max(1);
    if changes(&near) <= most {
        return Some(near);
    }
    let is_part =
        |other: &&&str| name.len() >= 3 && (other.contains(&*name) || name.contains(**other));
    known.iter().find(is_part).copied()
}

/// Returns a name from a file in a form that is safe to display.
pub(super) fn displayable(name: &str) -> String {
    const MOST: usize = 60;
    let visible = name.chars().filter(|&c| !is_hidden(c));
    let mut displayable: String = visible.take(MOST).collect();
    if name.chars().count() > MOST {
        displayable.push('…');
    }
    displayable
}
