//! Files dropped on a window: a model is added at its path, and a document is attached in the chat.
//!
//! Rule: dropping a file copies, moves and sends nothing. Other files are refused with a reason. If
//! documents are dropped together with anything else, only the documents are used.
//! The quick prompt accepts no files.

use std::path::{Path, PathBuf};

use tauri::{AppHandle, DragDropEvent, Manager};
use transom_library::{looks_like_a_model, usable_model_at};

use crate::attachments::{self, name_of};
use crate::commands::models as model_commands;
use crate::shell::Shell;
use crate::task::blocking;
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

/// What a dropped path is in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Model,
    /// The user may expect this to be a model and wants to know why it is not.
    BadModel,
    /// Only reading it shows whether it has text.
    Document,
    /// A folder without a model.
    Folder,
    Other,
}

fn over(app: AppHandle, window: Window, paths: &[PathBuf]) {
    let paths = paths.to_vec();
    tauri::async_runtime::spawn(async move {
        let items = blocking(move || Ok(items_of(window, paths))).await;
        if let Some(view) = view_over(&items.unwrap_or_default()) {
            send(&app, window, view);
        }
    });
}

fn items_of(window: Window, paths: Vec<PathBuf>) -> Vec<(PathBuf, Item)> {
    let items = paths.into_iter().map(|path| {
        let item = item_of(window, &path);
        (path, item)
    });
    items.collect()
}

fn item_of(window: Window, path: &Path) -> Item {
    if usable_model_at(path).is_ok() {
        return Item::Model;
    }
    if looks_like_a_model(path) {
        return Item::BadModel;
    }
    if path.is_dir() {
        return Item::Folder;
    }
    match window == Window::Chat && path.is_file() {
        true => Item::Document,
        false => Item::Other,
    }
}

/// Returns what dropping these files would do; `None` without files.
fn view_over(items: &[(PathBuf, Item)]) -> Option<DropView> {
    let paths_of = |wanted: Item| {
        let found = items.iter().filter(move |(_, item)| *item == wanted);
        found.map(|(path, _)| path).collect::<Vec<_>>()
    };
    let (documents, models) = (paths_of(Item::Document), paths_of(Item::Model));
    let (kind, used) = match (documents.is_empty(), models.is_empty()) {
        (false, _) if documents.len() == items.len() => (DropKind::Document, documents),
        (false, _) => (DropKind::Mixed, documents),
        (true, false) => (DropKind::Model, models),
        (true, true) => (DropKind::Other, Vec::new()),
    };
    let (first, _) = items.first()?;
    Some(DropView::Over {
        name: name_of(used.first().copied().unwrap_or(first)),
        kind,
        is_several: used.len() > 1,
    })
}

fn dropped(app: AppHandle, window: Window, paths: Vec<PathBuf>) {
    tauri::async_runtime::spawn(async move {
        send(&app, window, DropView::Left);
        let items = blocking(move || Ok(items_of(window, paths))).await;
        let is_document = |(_, item): &(PathBuf, Item)| *item == Item::Document;
        let (documents, others): (Vec<_>, Vec<_>) =
            items.unwrap_or_default().into_iter().partition(is_document);
        for (path, item) in others {
            let drop = match refusal(item, !documents.is_empty()) {
                Some(problem) => refused(name_of(&path), problem),
                None => added(&app, path).await,
            };
            send(&app, window, drop);
        }
        let documents = documents.into_iter().map(|(path, _)| path).collect();
        attachments::read(&app, window, documents).await;
    });
}

/// Returns why an item is not added as a model; `None` if adding it succeeds or tells why not.
fn refusal(item: Item, has_documents: bool) -> Option<DropProblem> {
    match item {
        _ if has_documents => Some(DropProblem::OnlyDocuments),
        Item::Model | Item::BadModel => None,
        Item::Folder => Some(DropProblem::NoModel),
        // For a picture, the missing model header is not a useful reason.
        Item::Document | Item::Other => Some(DropProblem::NotUsable),
    }
}

fn refused(name: String, problem: DropProblem) -> DropView {
    DropView::Refused {
        name,
        problem,
        error: None,
        reason: String::new(),
    }
}

async fn added(app: &AppHandle, path: PathBuf) -> DropView {
    let name = name_of(&path);
    match model_commands::add(app, path).await {
        Ok(model) => DropView::Added {
            id: model.id,
            name: model.name,
        },
        Err(error) => {
            let (error, reason) = match error {
                CommandError::Model { error } => (Some(error), String::new()),
                error => (None, error.into_reason()),
            };
            DropView::Refused {
                name,
                problem: DropProblem::BadModel,
                error,
                reason,
            }
        }
    }
}

fn send(app: &AppHandle, window: Window, drop: DropView) {
    let pages = &app.state::<Shell>().pages;
    pages.send(app, window, AppEvent::Drop { window, drop });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_never_a_document() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(item_of(Window::Chat, folder.path()), Item::Folder);
        std::fs::write(folder.path().join("Model-Q4_K_M.gguf"), "GGUF").unwrap();
        assert_eq!(item_of(Window::Chat, folder.path()), Item::BadModel);
        let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/starter");
        assert_eq!(item_of(Window::Chat, &starter), Item::Model);
    }

    #[test]
    fn documents_are_attached_only_in_the_chat() {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path().join("notes.rs");
        std::fs::write(&notes, "fn main() {}\n").unwrap();
        assert_eq!(item_of(Window::Chat, &notes), Item::Document);
        assert_eq!(item_of(Window::Settings, &notes), Item::Other);
    }

    #[test]
    fn the_hint_is_right_for_all_files() {
        use Item::{BadModel, Document, Folder, Model, Other};
        let hint = |items: &[Item]| {
            let path = |n: usize| PathBuf::from(format!("/a/{n}"));
            let items = items.iter().enumerate();
            let items: Vec<_> = items.map(|(n, item)| (path(n), *item)).collect();
            match view_over(&items) {
                Some(DropView::Over {
                    name,
                    kind,
                    is_several,
                }) => (name, kind, is_several),
                other => panic!("{other:?}"),
            }
        };
        let over = |name: &str, kind, is_several| (name.to_owned(), kind, is_several);
        assert_eq!(hint(&[Document]), over("0", DropKind::Document, false));
        assert_eq!(
            hint(&[Document, Document]),
            over("0", DropKind::Document, true)
        );
        assert_eq!(hint(&[Model, Document]), over("1", DropKind::Mixed, false));
        assert_eq!(hint(&[Folder, Model]), over("1", DropKind::Model, false));
        assert_eq!(hint(&[BadModel, Other]), over("0", DropKind::Other, false));
        assert_eq!(view_over(&[]), None);
    }

    #[test]
    fn only_documents_are_used_of_a_mixed_drop() {
        assert_eq!(refusal(Item::Model, false), None);
        assert_eq!(refusal(Item::BadModel, false), None);
        assert_eq!(refusal(Item::Folder, false), Some(DropProblem::NoModel));
        assert_eq!(refusal(Item::Other, false), Some(DropProblem::NotUsable));
        for item in [Item::Model, Item::Folder, Item::Other] {
            assert_eq!(refusal(item, true), Some(DropProblem::OnlyDocuments));
        }
    }
}
