//! Why a folder can't be converted to GGUF. Each error names the file and the value.

use std::path::{Path, PathBuf};

use crate::file_error::FileError;

/// A folder can't be converted, or the file can't be written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ConvertError {
    /// A file of the folder is missing, cut short or malformed.
    #[error("{path}: {reason}")]
    Folder { path: PathBuf, reason: String },
    /// The file contains a value that the converter does not support.
    #[error("{path}: {what} is {value}, which cannot be written as GGUF here")]
    Unsupported {
        path: PathBuf,
        what: String,
        value: String,
    },
    /// The GGUF file can't be written.
    #[error("{path}: {reason}")]
    Output { path: PathBuf, reason: String },
}

impl ConvertError {
    pub(super) fn unsupported(
        path: &Path,
        what: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Self::Unsupported {
            path: path.to_owned(),
            what: what.into(),
            value: value.into(),
        }
    }

    pub(super) fn folder(path: &Path, reason: impl Into<String>) -> Self {
        Self::Folder {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}

impl From<FileError> for ConvertError {
    fn from(error: FileError) -> Self {
        Self::Folder {
            path: error.path,
            reason: error.fault.to_string(),
        }
    }
}
