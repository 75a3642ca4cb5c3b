//! The errors of the store, in words for the users whose conversations it stores.
//!
//! Rule: each error names the file and says what to do. Nothing that can be repaired is an error:
//! damage found at the start becomes a notice.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::conversation::{ConversationId, MessageId};
use crate::setting_issue::SettingIssue;

/// Why a call to the store failed. A failed call changes nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file or its folder cannot be used.
    #[error("{}", kind.sentence(path, reason))]
    File {
        /// The kind of the error.
        kind: StoreErrorKind,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system or of SQLite, or the versions of the file and of the app.
        reason: String,
    },
    /// Any other error of SQLite.
    #[error("the database {} failed: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// The conversation does not exist or was deleted.
    #[error("conversation {} does not exist or was deleted", .0.0)]
    NoConversation(ConversationId),
    /// The message does not exist or was deleted.
    #[error("message {} does not exist or was deleted", .0.0)]
    NoMessage(MessageId),
    /// The message has ended, so it cannot be changed.
    #[error("message {} has ended and can no longer be changed", .0.0)]
    NotWriting(MessageId),
    /// [`crate::Ending::Writing`] was given as an ending.
    #[error("message {} cannot end in the state of being written", .0.0)]
    InvalidEnding(MessageId),
    /// A setting has an invalid value. No setting was changed.
    #[error("{0}")]
    Setting(SettingIssue),
    /// The text to import is in no known format, or broken. Nothing was imported.
    #[error("this cannot be imported: {problem} ({place})")]
    Import {
        /// The place: line and column, or the path of a field.
        place: String,
        /// What is wrong there.
        problem: String,
    },
}

/// The kind of an error of the store's file, for windows that say it in the user's language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum StoreErrorKind {
    /// The data folder cannot be created, opened or made private.
    Folder,
    /// The file or its folder can be read, but not written.
    ReadOnly,
    /// The disk is full. Everything saved before is intact.
    Full,
    /// Part of the file can no longer be read. Opening the store again saves the rest.
    Damaged,
    /// A newer version of the app wrote the file. It was not changed.
    Newer,
    /// Another program has locked the file for too long.
    Busy,
    /// The disk reports an error.
    Disk,
}

impl StoreErrorKind {
    fn sentence(self, path: &Path, reason: &str) -> String {
        let path = path.display();
        match self {
            Self::Folder => format!(
                "the data folder {path} cannot be used ({reason}). Check that it belongs to you \
                 and that its disk is connected."
            ),
            Self::ReadOnly => format!(
                "{path} cannot be written to. Give yourself write permission for the file and its \
                 folder, or move them to a writable disk."
            ),
            Self::Full => format!(
                "the disk is full, so {path} cannot grow. Free some space and try again; \
                 everything saved before is safe."
            ),
            Self::Damaged => format!(
                "{path} is damaged ({reason}). Start the app again: it sets the file aside and \
                 recovers what can be read."
            ),
            Self::Newer => {
                format!("{path} was written by {reason}. Update the app. The file was not changed.")
            }
            Self::Busy => {
                format!("another program is using {path}. Close it and try again.")
            }
            Self::Disk => format!(
                "{path} cannot be read or written ({reason}). Check the disk, then try again."
            ),
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    /// [`StoreError::at`] fills in the file.
    fn from(source: rusqlite::Error) -> Self {
        Self::Database {
            path: PathBuf::new(),
            source,
        }
    }
}

impl StoreError {
    /// Returns the kind of an error of the file; `None` if the call was wrong, or only SQLite knows
    /// the reason.
    pub fn kind(&self) -> Option<StoreErrorKind> {
        match self {
            Self::File { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    pub(crate) fn file(kind: StoreErrorKind, path: &Path, reason: impl ToString) -> Self {
        Self::File {
            kind,
            path: path.to_path_buf(),
            reason: reason.to_string(),
        }
    }

    /// Adds the file to an error of SQLite, and converts it to the kind that it means.
    pub(crate) fn at(self, path: &Path) -> Self {
        let Self::Database { source, .. } = self else {
            return self;
        };
        use rusqlite::ErrorCode as Code;
        let kind = match source.sqlite_error_code() {
            _ if has_wrong_type(&source) => StoreErrorKind::Damaged,
            Some(Code::DiskFull) => StoreErrorKind::Full,
            Some(Code::ReadOnly | Code::PermissionDenied) => StoreErrorKind::ReadOnly,
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => StoreErrorKind::Damaged,
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => StoreErrorKind::Busy,
            Some(Code::SystemIoFailure | Code::CannotOpen) => StoreErrorKind::Disk,
            _ => {
                let path = path.to_path_buf();
                return Self::Database { path, source };
            }
        };
        Self::file(kind, path, source)
    }

    /// Returns a function that converts an I/O error of a file.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            let kind = match source.kind() {
                io::ErrorKind::StorageFull => StoreErrorKind::Full,
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                    StoreErrorKind::ReadOnly
                }
                _ => StoreErrorKind::Disk,
            };
            Self::file(kind, path, source)
        }
    }

    /// The error for a file that cannot be imported.
    pub(crate) fn import(place: &str, problem: impl Into<String>) -> Self {
        Self::Import {
            place: place.to_string(),
            problem: problem.into(),
        }
    }

    pub(crate) fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode as Code;
        match self {
            Self::File { kind, .. } => *kind == StoreErrorKind::Damaged,
            Self::Database { source, .. } => {
                let is_corrupt = matches!(
                    source.sqlite_error_code(),
                    Some(
                        Code::DatabaseCorrupt
                            | Code::NotADatabase
                            | Code::SchemaChanged
                            | Code::Unknown
                            | Code::ConstraintViolation
                    )
                );
                is_corrupt || has_wrong_type(source)
            }
            _ => false,
        }
    }
}

/// Returns true for a value with a wrong type, or a table without one of its columns. Our own
/// tables rule that out, so the bytes were changed from outside.
fn has_wrong_type(source: &rusqlite::Error) -> bool {
    matches!(
        source,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::SqlInputError { .. }
    )
}
