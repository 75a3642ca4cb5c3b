//! Reading answers and the status to where a test wants them.

use std::sync::Arc;

use transom_engine::{FinishReason, TokenEvent};

use crate::handle::Handle;
use crate::response::{Outcome, Response, ResponseEvent};
use crate::status::Status;

/// The answer's text and end.
///
/// # Panics
/// When the answer stops without an end.
pub async fn finish(answer: &mut Response) -> (String, Outcome) {
    let mut said = String::new();
    while let Some(event) = answer.next().await {
        match event {
            ResponseEvent::Token {
                event: TokenEvent::Text { text, .. },
            } => said.push_str(&text),
            ResponseEvent::Ended { outcome } => return (said, outcome),
            ResponseEvent::Token { .. }
            | ResponseEvent::Queued { .. }
            | ResponseEvent::Loading { .. } => {}
        }
    }
    panic!("the answer of {:?} stopped without an end", answer.id());
}

/// Reads until the first text.
///
/// # Panics
/// When none comes.
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

/// Why an answer ended.
///
/// # Panics
/// When it failed, or none was asked for.
#[track_caller]
pub fn reason(outcome: &Outcome) -> FinishReason {
    match outcome {
        Outcome::Finished { reason, .. } => *reason,
        Outcome::Loaded { .. } | Outcome::Failed { .. } => panic!("{outcome:?}"),
    }
}

/// The first status that `is_it`.
///
/// # Panics
/// When the supervisor is gone before.
pub async fn status_where(handle: &Handle, is_it: impl Fn(&Status) -> bool) -> Arc<Status> {
    let mut status = handle.status();
    let status = status.wait_for(|status| is_it(status)).await;
    status.expect("the supervisor lives").clone()
}
