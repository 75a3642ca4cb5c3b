//! What can be wrong with a GGUF file. Each fault has its own case and says what to do.

use std::path::{Path, PathBuf};

/// A file that cannot be used, or could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GgufError {
    /// The system refused.
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
        /// What is wrong.
        fault: Fault,
    },
}

/// What is wrong with the contents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is something else.
    #[error("not a GGUF file: it begins with {found:02x?}, but should with \"GGUF\"")]
    Magic {
        /// The first bytes; fewer than four if the file is shorter.
        found: Vec<u8>,
    },
    /// It was written on, and for, a big-endian machine.
    #[error(
        "a big-endian GGUF file (version {version}); only little-endian files can be used here"
    )]
    BigEndian {
        /// Its version, read the right way round.
        version: u32,
    },
    /// Too old.
    #[error("GGUF version 1, which nothing has written since 2023; download the model again")]
    VersionOne,
    /// Too new, or nonsense.
    #[error("GGUF version {version} is not known; versions 2 and 3 are. Is there an update?")]
    Version {
        /// The version.
        version: u32,
    },
    /// The file ends too early.
    #[error(
        "cut short: {what} at byte {at} needs {needed} bytes, but {left} are left; download it again"
    )]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where it begins.
        at: u64,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// A count that the file could never hold.
    #[error("says it has {count} {what}, more than its {file_bytes} bytes could hold")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many.
        count: u64,
        /// Bytes of the file.
        file_bytes: u64,
    },
    /// A key or name that is not text, is empty, or is too long.
    #[error("{what} {index} has a bad name: {reason}")]
    Name {
        /// `metadata entry` or `tensor`.
        what: &'static str,
        /// Its number in the file, from 0.
        index: u64,
        /// Why.
        reason: &'static str,
    },
    /// A key or a tensor's name that is there twice.
    #[error("{what} {name:?} is there twice")]
    Duplicate {
        /// `metadata entry` or `tensor`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A type of value that does not exist.
    #[error("metadata entry {key:?} has the unknown type {kind}")]
    ValueKind {
        /// The entry.
        key: String,
        /// The type's number.
        kind: u32,
    },
    /// Arrays in arrays in arrays.
    #[error("metadata entry {key:?} nests arrays more than {limit} deep")]
    Nesting {
        /// The entry.
        key: String,
        /// The most that is read.
        limit: usize,
    },
    /// A type of tensor that is not known.
    #[error("tensor {name:?} has the unknown type {kind}; is there an update?")]
    TensorType {
        /// The tensor.
        name: String,
        /// The type's number.
        kind: u32,
    },
    /// Sizes that make no tensor.
    #[error("tensor {name:?} has a bad shape: {reason}")]
    Shape {
        /// The tensor.
        name: String,
        /// Why.
        reason: String,
    },
    /// `general.alignment` is not a power of two.
    #[error("general.alignment is {value}, but must be a power of two of type u32")]
    Alignment {
        /// The value, in words if it is no number.
        value: String,
    },
    /// A tensor that does not begin where it may.
    #[error("tensor {name:?} begins at {offset}, which is not a multiple of {alignment}")]
    Misaligned {
        /// The tensor.
        name: String,
        /// Its offset in the data section.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// A tensor that ends behind the end of the file.
    #[error(
        "cut short: tensor {name:?} ends at byte {end}, but the file has {file_bytes}; \
         download it again"
    )]
    Outside {
        /// The tensor.
        name: String,
        /// Where it ends in the file.
        end: u64,
        /// Bytes of the file.
        file_bytes: u64,
    },
    /// Two tensors that share bytes.
    #[error("tensors {first:?} and {second:?} overlap")]
    Overlap {
        /// The one that begins first.
        first: String,
        /// The other.
        second: String,
    },
    /// An entry that every model must have.
    #[error("{key} is missing, so this is no model")]
    Missing {
        /// The entry.
        key: &'static str,
    },
    /// A part of a split model that does not belong to the others.
    #[error("part of a split model: {reason}")]
    Split {
        /// Why it cannot be used.
        reason: String,
    },
}

impl Fault {
    /// The fault as that of `path`.
    pub(super) fn in_file(self, path: &Path) -> GgufError {
        GgufError::Bad {
            path: path.to_owned(),
            fault: self,
        }
    }
}
