//! The errors of the store, in words for the users whose conversations it stores.
//!
//! Rule: each error names the file and says what to do. Nothing that can be repaired is an error:
//! damage found at the start becomes a notice.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::conversation::{ConversationId, MessageId};
use crate::settings::SettingIssue;

/// Why a call to the store failed. A failed call changes nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The data folder cannot be created, opened or made private.
    #[error(
        "the data folder {} cannot be used ({source}). Check that it belongs to you and that its disk is connected.",
        folder.display()
    )]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file or its folder can be read, but not written.
    #[error(
        "{} cannot be written to. Give yourself write permission for the file and its folder, or move them to a writable disk.",
        path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full. Everything saved before is intact.
    #[error(
        "the disk is full, so {} cannot grow. Free some space and try again; everything saved before is safe.",
        path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Part of the file can no longer be read. Opening the store again saves the rest.
    #[error(
        "{} is damaged ({reason}). Start the app again: it sets the file aside and recovers what can be read.",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite found.
        reason: String,
    },
    /// A newer version of the app wrote the file. It was not changed.
    #[error(
        "{} was written by Transom {written_by} (format {found}); this version reads up to format {known}. Update the app. The file was not changed.",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: u32,
        /// The newest format version that this version reads.
        known: u32,
        /// The version of the app that wrote it.
        written_by: String,
    },
    /// Another program has locked the file for too long.
    #[error(
        "another program is using {}. Close it and try again.",
        path.display()
    )]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The disk reports an error.
    #[error(
        "{} cannot be read or written ({reason}). Check the disk, then try again.",
        path.display()
    )]
    Disk {
        /// The file.
        path: PathBuf,
        /// The error of the system or SQLite.
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
    /// The parent of a message is in another conversation.
    #[error(
        "message {} is not in conversation {}, so it cannot be the parent of a message there",
        parent.0,
        conversation.0
    )]
    ParentInOtherConversation {
        /// The parent.
        parent: MessageId,
        /// The conversation of the new message.
        conversation: ConversationId,
    },
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
    /// [`StoreError::Folder`].
    Folder,
    /// [`StoreError::ReadOnly`].
    ReadOnly,
    /// [`StoreError::Full`].
    Full,
    /// [`StoreError::Damaged`].
    Damaged,
    /// [`StoreError::Newer`].
    Newer,
    /// [`StoreError::Busy`].
    Busy,
    /// [`StoreError::Disk`].
    Disk,
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
        Some(match self {
            Self::Folder { .. } => StoreErrorKind::Folder,
            Self::ReadOnly { .. } => StoreErrorKind::ReadOnly,
            Self::Full { .. } => StoreErrorKind::Full,
            Self::Damaged { .. } => StoreErrorKind::Damaged,
            Self::Newer { .. } => StoreErrorKind::Newer,
            Self::Busy { .. } => StoreErrorKind::Busy,
            Self::Disk { .. } => StoreErrorKind::Disk,
            _ => return None,
        })
    }

    /// Adds the file to an error of SQLite, and converts it to the case that it means.
    pub(crate) fn at(self, path: &Path) -> Self {
        let Self::Database { source, .. } = self else {
            return self;
        };
        let path = path.to_path_buf();
        let reason = source.to_string();
        use rusqlite::ErrorCode as Code;
        if has_wrong_type(&source) {
            return Self::Damaged { path, reason };
        }
        match source.sqlite_error_code() {
            Some(Code::DiskFull) => Self::Full { path },
            Some(Code::ReadOnly | Code::PermissionDenied) => Self::ReadOnly { path },
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => Self::Damaged { path, reason },
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => Self::Busy { path },
            Some(Code::SystemIoFailure | Code::CannotOpen) => Self::Disk { path, reason },
            _ => Self::Database { path, source },
        }
    }

    /// Returns a function that converts an I/O error of a file.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull => Self::Full { path },
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                Self::ReadOnly { path }
            }
            _ => Self::Disk {
                path,
                reason: source.to_string(),
            },
        }
    }

    /// The error for a file that cannot be imported.
    pub(crate) fn import(place: &str, problem: impl Into<String>) -> Self {
        Self::Import {
            place: place.to_string(),
            problem: problem.into(),
        }
    }

    /// Returns true if the error means that the file is damaged.
    pub(crate) fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode as Code;
        match self {
            Self::Damaged { .. } => true,
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
