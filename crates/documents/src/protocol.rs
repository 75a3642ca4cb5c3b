//! What the program that reads a document sends to the process that started it: a [`Reply`] as JSON.
//! The document is its standard input.

use serde::{Deserialize, Serialize};

use crate::{DocumentProblem, Format};

/// Bytes of the largest file that is read.
pub const MAX_FILE_BYTES: u64 = 50_000_000;

/// Bytes of the longest text that is returned.
pub const MAX_TEXT_BYTES: u64 = 8_000_000;

/// CPU time of all threads, which may use many cores.
pub const MAX_CPU_SECONDS: u64 = 120;

/// The text, or why there is none.
pub type Reply = Result<Extracted, DocumentProblem>;

/// The text that the program found.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extracted {
    /// What the file contains.
    pub format: Format,
    /// See [`crate::Document::text`].
    pub text: String,
    /// Number of pages, if the format has pages.
    pub pages: Option<u32>,
}

impl Extracted {
    /// Returns text of a format without pages.
    pub fn new(format: Format, text: String) -> Self {
        Self {
            format,
            text,
            pages: None,
        }
    }
}
