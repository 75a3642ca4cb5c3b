//! What pages may call, by what it is about. Each command is a few lines: it fetches the rooms, asks
//! one of them, and puts what comes into the words of `wire`.
//!
//! Rule: a command never blocks the main thread, and its failure is a [`Refusal`], also after a
//! panic.

pub(crate) mod app;
pub(crate) mod catalogue;
pub(crate) mod conversations;
pub(crate) mod models;
pub(crate) mod turns;

use tauri::{AppHandle, Manager};
use transom_chat::Failure;
use transom_store::StoreError;
use transom_supervisor::RequestError;

use crate::shell::Shell;
use crate::wire::{News, Refusal};

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let reason = error.to_string();
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
            _ => Self::Storage { reason },
        }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Turn { failure }
    }
}

impl From<RequestError> for Refusal {
    fn from(error: RequestError) -> Self {
        other(error)
    }
}

impl From<tauri::Error> for Refusal {
    fn from(error: tauri::Error) -> Self {
        other(error)
    }
}

/// A failure that a page can only show.
pub(crate) fn other(error: impl std::fmt::Display) -> Refusal {
    Refusal::Other {
        reason: error.to_string(),
    }
}

/// Lists of conversations are to be read again.
pub(crate) fn conversations_changed(app: &AppHandle) {
    app.state::<Shell>().tell(&News::Conversations);
}

#[cfg(test)]
mod tests;
