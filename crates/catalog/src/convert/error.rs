//! Why a folder cannot be written as GGUF. Each case names the file and what was found in it.

use std::path::{Path, PathBuf};

use crate::safetensors::FolderError;

/// A folder that cannot be converted, or a file that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// A file of the folder is missing, cut short or malformed.
    #[error("{path}: {reason}")]
    Folder {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is sound, but says something that is not understood here.
    #[error("{path}: {what} is {value}, which cannot be written as GGUF here")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The key, or the tensor.
        what: String,
        /// What was found there.
        value: String,
    },
    /// The GGUF file could not be written.
    #[error("{path}: {reason}")]
    Output {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
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

impl From<FolderError> for ConvertError {
    fn from(error: FolderError) -> Self {
        Self::Folder {
            path: error.path,
            reason: error.reason,
        }
    }
}
