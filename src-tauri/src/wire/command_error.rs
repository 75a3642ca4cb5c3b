//! The error of a command, which pages translate.

use std::path::Path;

use serde::Serialize;
use transom_store::StoreErrorKind;
use ts_rs::TS;

use super::{HubErrorView, ModelErrorView};

/// An error of a command.
#[derive(Debug, Clone, PartialEq, Serialize, TS)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum CommandError {
    /// A value is not allowed.
    Invalid {
        /// The field.
        field: String,
        /// The reason in English.
        reason: String,
    },
    /// The object does not exist anymore.
    NotFound,
    /// The disk refused.
    Storage {
        /// The kind of the error; `None` if the file is not the app's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[ts(optional)]
        kind: Option<StoreErrorKind>,
        /// The reason in English, which names the file.
        reason: String,
    },
    /// A turn could not start.
    Turn {
        /// The reason.
        failure: transom_chat::Failure,
    },
    /// The files of a model cannot be used.
    Model {
        /// The reason.
        error: ModelErrorView,
    },
    /// The hub, the network or the keychain refused.
    Hub {
        /// The reason.
        error: HubErrorView,
    },
    /// Any other error.
    Other {
        /// The reason in English.
        reason: String,
    },
}

/// The result of a command.
pub type CommandResult<T> = Result<T, CommandError>;

impl CommandError {
    pub(crate) fn invalid(field: &str, reason: impl ToString) -> Self {
        Self::Invalid {
            field: field.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// Creates an error of a file operation.
    pub(crate) fn of_file(path: &Path, error: &std::io::Error) -> Self {
        Self::Storage {
            kind: None,
            reason: format!("{}: {error}", path.display()),
        }
    }

    pub(crate) fn other(reason: impl ToString) -> Self {
        Self::Other {
            reason: reason.to_string(),
        }
    }

    /// Returns the reason in English; empty if there is none.
    pub(crate) fn into_reason(self) -> String {
        match self {
            Self::Invalid { reason, .. }
            | Self::Storage { reason, .. }
            | Self::Other { reason } => reason,
            Self::Model { error } => error.detail,
            Self::Hub { error } => error.reason,
            Self::NotFound | Self::Turn { .. } => String::new(),
        }
    }
}
