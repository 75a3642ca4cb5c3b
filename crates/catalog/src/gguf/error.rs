//! Errors in GGUF files. Each says what to do.

use std::path::{Path, PathBuf};

/// A GGUF file can't be read or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GgufError {
    /// The file can't be read.
    #[error("{path}: {reason}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// The contents are wrong.
    #[error("{path}: {fault}")]
    Bad {
        /// The file.
        path: PathBuf,
        /// The problem.
        fault: Fault,
    },
}

/// A problem in the contents of a GGUF file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    Version {
        /// The version.
        version: u32,
    },
    /// The file is too short.
    #[error(
        "cut short: {what} at byte {at} needs {needed} bytes, but {left} are left; download it again"
    )]
    Truncated {
        /// Name of the value that was being read.
        what: &'static str,
        /// Position of the value.
        at: u64,
        /// Bytes of the value.
        needed: u64,
        /// Bytes that are left in the file.
        left: u64,
    },
    /// A count is larger than the file allows.
    #[error("says it has {count} {what}, more than its {file_bytes} bytes could hold")]
    Count {
        /// What is counted.
        what: &'static str,
        /// The count.
        count: u64,
        /// Bytes of the file.
        file_bytes: u64,
    },
    /// A key or name is not UTF-8, empty or too long.
    #[error("{what} {index} has a bad name: {reason}")]
    Name {
        /// `metadata entry` or `tensor`.
        what: &'static str,
        /// Its index in the file, from 0.
        index: u64,
        /// The problem.
        reason: &'static str,
    },
    /// A key or a tensor name is repeated.
    #[error("{what} {name:?} is there twice")]
    Duplicate {
        /// `metadata entry` or `tensor`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A value has a type that doesn't exist.
    #[error("metadata entry {key:?} has the unknown type {kind}")]
    ValueKind {
        /// The key of the entry.
        key: String,
        /// The number of the type.
        kind: u32,
    },
    /// Arrays are nested too deep.
    #[error("metadata entry {key:?} nests arrays more than {limit} deep")]
    Nesting {
        /// The key of the entry.
        key: String,
        /// The maximum depth.
        limit: usize,
    },
    /// A tensor has an unknown type.
    #[error("tensor {name:?} has the unknown type {kind}; is there an update?")]
    TensorType {
        /// The tensor's name.
        name: String,
        /// The number of the type.
        kind: u32,
    },
    /// A tensor has an impossible shape.
    #[error("tensor {name:?} has a bad shape: {reason}")]
    Shape {
        /// The tensor's name.
        name: String,
        /// The problem.
        reason: String,
    },
    /// `general.alignment` is not a power of two.
    #[error("general.alignment is {value}, but must be a power of two of type u32")]
    Alignment {
        /// The value, in words if it is not a number.
        value: String,
    },
    /// A tensor is not aligned.
    #[error("tensor {name:?} begins at {offset}, which is not a multiple of {alignment}")]
    Misaligned {
        /// The tensor's name.
        name: String,
        /// Its offset in the data section.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// A tensor ends after the end of the file.
    #[error(
        "cut short: tensor {name:?} ends at byte {end}, but the file has {file_bytes}; \
         download it again"
    )]
    Outside {
        /// The tensor's name.
        name: String,
        /// Its end in the file.
        end: u64,
        /// Bytes of the file.
        file_bytes: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors {first:?} and {second:?} overlap")]
    Overlap {
        /// The one that begins first.
        first: String,
        /// The other.
        second: String,
    },
    /// A required entry is missing.
    #[error("{key} is missing, so this is no model")]
    Missing {
        /// The key of the entry.
        key: &'static str,
    },
    /// A part of a split model does not belong to the others.
    #[error("part of a split model: {reason}")]
    Split {
        /// The problem.
        reason: String,
    },
}

impl Fault {
    /// Returns this fault as an error of the file at `path`.
    pub(super) fn in_file(self, path: &Path) -> GgufError {
        GgufError::Bad {
            path: path.to_owned(),
            fault: self,
        }
    }
}
