//! Returns the text of documents that people attach: text in any encoding, web pages, books, PDFs
//! and Office documents.
//!
//! The libraries that parse these untrusted files are in a program of their own
//! (`crates/document-reader`). [`read`] runs it with limits on time and memory, so a file can end or
//! exhaust only that process.

mod error;
pub mod protocol;
mod reader;

use serde::{Deserialize, Serialize};

pub use error::{Content, DocumentError, DocumentProblem};
pub use reader::{ReadLimits, program, read, read_within};

/// The text of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The name of the file, without control characters.
    pub name: String,
    /// What the file contains.
    pub format: Format,
    /// The text, never blank. Lines end with `\n`. PDFs are plain text with tabs between the cells of
    /// a table; Office documents are Markdown.
    pub text: String,
    /// Number of pages, if the format has pages.
    pub pages: Option<u32>,
}

/// The format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Plain text, source code, Markdown, CSV, JSON and the like.
    Text,
    /// A web page.
    Html,
    /// An EPUB book.
    Epub,
    /// A PDF.
    Pdf,
    /// A Word document.
    Word,
    /// An Excel workbook.
    Excel,
    /// A PowerPoint presentation.
    PowerPoint,
    /// A text document of OpenDocument (ODT).
    OpenDocument,
}
