//! Documents for the composer: dropped, chosen or copied files, whose text is read in child processes.
//!
//! Rule: reading a document sends and changes nothing, and neither its name nor its text is logged.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tauri::{AppHandle, Manager};
use transom_documents::DocumentProblem;
use transom_files::{file_name, visible};
use transom_store::AttachedText;

use crate::now;
use crate::shell::Shell;
use crate::task::blocking;
use crate::wire::{AppEvent, DocumentView, Window};

/// The number of the next document. It begins with the time in seconds, because pages may still know
/// the numbers of an earlier run.
static NEXT: LazyLock<AtomicU32> =
    LazyLock::new(|| AtomicU32::new(u32::try_from(now().0 / 1000).unwrap_or(1)));

/// Reads documents one after the other and sends them to the page of `window`.
pub(crate) async fn read(app: &AppHandle, window: Window, paths: Vec<PathBuf>) {
    let files = paths.into_iter();
    let files: Vec<(u32, PathBuf)> = files
        .map(|path| (NEXT.fetch_add(1, Ordering::Relaxed), path))
        .collect();
    for (file, path) in &files {
        let name = name_of(path);
        send(app, window, *file, DocumentView::Reading { name });
    }
    for (file, path) in files {
        let document = blocking(move || Ok(view(&transom_documents::program(), &path))).await;
        let document = document.unwrap_or_else(|error| DocumentView::Failed {
            problem: DocumentProblem::CannotOpen {
                reason: error.into_reason(),
            },
        });
        send(app, window, file, document);
    }
}

/// Reads a document with a child process of `program`.
fn view(program: &Path, path: &Path) -> DocumentView {
    match transom_documents::read(program, path) {
        Ok(document) => DocumentView::Read {
            attached: AttachedText {
                name: Some(document.name),
                text: document.text,
            },
        },
        Err(error) => DocumentView::Failed {
            problem: error.problem,
        },
    }
}

/// Returns the name of a file or folder, without control characters.
pub(crate) fn name_of(path: &Path) -> String {
    visible(&file_name(path)).into_owned()
}

fn send(app: &AppHandle, window: Window, file: u32, document: DocumentView) {
    let pages = &app.state::<Shell>().pages;
    pages.send(app, window, AppEvent::Document { file, document });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_name() {
        assert_eq!(name_of(Path::new("/a/b/Report 2.pdf")), "Report 2.pdf");
        assert_eq!(name_of(Path::new("/")), "/");
        assert_eq!(
            name_of(Path::new("/a/b\u{202e}fdp.\nexe")),
            "b\u{fffd}fdp. exe"
        );
    }

    #[test]
    fn a_document_that_cannot_be_read_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let notes = folder.path().join("notes.md");
        let problem_of = |program: &str, path: &Path| match view(Path::new(program), path) {
            DocumentView::Failed { problem } => problem,
            other => panic!("{other:?}"),
        };
        let program = "/no/such/program";
        assert_eq!(problem_of(program, &notes), DocumentProblem::NotFound);
        std::fs::write(&notes, "# Notes").unwrap();
        let problem = problem_of(program, &notes);
        assert!(
            matches!(&problem, DocumentProblem::NotStarted { reason } if reason.starts_with(program)),
            "{problem:?}"
        );
        let problem = problem_of(program, folder.path());
        assert!(
            matches!(problem, DocumentProblem::CannotOpen { .. }),
            "{problem:?}"
        );
    }
}
