//! The commands that pages may call, by topic. A command gets the backend, calls one function of
//! it, and converts the result to types of `wire`.
//!
//! Rule: a command never blocks the main thread, and its error is a [`CommandError`], also after a
//! panic.

pub(crate) mod api;
pub(crate) mod app;
pub(crate) mod benchmarks;
pub(crate) mod catalog;
pub(crate) mod conversations;
pub(crate) mod models;
pub(crate) mod turns;
pub(crate) mod updates;

use std::path::PathBuf;

use tauri::{Manager, WebviewWindow, Wry};
use tauri_plugin_dialog::{DialogExt, FileDialogBuilder, FilePath};
use transom_chat::Failure;
use transom_store::StoreError;
use transom_supervisor::RequestError;

use crate::task::blocking;
use crate::windows;
use crate::wire::{CommandError, CommandResult, Window};

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let (kind, reason) = (error.kind(), error.to_string());
        match error {
            StoreError::NoConversation(_) | StoreError::NoMessage(_) => Self::NotFound,
            StoreError::Setting(issue) => Self::invalid(&issue.field, reason),
            StoreError::Import { .. } => Self::invalid("file", reason),
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
        Self::other(error)
    }
}

/// Shows a file dialog on a blocking thread, during which the calling window stays open. `None` if the
/// user cancels.
async fn show_dialog<T: Send + 'static>(
    page: &WebviewWindow,
    show: impl FnOnce(FileDialogBuilder<Wry>) -> Option<T> + Send + 'static,
) -> CommandResult<Option<T>> {
    let window = Window::from_label(page.label());
    let guard = window.map(|window| windows::keep_open(page.app_handle(), window));
    let dialog = page.dialog().file().set_parent(page);
    let chosen = blocking(move || Ok(show(dialog))).await;
    drop(guard);
    chosen
}

/// Asks the user for one path; `None` if the user cancels.
async fn choose_path(
    page: &WebviewWindow,
    show: impl FnOnce(FileDialogBuilder<Wry>) -> Option<FilePath> + Send + 'static,
) -> CommandResult<Option<PathBuf>> {
    let path = show_dialog(page, show).await?.map(FilePath::into_path);
    path.transpose().map_err(CommandError::other)
}

/// Asks the user for files; none if the user cancels.
async fn choose_files(page: &WebviewWindow) -> CommandResult<Vec<PathBuf>> {
    let files = show_dialog(page, FileDialogBuilder::blocking_pick_files).await?;
    let paths = files.unwrap_or_default().into_iter();
    let paths = paths.map(FilePath::into_path).collect::<Result<_, _>>();
    paths.map_err(CommandError::other)
}

/// Asks the user where to save a text, and returns the path; `None` if the user cancels.
async fn save(
    page: &WebviewWindow,
    name: &str,
    text: impl FnOnce() -> String + Send + 'static,
) -> CommandResult<Option<String>> {
    let name = name.to_owned();
    let chosen = choose_path(page, move |dialog| {
        dialog.set_file_name(name).blocking_save_file()
    });
    let Some(path) = chosen.await? else {
        return Ok(None);
    };
    blocking(move || {
        std::fs::write(&path, text()).map_err(|error| CommandError::of_file(&path, &error))?;
        Ok(Some(path.to_string_lossy().into_owned()))
    })
    .await
}

#[cfg(test)]
mod tests;
