//! Functions that read responses and the status in tests.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use transom_engine::{FinishReason, TokenEvent};

use crate::handle::Handle;
use crate::response::{Outcome, Response, ResponseEvent};
use crate::status::Status;

/// Reads a response to its end; returns its text and its outcome.
///
/// # Panics
/// If the response stops without an end.
pub async fn finish(answer: &mut Response) -> (String, Outcome) {
    let mut full_text = String::new();
    while let Some(event) = answer.next().await {
        match event {
            ResponseEvent::Token {
                event: TokenEvent::Text { text, .. },
            } => full_text.push_str(&text),
            ResponseEvent::Ended { outcome } => return (full_text, outcome),
            ResponseEvent::Token { .. }
            | ResponseEvent::Embedded { .. }
            | ResponseEvent::Queued { .. }
            | ResponseEvent::Loading { .. } => {}
        }
    }
    panic!("the answer of {:?} stopped without an end", answer.id());
}

/// Reads until the first text.
///
/// # Panics
/// If the response has no text.
pub async fn first_text(answer: &mut Response) {
    while let Some(event) = answer.next().await {
        if let ResponseEvent::Token {
            event: TokenEvent::Text { .. },
        } = event
        {
            return;
        }
    }
    panic!("no text came");
}

/// Returns why a response ended.
///
/// # Panics
/// If the request failed or was a load request.
#[track_caller]
pub fn reason(outcome: &Outcome) -> FinishReason {
    match outcome {
        Outcome::Finished { reason, .. } => *reason,
        Outcome::Loaded { .. } | Outcome::Failed { .. } => panic!("{outcome:?}"),
    }
}

/// Waits for the first status that `is_it` accepts.
///
/// # Panics
/// If the supervisor ends before that.
pub async fn status_where(handle: &Handle, is_it: impl Fn(&Status) -> bool) -> Arc<Status> {
    let mut status = handle.status();
    let status = status.wait_for(|status| is_it(status)).await;
    status.expect("the supervisor lives").clone()
}

/// Returns the number of files of saved KV caches in their folder, without the index, and without the next
/// one, which replaces it once it is written.
///
/// # Panics
/// If the folder cannot be read.
pub fn n_saved_files(folder: &Path) -> usize {
    let files = fs::read_dir(folder).expect("it is there");
    let names = files.map(|file| file.expect("it can be listed").file_name());
    let is_index = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("index");
    names.filter(|name| !is_index(name)).count()
}
