//! Files dropped on a window: a model is added at its path, and a document is attached in the chat.
//!
//! Rule: dropping a file copies, moves and sends nothing. Other files are refused with a reason.
//! The quick prompt accepts no files.

use std::path::{Path, PathBuf};

use tauri::{AppHandle, DragDropEvent, Manager};

use crate::attachments::{self, name_of};
use crate::commands::models as model_commands;
use crate::shell::{Shell, blocking};
use crate::windows;
use crate::wire::{AppEvent, CommandError, DropKind, DropProblem, DropView, Window};

/// Reports drags to the page and processes dropped files.
pub(crate) fn on_event(app: &AppHandle, window: Window, event: &DragDropEvent) {
    if window == Window::Prompt {
        return;
    }
    match event {
        DragDropEvent::Enter { paths, .. } => over(app.clone(), window, paths),
        DragDropEvent::Drop { paths, .. } => {
            windows::raise(app, window);
            dropped(app.clone(), window, paths.clone());
        }
        DragDropEvent::Leave => send(app, window, DropView::Left),
        _ => {}
    }
}

fn over(app: AppHandle, window: Window, paths: &[PathBuf]) {
    let Some(path) = paths.first().cloned() else {
        return;
    };
    tauri::async_runtime::spawn(async move {
        let name = name_of(&path);
        let kind = blocking(move || Ok(kind_of(window, &path))).await;
        let kind = kind.unwrap_or(DropKind::Other);
        send(&app, window, DropView::Over { name, kind });
    });
}

/// Returns what a file can be used as in this window. Only reading a document shows whether it has
/// text.
fn kind_of(window: Window, path: &Path) -> DropKind {
    if transom_library::usable_model_at(path).is_ok() {
        return DropKind::Model;
    }
    match window == Window::Chat && path.is_file() {
        true => DropKind::Document,
        false => DropKind::Other,
    }
}

fn dropped(app: AppHandle, window: Window, paths: Vec<PathBuf>) {
    tauri::async_runtime::spawn(async move {
        let is_document = move |path: &PathBuf| window == Window::Chat && !looks_like_a_model(path);
        let split = move || Ok(paths.into_iter().partition(is_document));
        let (documents, models): (Vec<_>, Vec<_>) = blocking(split).await.unwrap_or_default();
        if models.is_empty() {
            send(&app, window, DropView::Left);
        }
        for path in models {
            let drop = added(&app, path).await;
            send(&app, window, drop);
        }
        attachments::read(&app, window, documents).await;
    });
}

async fn added(app: &AppHandle, path: PathBuf) -> DropView {
    let name = name_of(&path);
    let is_model_like = looks_like_a_model(&path);
    match model_commands::add(app, path).await {
        Ok(model) => DropView::Added {
            id: model.id,
            name: model.name,
        },
        Err(error) => {
            // For a picture, the missing model header is not a useful reason.
            let (problem, error, reason) = match (is_model_like, error) {
                (true, CommandError::Model { error }) => {
                    (DropProblem::BadModel, Some(error), String::new())
                }
                (true, error) => (DropProblem::BadModel, None, error.into_reason()),
                (false, _) => (DropProblem::NotUsable, None, String::new()),
            };
            DropView::Refused {
                name,
                problem,
                error,
                reason,
            }
        }
    }
}

/// Returns true if the user may expect this to be a model and wants to know why it is not.
fn looks_like_a_model(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|end| end.eq_ignore_ascii_case("gguf"))
        || path.join("config.json").is_file()
}

fn send(app: &AppHandle, window: Window, drop: DropView) {
    let pages = &app.state::<Shell>().pages;
    pages.send(app, window, AppEvent::Drop { window, drop });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_look_like_models_are_recognized() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!looks_like_a_model(folder.path()));
        std::fs::write(folder.path().join("config.json"), "{}").unwrap();
        assert!(looks_like_a_model(folder.path()));
        assert!(looks_like_a_model(Path::new("/a/Model.GGUF")));
        assert!(!looks_like_a_model(Path::new("/a/holiday.mov")));
    }

    #[test]
    fn documents_are_attached_only_in_the_chat() {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path().join("notes.rs");
        std::fs::write(&notes, "fn main() {}\n").unwrap();
        assert_eq!(kind_of(Window::Chat, &notes), DropKind::Document);
        assert_eq!(kind_of(Window::Settings, &notes), DropKind::Other);
        assert_eq!(kind_of(Window::Chat, folder.path()), DropKind::Other);
    }
}
