//! Functions that read responses and the status in tests.

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
