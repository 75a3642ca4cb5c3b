//! The commands that pages may call, by topic. A command gets the backend, calls one function of
//! it, and converts the result to types of `wire`.
//!
//! Rule: a command never blocks the main thread, and its error is a [`CommandError`], also after a
//! panic.

pub(crate) mod app;
pub(crate) mod catalog;
pub(crate) mod conversations;
pub(crate) mod models;
pub(crate) mod turns;

use tauri::{AppHandle, Manager};
use transom_chat::Failure;
use transom_store::StoreError;
use transom_supervisor::RequestError;

use crate::shell::Shell;
use crate::wire::{AppEvent, CommandError};

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let (kind, reason) = (error.kind(), error.to_string());
        match error {
            StoreError::NoConversation(_) | StoreError::NoMessage(_) => Self::NotFound,
            StoreError::Setting(issue) => Self::Invalid {
                field: issue.field,
                reason,
            },
            StoreError::Import { .. } => Self::Invalid {
                field: "file".to_owned(),
                reason,
            },
            _ => Self::Storage { kind, reason },
        }
    }
}

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> Self {
        Self::Turn { failure }
    }
}

impl From<RequestError> for CommandError {
    fn from(error: RequestError) -> Self {
        other(error)
    }
}

impl From<tauri::Error> for CommandError {
    fn from(error: tauri::Error) -> Self {
        other(error)
    }
}

/// Wraps an error that a page can only display.
pub(crate) fn other(error: impl std::fmt::Display) -> CommandError {
    CommandError::Other {
        reason: error.to_string(),
    }
}

/// Tells pages to reload lists of conversations.
pub(crate) fn conversations_changed(app: &AppHandle) {
    app.state::<Shell>().send(&AppEvent::Conversations);
}

#[cfg(test)]
mod tests;
