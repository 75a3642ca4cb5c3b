//! A model that is dropped on a window is put on the list where it lies.
//!
//! Rule: nothing is copied, moved or opened by it; what is no model is refused with a reason, and
//! the quick prompt takes nothing.

use std::path::{Path, PathBuf};

use tauri::{AppHandle, DragDropEvent, Manager};
use transom_catalog::installed;

use crate::commands::models as of_models;
use crate::shell::{Shell, blocking};
use crate::wire::{DropView, News, Refusal, Window};

/// Tells the window of what is dragged over it, and takes what is dropped.
pub(crate) fn on_event(app: &AppHandle, window: Window, event: &DragDropEvent) {
    if window == Window::Prompt {
        return;
    }
    match event {
        DragDropEvent::Enter { paths, .. } => over(app.clone(), window, paths),
        DragDropEvent::Drop { paths, .. } => dropped(app.clone(), window, paths.clone()),
        DragDropEvent::Leave => tell(app, window, DropView::Left),
        _ => {}
    }
}

fn over(app: AppHandle, window: Window, paths: &[PathBuf]) {
    let Some(path) = paths.first().cloned() else {
        return;
    };
    tauri::async_runtime::spawn(async move {
        let name = name_of(&path);
        let is_model = blocking(move || Ok(installed::given(&path).is_ok())).await;
        let is_model = is_model.unwrap_or(false);
        tell(&app, window, DropView::Over { name, is_model });
    });
}

fn dropped(app: AppHandle, window: Window, paths: Vec<PathBuf>) {
    if paths.is_empty() {
        tell(&app, window, DropView::Left);
        return;
    }
    tauri::async_runtime::spawn(async move {
        for path in paths {
            let drop = added(&app, path).await;
            tell(&app, window, drop);
        }
    });
}

async fn added(app: &AppHandle, path: PathBuf) -> DropView {
    let name = name_of(&path);
    let looks_like_one = looks_like_a_model(&path);
    match of_models::add(app, path).await {
        Ok(model) => DropView::Added {
            id: model.id,
            name: model.name,
        },
        Err(refusal) => DropView::Refused {
            name,
            // Of a picture nobody wants to know which header it lacks.
            reason: match (looks_like_one, refusal) {
                (
                    true,
                    Refusal::Invalid { reason, .. }
                    | Refusal::Storage { reason }
                    | Refusal::Other { reason },
                ) => reason,
                _ => String::new(),
            },
        },
    }
}

/// Whether a person could take it for a model, so that they want to know why it is none.
fn looks_like_a_model(path: &Path) -> bool {
    let is_gguf = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("gguf"));
    is_gguf || path.join("config.json").is_file()
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

fn tell(app: &AppHandle, window: Window, drop: DropView) {
    let shell = app.state::<Shell>();
    shell.pages.tell(app, window, News::Drop { window, drop });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_given_for_what_could_be_taken_for_a_model() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!looks_like_a_model(folder.path()));
        std::fs::write(folder.path().join("config.json"), "{}").unwrap();
        assert!(looks_like_a_model(folder.path()));
        assert!(looks_like_a_model(Path::new("/a/Model.GGUF")));
        assert!(!looks_like_a_model(Path::new("/a/holiday.mov")));
    }

    #[test]
    fn what_is_dropped_is_called_by_its_own_name() {
        assert_eq!(name_of(Path::new("/a/b/Qwen3-4B.gguf")), "Qwen3-4B.gguf");
        assert_eq!(name_of(Path::new("/")), "/");
    }
}
