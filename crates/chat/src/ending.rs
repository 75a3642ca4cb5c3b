//! How an ask ended, as the store keeps it and as a window reads it.
//!
//! Pure. Rule: every end of the supervisor has one ending here, by what a person can do about it;
//! what was written until then is kept whichever it is.

use std::time::Duration;

use transom_engine::{EngineError, FinishReason, Stats};
use transom_store::{Ending, Message};
use transom_supervisor::RequestError;

use crate::failure::Failure;
use crate::update::{AnswerStats, EndingView};

/// The ending of an answer that came to its end in good order.
pub fn finished(reason: FinishReason) -> EndingView {
    match reason {
        FinishReason::Stop => EndingView::Stop,
        FinishReason::Length => EndingView::Length,
        // The person stopped it, or took its model away; both meant it.
        FinishReason::Canceled => EndingView::Cancelled,
        FinishReason::Shed => EndingView::Shed,
    }
}

/// The ending of an ask that `error` ended.
pub fn failed(error: &RequestError) -> EndingView {
    match error {
        // The program ends: the answer is as one that a quit cut off, and can be asked for again.
        RequestError::Quitting => EndingView::Interrupted,
        RequestError::Engine {
            source: EngineError::Canceled,
        } => EndingView::Cancelled,
        error => EndingView::Failed {
            failure: failure(error),
        },
    }
}

/// Why an ask failed, by what a window can offer.
pub fn failure(error: &RequestError) -> Failure {
    let reason = error.to_string();
    match error {
        RequestError::Engine { source } => engine_failure(source),
        RequestError::NoVariantRuns { .. } => Failure::ModelUnusable { reason },
        RequestError::Busy { .. } => Failure::Busy,
        RequestError::TooLarge {
            need,
            budget_bytes,
            context_that_fits,
            ..
        } => Failure::TooLarge {
            need_bytes: need.total_bytes(),
            budget_bytes: *budget_bytes,
            context_that_fits: context_that_fits.map(whole),
        },
        RequestError::Blocked { retry_after, .. } => Failure::Held {
            retry_after_seconds: whole_seconds(*retry_after),
        },
        // To the person it is the same whether the model's process died or the program that had it.
        RequestError::WorkerGone { .. } | RequestError::InstanceGone { .. } => {
            Failure::EngineCrashed
        }
        RequestError::Unloaded => Failure::Unloaded,
        RequestError::Shed { .. } | RequestError::Stuck { .. } | RequestError::Quitting => {
            Failure::Other { reason }
        }
    }
}

fn engine_failure(error: &EngineError) -> Failure {
    let reason = error.to_string();
    match error {
        EngineError::NotFound { .. }
        | EngineError::BadFile { .. }
        | EngineError::Unsupported { .. }
        | EngineError::Template { .. } => Failure::ModelUnusable { reason },
        EngineError::PromptTooLong {
            prompt_tokens,
            context_length,
        } => Failure::PromptTooLong {
            prompt_tokens: whole(*prompt_tokens),
            context_length: whole(*context_length),
        },
        EngineError::OutOfMemory {
            needed_bytes,
            available_bytes,
            ..
        } => Failure::TooLarge {
            need_bytes: *needed_bytes,
            budget_bytes: *available_bytes,
            context_that_fits: None,
        },
        EngineError::EmptyPrompt
        | EngineError::InvalidParameter { .. }
        | EngineError::Canceled
        | EngineError::Backend { .. } => Failure::Other { reason },
    }
}

/// Figures of an answer whose first text came after `first_text`, for a conversation of which
/// `dropped_messages` were left out. An ask that ended before it began has none.
pub fn stats(
    stats: &Stats,
    first_text: Option<Duration>,
    dropped_messages: usize,
) -> Option<AnswerStats> {
    if stats.prompt_tokens == 0 {
        return None;
    }
    let time_to_first_token = first_text.unwrap_or(stats.time_to_first_token);
    Some(AnswerStats {
        prompt_tokens: whole(stats.prompt_tokens),
        cached_tokens: whole(stats.cached_tokens),
        generated_tokens: whole(stats.generated_tokens),
        time_to_first_token_seconds: time_to_first_token.as_secs_f64(),
        tokens_per_second: stats.decode_tokens_per_second(),
        dropped_messages: whole(dropped_messages),
        of_engine: Some(*stats),
    })
}

/// What the store keeps of an ending.
pub fn to_store(ending: &EndingView) -> Ending {
    match ending {
        EndingView::Writing => Ending::Writing,
        EndingView::Stop => Ending::Stop,
        EndingView::Length => Ending::Length,
        EndingView::Cancelled => Ending::Canceled,
        EndingView::Shed => Ending::Shed,
        EndingView::Failed { failure } => Ending::Failed {
            failure: json(failure),
        },
        EndingView::Interrupted => Ending::Interrupted,
    }
}

/// The ending that the store kept. A failure that this version cannot read is told as it stands.
pub fn from_store(ending: &Ending) -> EndingView {
    match ending {
        Ending::Writing => EndingView::Writing,
        Ending::Stop => EndingView::Stop,
        Ending::Length => EndingView::Length,
        Ending::Canceled => EndingView::Cancelled,
        Ending::Shed => EndingView::Shed,
        Ending::Failed { failure } => EndingView::Failed {
            failure: serde_json::from_str(failure).unwrap_or_else(|_| Failure::Other {
                reason: failure.clone(),
            }),
        },
        Ending::Interrupted => EndingView::Interrupted,
    }
}

/// The figures that the store kept with `message`; `None` also where they are of another version.
pub fn stats_of(message: &Message) -> Option<AnswerStats> {
    serde_json::from_str(message.stats.as_deref()?).ok()
}

/// Figures as the store keeps them.
pub fn stats_to_store(stats: &AnswerStats) -> String {
    json(stats)
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("names, numbers and texts are JSON")
}

fn whole(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Rounded up, so that trying again after so long is not too early.
fn whole_seconds(time: Duration) -> u32 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
