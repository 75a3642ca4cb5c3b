//! A error in a list of models, as a person is told it.
//!
//! Rule: line and column are inside the file, both counted from 1, columns in characters.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// What is wrong in a list, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}:{line}:{column}: {reason}", .file.display())]
pub struct CatalogError {
    /// The list.
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// One sentence, without a full stop: what is wrong and what to write.
    pub reason: String,
}

impl CatalogError {
    /// A error at this byte of `text`; behind its end counts as its end.
    pub(crate) fn at(file: &Path, text: &str, offset: usize, reason: impl Into<String>) -> Self {
        let before = text.get(..text.floor_char_boundary(offset)).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            reason: reason.into(),
        }
    }
}
