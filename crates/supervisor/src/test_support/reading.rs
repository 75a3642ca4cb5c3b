//! Reading answers and the status to where a test wants them.

use std::sync::Arc;

use transom_engine::{FinishReason, TokenEvent};

use crate::answer::{Answer, AnswerEvent, Outcome};
use crate::handle::Handle;
use crate::status::Status;

/// The answer's text and end.
///
/// # Panics
/// When the answer stops without an end.
pub async fn finish(answer: &mut Answer) -> (String, Outcome) {
    let mut said = String::new();
    while let Some(event) = answer.next().await {
        match event {
            AnswerEvent::Token {
                event: TokenEvent::Text { text, .. },
            } => said.push_str(&text),
            AnswerEvent::Ended { outcome } => return (said, outcome),
            AnswerEvent::Token { .. }
            | AnswerEvent::Queued { .. }
            | AnswerEvent::Loading { .. } => {}
        }
    }
    panic!("the answer of {:?} stopped without an end", answer.id());
}

/// Reads until the first text.
///
/// # Panics
/// When none comes.
pub async fn first_text(answer: &mut Answer) {
    while let Some(event) = answer.next().await {
        if let AnswerEvent::Token {
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
