//! Files dropped on a window: a model is added at its path, and text goes to the chat's composer.
//!
//! Rule: dropping a file copies, moves and sends nothing. Other files are refused with a reason.
//! The quick prompt accepts no files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tauri::{AppHandle, DragDropEvent, Manager};

use crate::commands::models as model_commands;
use crate::shell::{Shell, blocking};
use crate::windows;
use crate::wire::{AppEvent, CommandError, DropKind, DropProblem, DropView, Window};

/// Maximum size of attached text in bytes, more than any context holds.
const MAX_TEXT_BYTES: u64 = 1 << 20;

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

/// Returns what a file can be used as in this window.
fn kind_of(window: Window, path: &Path) -> DropKind {
    if transom_library::usable_model_at(path).is_ok() {
        return DropKind::Model;
    }
    match window == Window::Chat && text_of(path).is_ok() {
        true => DropKind::Text,
        false => DropKind::Other,
    }
}

/// Reads a text file, whatever its extension: source code has many.
///
/// # Errors
/// Why it can't be attached, and the system's error in English if there is one.
fn text_of(path: &Path) -> Result<String, (DropProblem, String)> {
    let read = transom_files::read_to_string(path, MAX_TEXT_BYTES);
    let text = read.map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => (DropProblem::TooLarge, String::new()),
        ErrorKind::InvalidData => (DropProblem::NotText, String::new()),
        _ => (DropProblem::Unreadable, error.to_string()),
    })?;
    match text.contains('\0') {
        true => Err((DropProblem::NotText, String::new())),
        false => Ok(text),
    }
}

fn dropped(app: AppHandle, window: Window, paths: Vec<PathBuf>) {
    if paths.is_empty() {
        send(&app, window, DropView::Left);
        return;
    }
    tauri::async_runtime::spawn(async move {
        for path in paths {
            let name = name_of(&path);
            let is_model_like = looks_like_a_model(&path);
            let drop = match window == Window::Chat && !is_model_like {
                true => match blocking(move || Ok(text_of(&path))).await {
                    Ok(Ok(text)) => DropView::Attached { name, text },
                    Ok(Err((problem, reason))) => DropView::Refused {
                        name,
                        problem,
                        error: None,
                        reason,
                    },
                    Err(_) => DropView::Left,
                },
                false => added(&app, path).await,
            };
            send(&app, window, drop);
        }
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

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
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
    fn text_is_attached_only_in_the_chat() {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path().join("notes.rs");
        std::fs::write(&notes, "fn main() {}\n").unwrap();
        assert_eq!(kind_of(Window::Chat, &notes), DropKind::Text);
        assert_eq!(kind_of(Window::Settings, &notes), DropKind::Other);
        assert_eq!(text_of(&notes).as_deref(), Ok("fn main() {}\n"));
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for bytes in [&b"%PDF-1.7\n\xff\xfe"[..], b"a\0b"] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(kind_of(Window::Chat, &path), DropKind::Other);
            assert_eq!(text_of(&path).unwrap_err().0, DropProblem::NotText);
        }
        std::fs::File::create(&path)
            .unwrap()
            .set_len(MAX_TEXT_BYTES + 1)
            .unwrap();
        assert_eq!(text_of(&path).unwrap_err().0, DropProblem::TooLarge);
        assert!(text_of(folder.path()).is_err(), "a folder");
    }

    #[test]
    fn a_dropped_file_keeps_its_name() {
        assert_eq!(name_of(Path::new("/a/b/Qwen3-4B.gguf")), "Qwen3-4B.gguf");
        assert_eq!(name_of(Path::new("/")), "/");
    }
}
