//! An error in a catalog file.
//!
//! Rule: line and column are inside the file. Both count from 1, and columns count characters.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// An error in a catalog file, with its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}:{line}:{column}: {reason}", .file.display())]
pub struct CatalogError {
    /// The catalog file.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// One sentence, without a full stop: the problem and what to write instead.
    pub reason: String,
}

impl CatalogError {
    /// Makes an error at this byte of `text`; an offset after the end means the end.
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
