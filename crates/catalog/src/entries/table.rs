//! Reads a TOML table key by key.
//!
//! Rule: an error is reported once, in words, at the position of the value. A wrong value then
//! counts as missing.

use std::ops::RangeInclusive;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::CatalogError;

/// Maximum length of a text value in bytes.
const MAX_TEXT_BYTES: usize = 2000;

/// Keys that had another spelling before: the old spelling, which is still read, and the new one.
const OLD_SPELLINGS: [(&str, &str); 1] = [("licence", "license")];

/// A file that is being read, and the errors in it so far.
pub(super) struct Document<'a> {
    text: &'a str,
    file: &'a Path,
    errors: Vec<CatalogError>,
}

impl<'a> Document<'a> {
    pub(super) fn new(text: &'a str, file: &'a Path) -> Self {
        Self {
            text,
            file,
            errors: Vec::new(),
        }
    }

    /// Records an error at this byte of the file.
    pub(super) fn wrong(&mut self, at: usize, reason: impl Into<String>) {
        let error = CatalogError::at(self.file, self.text, at, reason);
        self.errors.push(error);
    }

    pub(super) fn n_errors(&self) -> usize {
        self.errors.len()
    }

    /// Returns the line of this byte, from 1.
    pub(super) fn line_of(&self, at: usize) -> usize {
        CatalogError::at(self.file, self.text, at, "").line
    }

    /// Returns all errors in the order of the file.
    pub(super) fn into_errors(mut self) -> Vec<CatalogError> {
        let place = |error: &CatalogError| (error.line, error.column);
        self.errors.sort_by_key(place);
        self.errors
    }
}

/// A value, and the byte of the file where it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) at: usize,
}

/// A table of a file.
#[derive(Clone)]
pub(super) struct Table<'a> {
    values: &'a DeTable<'a>,
    /// The byte where the table begins.
    pub(super) at: usize,
    /// Name of the table in messages, such as `this variant`.
    what: String,
}

impl<'a> Table<'a> {
    pub(super) fn new(values: &'a DeTable<'a>, at: usize, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { values, at, what }
    }

    /// Reports keys that are not in `known`.
    pub(super) fn allow_only(&self, known: &[&str], document: &mut Document<'_>) {
        for key in self.values.keys() {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            if let Some(new) = new_spelling(name).filter(|new| known.contains(new)) {
                if self.values.contains_key(new) {
                    let reason =
                        format!("`{name}` is the old name of `{new}`; remove one of the two");
                    document.wrong(key.span().start, reason);
                }
                continue;
            }
            let reason = match suggestion(name, known) {
                Some(suggestion) => format!("there is no key `{}`{suggestion}", displayable(name)),
                None => format!(
                    "there is no key `{}` here; the keys are {}",
                    displayable(name),
                    known.join(", ")
                ),
            };
            document.wrong(key.span().start, reason);
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns the position of the value of `key`, else that of the table.
    pub(super) fn position_of(&self, key: &str) -> usize {
        self.get(key).map_or(self.at, |value| value.span().start)
    }

    /// Returns `found`. If the key is missing, reports an error with `example`.
    pub(super) fn require<T>(
        &self,
        key: &str,
        example: &str,
        found: Option<T>,
        document: &mut Document<'_>,
    ) -> Option<T> {
        if found.is_none() && !self.has(key) {
            let reason = format!("{} has no `{key}`; write {key} = {example}", self.what);
            document.wrong(self.at, reason);
        }
        found
    }

    /// Returns a text: not empty, and without invisible characters.
    pub(super) fn text(&self, key: &str, document: &mut Document<'_>) -> Option<Located<String>> {
        let (value, at) = self.value(key)?;
        text_of(value, at, &format!("`{key}`"), document)
    }

    /// Returns the correct texts of a list; empty if the key is missing.
    pub(super) fn texts(&self, key: &str, document: &mut Document<'_>) -> Vec<Located<String>> {
        let Some((value, at)) = self.value(key) else {
            return Vec::new();
        };
        let Some(array) = value.as_array() else {
            let example = format!("a list such as {key} = [\"…\"]");
            wrong_kind(&format!("`{key}`"), &example, value, at, document);
            return Vec::new();
        };
        let what = format!("each of `{key}`");
        let texts = array.iter().filter_map(|value| {
            let at = value.span().start;
            text_of(value.get_ref(), at, &what, document)
        });
        texts.collect()
    }

    /// Returns a whole number in `range`.
    pub(super) fn number(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
        document: &mut Document<'_>,
    ) -> Option<Located<u64>> {
        let (value, at) = self.value(key)?;
        let Some(number) = value.as_integer() else {
            wrong_kind(&format!("`{key}`"), "a whole number", value, at, document);
            return None;
        };
        let number = u64::from_str_radix(number.as_str(), number.radix());
        match number.ok().filter(|number| range.contains(number)) {
            Some(value) => Some(Located { value, at }),
            None => {
                let (least, most) = range.into_inner();
                document.wrong(at, format!("`{key}` must be from {least} to {most}"));
                None
            }
        }
    }

    /// Returns a number in `range`, with or without a fraction.
    pub(super) fn fraction(
        &self,
        key: &str,
        range: RangeInclusive<f64>,
        document: &mut Document<'_>,
    ) -> Option<Located<f64>> {
        let (value, at) = self.value(key)?;
        let number = match value {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
            _ => {
                wrong_kind(&format!("`{key}`"), "a number", value, at, document);
                return None;
            }
        };
        match number.filter(|number| range.contains(number)) {
            Some(value) => Some(Located { value, at }),
            None => {
                let (least, most) = range.into_inner();
                document.wrong(at, format!("`{key}` must be from {least} to {most}"));
                None
            }
        }
    }

    /// Returns a table inside this one.
    pub(super) fn table(
        &self,
        key: &str,
        what: impl Into<String>,
        document: &mut Document<'_>,
    ) -> Option<Self> {
        let (value, at) = self.value(key)?;
        let what = what.into();
        let Some(values) = value.as_table() else {
            wrong_kind(&format!("`{key}`"), "a table", value, at, document);
            return None;
        };
        Some(Self { values, at, what })
    }

    /// Returns the correct tables of a list inside this table. `header` is how each begins.
    pub(super) fn tables(
        &self,
        key: &str,
        header: &str,
        what: &str,
        document: &mut Document<'_>,
    ) -> Vec<Self> {
        let Some((value, at)) = self.value(key) else {
            return Vec::new();
        };
        let Some(array) = value.as_array() else {
            let reason = format!("begin each `{key}` with {header}");
            document.wrong(at, reason);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for value in array.iter() {
            let at = value.span().start;
            match value.get_ref().as_table() {
                Some(values) => tables.push(Self::new(values, at, what)),
                None => {
                    let each = format!("each `{key}`");
                    wrong_kind(&each, "a table", value.get_ref(), at, document);
                }
            }
        }
        tables
    }

    fn value(&self, key: &str) -> Option<(&'a DeValue<'a>, usize)> {
        let value = self.get(key)?;
        Some((value.get_ref(), value.span().start))
    }

    fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        let old = || {
            let (old, _) = OLD_SPELLINGS.iter().find(|(_, new)| *new == key)?;
            self.values.get(*old)
        };
        self.values.get(key).or_else(old)
    }
}

/// Returns the current spelling of a key whose old spelling is `name`.
pub(super) fn new_spelling(name: &str) -> Option<&'static str> {
    let (_, new) = OLD_SPELLINGS.iter().find(|(old, _)| *old == name)?;
    Some(new)
}

fn text_of(
    value: &DeValue<'_>,
    at: usize,
    what: &str,
    document: &mut Document<'_>,
) -> Option<Located<String>> {
    let Some(text) = value.as_str() else {
        wrong_kind(what, "text in quotes", value, at, document);
        return None;
    };
    let reason = if text.trim().is_empty() {
        format!("{what} is empty; write something, or remove the key")
    } else if text.len() > MAX_TEXT_BYTES {
        format!(
            "{what} is {} bytes long; the limit is {MAX_TEXT_BYTES}",
            text.len()
        )
    } else if let Some(hidden) = text.chars().find(|&c| is_hidden(c)) {
        let code = u32::from(hidden);
        format!("{what} contains an invisible character (U+{code:04X}); remove it")
    } else {
        let value = text.trim().to_owned();
        return Some(Located { value, at });
    };
    document.wrong(at, reason);
    None
}

/// Returns true for control characters, which a terminal would obey, and for characters that change
/// the direction of the text after them, so that a name reads as another.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

fn wrong_kind(
    what: &str,
    expected: &str,
    found: &DeValue<'_>,
    at: usize,
    document: &mut Document<'_>,
) {
    let found = match found {
        DeValue::String(_) => "text in quotes",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    document.wrong(at, format!("{what} must be {expected}, not {found}"));
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
