//! An error in a catalog file.
//!
//! Rule: line and column are inside the file. Both count from 1, and columns count characters.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// An error in a catalog file, with its position. `Display` describes it in English; other
/// languages have a sentence for each `code`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}:{line}:{column}: {reason}", .file.display())]
pub struct CatalogError {
    /// The catalog file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The kind of the error.
    pub code: CatalogErrorCode,
    /// The key with the error; empty if the error concerns no key.
    pub key: String,
    /// One sentence, without a full stop: the problem and what to write instead.
    pub reason: String,
}

/// The kind of a [`CatalogError`], for translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CatalogErrorCode {
    /// The system can't read the file, or it is too long.
    Unreadable,
    /// The text is not TOML or not UTF-8.
    Syntax,
    /// No key has this name.
    UnknownKey,
    /// A required key is missing.
    MissingKey,
    /// The value has the wrong type.
    WrongType,
    /// The value is not allowed, or contradicts another one.
    WrongValue,
    /// The key or its value is already used.
    Duplicate,
}

impl CatalogError {
    /// Makes an error at this byte of `text`; an offset after the end means the end.
    pub(crate) fn at(
        file: &Path,
        text: &str,
        offset: usize,
        code: CatalogErrorCode,
        key: &str,
        reason: impl Into<String>,
    ) -> Self {
        let before = text.get(..text.floor_char_boundary(offset)).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            file: file.to_owned(),
            line: line_of(text, offset),
            column: before[line_start..].chars().count() + 1,
            code,
            key: key.to_owned(),
            reason: reason.into(),
        }
    }
}

/// Returns the line of this byte of `text`, from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}
