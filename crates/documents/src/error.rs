//! Why a document has no text for us. Callers match on [`DocumentProblem`].

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use transom_files::{disk_text, memory_text, visible};

/// A document that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("can't read {file}: {problem}")]
pub struct DocumentError {
    /// The path of the file as it was given, without control characters.
    pub file: String,
    /// The reason.
    pub problem: DocumentProblem,
}

/// Why a document can't be read, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DocumentProblem {
    /// There is no file at the path.
    #[error("there is no such file; check the path")]
    NotFound,

    /// The file can't be opened, or is a folder or a device.
    #[error("it can't be opened ({reason}); choose another file")]
    CannotOpen {
        /// The reason of the system.
        reason: String,
    },

    /// The file contains no text.
    #[error(
        "it is {content}; attach text, a web page, a PDF, an EPUB book, or a Word, Excel, \
         PowerPoint or OpenDocument (ODT) document"
    )]
    NotText {
        /// What the file seems to contain.
        content: Content,
    },

    /// The document can be opened only with a password.
    #[error("it is encrypted; save a copy without a password and attach the copy")]
    Encrypted,

    /// The document breaks the rules of its format.
    #[error("it is damaged ({reason}); open it in another program and save it again")]
    Damaged {
        /// The reason of the library, on one line.
        reason: String,
    },

    /// The file is larger than the limit.
    #[error(
        "it has {}, more than the limit of {}; attach a part of it",
        disk_text(*.bytes),
        disk_text(*.limit_bytes)
    )]
    TooLarge {
        /// Bytes of the file.
        bytes: u64,
        /// Bytes that are allowed.
        limit_bytes: u64,
    },

    /// The text in the file is longer than the limit.
    #[error(
        "its text has {}, more than the limit of {}; attach a part of it",
        disk_text(*.bytes),
        disk_text(*.limit_bytes)
    )]
    TooMuchText {
        /// Bytes of the text.
        bytes: u64,
        /// Bytes that are allowed.
        limit_bytes: u64,
    },

    /// Reading took too long and was stopped.
    #[error("reading it takes longer than {limit_seconds} s; attach a part of it")]
    TooSlow {
        /// The limit in seconds: of time, or of CPU time on all cores together.
        limit_seconds: u64,
    },

    /// Reading needed too much memory and was stopped.
    #[error(
        "reading it needs more than {} of memory; attach a part of it",
        memory_text(*.limit_bytes)
    )]
    TooMuchMemory {
        /// The limit in bytes.
        limit_bytes: u64,
    },

    /// The document is fine but contains no text.
    #[error("{}", no_text(*.pages))]
    NoText {
        /// Number of pages, if the format has pages.
        pages: Option<u32>,
    },

    /// The program that reads documents can't be started.
    #[error("the program that reads documents did not start ({reason}); install Transom again")]
    NotStarted {
        /// The program and the reason of the system.
        reason: String,
    },
}

/// What a file without text seems to contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// A picture.
    Image,
    /// A ZIP archive that is no document.
    Archive,
    /// Rich Text (RTF), for which there is no reader.
    RichText,
    /// Anything else.
    Binary,
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Image => "an image",
            Self::Archive => "an archive",
            Self::RichText => "a Rich Text (RTF) document",
            Self::Binary => "binary data",
        })
    }
}

impl DocumentProblem {
    /// Returns the problem of a damaged file, with the reason that a library gives. The reason may
    /// quote the file, so it is shortened and made safe to show.
    pub fn damaged(reason: impl fmt::Display) -> Self {
        const MAX_CHARACTERS: usize = 200;
        let reason: String = reason.to_string().chars().take(MAX_CHARACTERS).collect();
        Self::Damaged {
            reason: visible(&reason).into_owned(),
        }
    }
}

fn no_text(pages: Option<u32>) -> String {
    match pages {
        Some(_) => "its pages contain images and no text, as in a scan; recognize the text with \
                    another program first"
            .to_owned(),
        None => "it contains no text; attach another file".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_the_file_the_value_and_what_to_do() {
        let check = |problem: DocumentProblem, expect: &str| {
            let file = "a.pdf".to_owned();
            let error = DocumentError { file, problem };
            assert_eq!(error.to_string(), format!("can't read a.pdf: {expect}"));
            let json = serde_json::to_string(&error).unwrap();
            assert_eq!(
                serde_json::from_str::<DocumentError>(&json).unwrap(),
                error,
                "{json}"
            );
        };
        check(
            DocumentProblem::TooLarge {
                bytes: 60_000_001,
                limit_bytes: 50_000_000,
            },
            "it has 60 MB, more than the limit of 50 MB; attach a part of it",
        );
        check(
            DocumentProblem::NotText {
                content: Content::Image,
            },
            "it is an image; attach text, a web page, a PDF, an EPUB book, or a Word, Excel, \
             PowerPoint or OpenDocument (ODT) document",
        );
        check(
            DocumentProblem::TooSlow { limit_seconds: 20 },
            "reading it takes longer than 20 s; attach a part of it",
        );
        check(
            DocumentProblem::Encrypted,
            "it is encrypted; save a copy without a password and attach the copy",
        );
        check(
            DocumentProblem::NoText { pages: None },
            "it contains no text; attach another file",
        );
    }

    #[test]
    fn the_reason_of_a_library_is_short_and_on_one_line() {
        let problem = DocumentProblem::damaged(format!("a\n\u{1b}{}", "b".repeat(500)));
        let DocumentProblem::Damaged { reason } = problem else {
            panic!("{problem:?}");
        };
        assert!(reason.starts_with("a \u{fffd}bbb"), "{reason}");
        assert_eq!(reason.chars().count(), 200);
    }
}
