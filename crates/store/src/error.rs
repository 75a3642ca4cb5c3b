//! What can go wrong with the store, in words for the person whose conversations it keeps.
//!
//! Rule: a case names the file and says what to do. None is used for something that could have been
//! put right: damage that is found when the store is opened becomes a notice, not an error.

use std::io;
use std::path::{Path, PathBuf};

use crate::conversation::{ConversationId, MessageId};
use crate::settings::SettingIssue;

/// Why the store could not do what it was asked for. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The data folder cannot be made, entered or made private.
    #[error(
        "the data folder {} cannot be used ({source}). Check that it belongs to you and lies on a disk that is there.",
        folder.display()
    )]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file or its folder can be read, but not written to.
    #[error(
        "{} cannot be written to. Allow yourself to write to the file and its folder, or move them to a disk that is not read-only.",
        path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full. What was there before is whole.
    #[error(
        "the disk is full: nothing more fits into {}. Free some space and try again; what was saved before is safe.",
        path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Part of the file cannot be read any more. Opening the store anew saves what can be.
    #[error(
        "{} is damaged ({reason}). Start the app again: it will set the file aside and save what can be read.",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite found.
        reason: String,
    },
    /// A later version of the app has been here. The file was left as it is.
    #[error(
        "{} was written by Transom {written_by} (format {found}); this version reads up to format {known}. Update the app. The file was left as it is.",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The latest format that this version knows.
        known: u32,
        /// The version of the app that wrote it.
        written_by: String,
    },
    /// Another program has held the file for too long.
    #[error(
        "another program is using {}. Close it and try again.",
        path.display()
    )]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The disk does not do what it is told.
    #[error(
        "{} cannot be read or written ({reason}). Check the disk, then try again.",
        path.display()
    )]
    Disk {
        /// The file.
        path: PathBuf,
        /// What the system or SQLite said.
        reason: String,
    },
    /// Anything else that SQLite says.
    #[error("the database {} failed: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// There is no such conversation, or no longer.
    #[error("there is no conversation {}: it was deleted", .0.0)]
    NoConversation(ConversationId),
    /// There is no such message, or no longer.
    #[error("there is no message {}: it was deleted", .0.0)]
    NoMessage(MessageId),
    /// A message cannot follow one of another conversation.
    #[error(
        "message {} is not in conversation {}, so nothing there can follow it",
        parent.0,
        conversation.0
    )]
    ParentElsewhere {
        /// The message that was to be followed.
        parent: MessageId,
        /// The conversation of the new one.
        conversation: ConversationId,
    },
    /// A message that has ended does not grow or end again.
    #[error("message {} has ended and cannot be written on", .0.0)]
    NotWriting(MessageId),
    /// [`crate::Ending::Writing`] was given as an ending.
    #[error("message {} was to end as still being written", .0.0)]
    NoEnding(MessageId),
    /// A setting was refused; all of them are as they were.
    #[error("{0}")]
    Setting(SettingIssue),
    /// A text to import is no export, or a broken one. Nothing of it was taken.
    #[error("this cannot be imported: {problem} ({place})")]
    Import {
        /// Where: line and column, or the path of a field.
        place: String,
        /// What is wrong there.
        problem: String,
    },
}

impl From<rusqlite::Error> for StoreError {
    /// The file is filled in by [`StoreError::at`].
    fn from(source: rusqlite::Error) -> Self {
        Self::Database {
            path: PathBuf::new(),
            source,
        }
    }
}

impl StoreError {
    /// Says which file an error of SQLite is about, and what it means.
    pub(crate) fn at(self, path: &Path) -> Self {
        let Self::Database { source, .. } = self else {
            return self;
        };
        let path = path.to_path_buf();
        let reason = source.to_string();
        use rusqlite::ErrorCode as Code;
        if is_misread(&source) {
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

    /// An error of the system about a file.
    pub(crate) fn io(path: &Path, source: &io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
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

    /// The file cannot be read any more, as far as this error says.
    pub(crate) fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode as Code;
        match self {
            Self::Damaged { .. } => true,
            Self::Database { source, .. } => {
                let is_senseless = matches!(
                    source.sqlite_error_code(),
                    Some(
                        Code::DatabaseCorrupt
                            | Code::NotADatabase
                            | Code::SchemaChanged
                            | Code::Unknown
                            | Code::ConstraintViolation
                    )
                );
                is_senseless || is_misread(source)
            }
            _ => false,
        }
    }
}

/// A value of a wrong type, or a table without one of its columns: our own tables rule that out, so
/// bytes were changed from outside.
fn is_misread(source: &rusqlite::Error) -> bool {
    matches!(
        source,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::SqlInputError { .. }
    )
}
