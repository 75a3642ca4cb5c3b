//! Errors in the files of a model. Each says what to do.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// A file of a model can't be used. `Display` describes it in English; other languages have a
/// sentence for each [`FaultCode`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {fault}")]
pub struct FileError {
    /// The file, or the folder if a file is missing.
    pub path: PathBuf,
    /// The problem.
    pub fault: Fault,
}

impl FileError {
    pub(crate) fn new(path: &Path, code: FaultCode, reason: impl Into<String>) -> Self {
        Fault::new(code, reason).in_file(path)
    }

    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Self::new(path, FaultCode::of_io(error), error.to_string())
    }
}

/// The kind of a [`Fault`], for translation. A sentence needs only the file and [`Fault::value`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultCode {
    /// The file doesn't exist.
    NotFound,
    /// The system can't read the file.
    Unreadable,
    /// The file is shorter than it says.
    Truncated,
    /// The file exceeds a limit.
    TooLarge,
    /// The file is not GGUF, safetensors or JSON, whatever its name says.
    WrongFormat,
    /// The file has an unsupported version of its format, the value.
    UnsupportedVersion,
    /// The entry that the value names is missing.
    MissingEntry,
    /// The entry that the value names has a wrong type or number.
    WrongEntry,
    /// The weights or the metadata have an unsupported type, the value.
    UnsupportedType,
    /// The folder has no weights.
    NoWeights,
    /// The folder has several models; the value lists them.
    SeveralModels,
    /// The contents contradict each other.
    Damaged,
}

impl FaultCode {
    pub(crate) fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::FileTooLarge => Self::TooLarge,
            _ => Self::Unreadable,
        }
    }
}

/// A problem of a model file. `Display` says in English what it is and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Fault {
    /// The kind.
    pub code: FaultCode,
    /// The version, entry, type or list that a sentence about this kind names; empty for other
    /// kinds.
    pub value: String,
    reason: String,
}

impl Fault {
    pub(crate) fn new(code: FaultCode, reason: impl Into<String>) -> Self {
        Self::with_value(code, "", reason)
    }

    pub(crate) fn with_value(
        code: FaultCode,
        value: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            code,
            value: value.into(),
            reason: reason.into(),
        }
    }

    /// Returns the fault of a file whose contents contradict each other.
    pub(crate) fn damaged(reason: impl Into<String>) -> Self {
        Self::new(FaultCode::Damaged, reason)
    }

    /// Returns this fault as an error of the file at `path`.
    pub(crate) fn in_file(self, path: &Path) -> FileError {
        FileError {
            path: path.to_owned(),
            fault: self,
        }
    }
}

/// Returns a name from a file for a message: in quotes, and only the beginning of a long one.
pub(crate) fn quoted(name: &str) -> String {
    const MOST: usize = 60;
    let short: String = name.chars().take(MOST).collect();
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_sentence_in_the_app() {
        let texts = include_str!("../../../ui/src/i18n/en/models.json");
        for code in [
            FaultCode::NotFound,
            FaultCode::Unreadable,
            FaultCode::Truncated,
            FaultCode::TooLarge,
            FaultCode::WrongFormat,
            FaultCode::UnsupportedVersion,
            FaultCode::MissingEntry,
            FaultCode::WrongEntry,
            FaultCode::UnsupportedType,
            FaultCode::NoWeights,
            FaultCode::SeveralModels,
            FaultCode::Damaged,
        ] {
            let code = serde_json::json!(code);
            let key = format!("\"model_error.{}\"", code.as_str().unwrap());
            assert!(texts.contains(&key), "{key}");
        }
    }
}
