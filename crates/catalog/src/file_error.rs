//! Errors in the files of a model. Each says what to do.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// A file of a model can't be used. `Display` describes it in English; other languages have a
/// sentence for each [`Fault::code`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}{}{fault}", .fault.separator())]
pub struct FileError {
    /// The file, or the folder if a file is missing.
    pub path: PathBuf,
    /// The problem.
    pub fault: Fault,
}

impl FileError {
    pub(crate) fn new(path: &Path, code: FaultCode, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Fault::Other { code, reason }.in_file(path)
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

/// A problem of a model file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Fault {
    /// It is no GGUF file.
    #[error("not a GGUF file: it begins with {found:02x?}, but should with \"GGUF\"")]
    Magic {
        /// The first bytes; fewer than four if the file is shorter.
        found: Vec<u8>,
    },
    /// It was written for big-endian machines.
    #[error(
        "a big-endian GGUF file (version {version}); only little-endian files can be used here"
    )]
    BigEndian {
        /// Its version, in the correct byte order.
        version: u32,
    },
    /// The version is too old.
    #[error("GGUF version 1, which nothing has written since 2023; download the model again")]
    VersionOne,
    /// The version is too new, or wrong.
    #[error("GGUF version {version} is not known; versions 2 and 3 are. Is there an update?")]
    Version { version: u32 },
    /// The file is too short.
    #[error(
        "cut short: {what} at byte {at} needs {needed} bytes, but {left} are left; download it again"
    )]
    Truncated {
        what: &'static str,
        at: u64,
        needed: u64,
        left: u64,
    },
    /// A count is larger than the file allows.
    #[error("says it has {count} {what}, more than its {file_bytes} bytes could hold")]
    Count {
        what: &'static str,
        count: u64,
        file_bytes: u64,
    },
    /// A key or name is not UTF-8, empty or too long.
    #[error("{what} {index} has a bad name: {reason}")]
    Name {
        what: &'static str,
        index: u64,
        reason: &'static str,
    },
    /// A key or a tensor name is repeated.
    #[error("{what} {name:?} is there twice")]
    Duplicate { what: &'static str, name: String },
    /// A metadata entry or a tensor has a type that doesn't exist.
    #[error("{what} {name:?} has the unknown type {kind}{hint}")]
    Type {
        what: &'static str,
        name: String,
        kind: u32,
        hint: &'static str,
    },
    /// Arrays are nested too deep.
    #[error("metadata entry {key:?} nests arrays more than {limit} deep")]
    Nesting { key: String, limit: usize },
    /// A tensor has an impossible shape.
    #[error("tensor {name:?} has a bad shape: {reason}")]
    Shape { name: String, reason: String },
    /// `general.alignment` is not a power of two.
    #[error("general.alignment is {value}, but must be a power of two of type u32")]
    Alignment {
        /// The value, in words if it is not a number.
        value: String,
    },
    /// A tensor is not aligned.
    #[error("tensor {name:?} begins at {offset}, which is not a multiple of {alignment}")]
    Misaligned {
        name: String,
        offset: u64,
        alignment: u64,
    },
    /// A tensor ends after the end of the file.
    #[error(
        "cut short: tensor {name:?} ends at byte {end}, but the file has {file_bytes}; \
         download it again"
    )]
    Outside {
        name: String,
        end: u64,
        file_bytes: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors {first:?} and {second:?} overlap")]
    Overlap { first: String, second: String },
    /// A required entry is missing.
    #[error("{key} is missing, so this is no model")]
    Missing { key: &'static str },
    /// The folder contains several models.
    #[error("holds {} models; name one of them: {}", .names.len(), .names.join(", "))]
    SeveralModels { names: Vec<String> },
    /// Another problem.
    #[error("{reason}")]
    Other { code: FaultCode, reason: String },
}

impl Fault {
    /// Returns this fault as an error of the file at `path`.
    pub(crate) fn in_file(self, path: &Path) -> FileError {
        FileError {
            path: path.to_owned(),
            fault: self,
        }
    }

    /// Returns the kind of the fault.
    pub fn code(&self) -> FaultCode {
        match self {
            Self::Magic { .. } => FaultCode::WrongFormat,
            Self::BigEndian { .. } | Self::VersionOne | Self::Version { .. } => {
                FaultCode::UnsupportedVersion
            }
            Self::Truncated { .. } | Self::Outside { .. } => FaultCode::Truncated,
            Self::Type { .. } => FaultCode::UnsupportedType,
            Self::Alignment { .. } => FaultCode::WrongEntry,
            Self::Missing { .. } => FaultCode::MissingEntry,
            Self::SeveralModels { .. } => FaultCode::SeveralModels,
            Self::Other { code, .. } => *code,
            Self::Count { .. }
            | Self::Name { .. }
            | Self::Duplicate { .. }
            | Self::Nesting { .. }
            | Self::Shape { .. }
            | Self::Misaligned { .. }
            | Self::Overlap { .. } => FaultCode::Damaged,
        }
    }

    /// Returns the version, entry, type or list that a sentence about this kind names; empty for
    /// other kinds.
    pub fn value(&self) -> String {
        match self {
            Self::VersionOne => "1".to_owned(),
            Self::BigEndian { version } => format!("{version} (big-endian)"),
            Self::Version { version } => version.to_string(),
            Self::Type { kind, .. } => kind.to_string(),
            Self::Alignment { .. } => "general.alignment".to_owned(),
            Self::Missing { key } => (*key).to_owned(),
            Self::SeveralModels { names } => names.join(", "),
            _ => String::new(),
        }
    }

    fn separator(&self) -> &'static str {
        match self {
            Self::SeveralModels { .. } => " ",
            _ => ": ",
        }
    }
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

    #[test]
    fn a_fault_has_a_code_and_the_value_for_its_sentence() {
        let check = |fault: Fault, code: &str, value: &str| {
            assert_eq!(serde_json::json!(fault.code()), code, "{fault}");
            assert_eq!(fault.value(), value, "{fault}");
        };
        check(Fault::Version { version: 9 }, "unsupported_version", "9");
        let key = "general.architecture";
        check(Fault::Missing { key }, "missing_entry", key);
        let names = vec!["a.gguf".to_owned(), "b.gguf".to_owned()];
        check(
            Fault::SeveralModels { names },
            "several_models",
            "a.gguf, b.gguf",
        );
        let error = io::Error::from(ErrorKind::FileTooLarge);
        let error = FileError::io(Path::new("/a/config.json"), &error);
        check(error.fault, "too_large", "");
    }
}
