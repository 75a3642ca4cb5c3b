//! Converts the end of a request into the forms that the store keeps and windows show.
//!
//! Pure functions. Rule: every outcome of the supervisor maps to one ending, chosen by what the
//! user can do about it. The text written until then is kept in every case.

use std::time::Duration;

use transom_engine::{EngineError, FinishReason, Route, Stats, UnsupportedFeature};
use transom_files::file_name;
use transom_store::{Ending, Message};
use transom_supervisor::RequestError;

use crate::failure::{Failure, ModelProblem};
use crate::update::{AnswerStats, EndingView};

/// Returns the ending of a response that the engine finished.
pub fn finished(reason: FinishReason) -> EndingView {
    match reason {
        FinishReason::Stop => EndingView::Stop,
        FinishReason::Length => EndingView::Length,
        // The user stopped it or unloaded its model; both are deliberate.
        FinishReason::Canceled => EndingView::Canceled,
        FinishReason::Shed => EndingView::OutOfResources,
    }
}

/// Returns the ending of a request that failed with `error`.
pub fn failed(error: &RequestError) -> EndingView {
    match error {
        // The program is quitting. The response counts as interrupted, so the user can regenerate
        // it.
        RequestError::Quitting => EndingView::Interrupted,
        RequestError::Engine {
            source: EngineError::Canceled,
        } => EndingView::Canceled,
        error => EndingView::Failed {
            failure: failure(error),
        },
    }
}

/// As [`failed`], for a request with a conversation that must not be shortened: all of it is too
/// long, and not its last message alone.
pub fn failed_unshortened(error: &RequestError) -> EndingView {
    match failed(error) {
        EndingView::Failed {
            failure:
                Failure::PromptTooLong {
                    prompt_tokens,
                    context_length,
                },
        } => EndingView::Failed {
            failure: Failure::ConversationTooLong {
                prompt_tokens,
                context_length,
            },
        },
        ending => ending,
    }
}

/// Converts an error of the supervisor into a failure that a window can act on.
pub fn failure(error: &RequestError) -> Failure {
    let reason = error.to_string();
    match error {
        RequestError::Engine { source } => engine_failure(source),
        RequestError::NoVariantRuns { .. } => Failure::ModelUnusable {
            problem: Some(ModelProblem::Variants),
            reason,
        },
        RequestError::Busy { .. } | RequestError::ClientBusy { .. } => Failure::Busy,
        RequestError::TooLarge {
            name,
            need,
            budget_bytes,
            context_that_fits,
            ..
        } => Failure::TooLarge {
            model: Some(name.clone()),
            need_bytes: need.total_bytes(),
            budget_bytes: *budget_bytes,
            context_that_fits: context_that_fits.map(to_u32),
        },
        RequestError::Blocked { retry_after, .. } => Failure::Held {
            retry_after_seconds: seconds_rounded_up(*retry_after),
        },
        // For the user it makes no difference whether the model's process or the supervisor's
        // program ended.
        RequestError::WorkerGone { .. } | RequestError::InstanceGone { .. } => {
            Failure::EngineCrashed
        }
        RequestError::Unloaded => Failure::Unloaded,
        RequestError::Shed { .. } => Failure::Shed,
        RequestError::Stuck {
            process_id,
            held_bytes,
            ..
        } => Failure::Stuck {
            process_id: *process_id,
            held_bytes: *held_bytes,
        },
        RequestError::Quitting => Failure::Other { reason },
    }
}

fn engine_failure(error: &EngineError) -> Failure {
    let reason = error.to_string();
    let unusable = |problem| Failure::ModelUnusable {
        problem: Some(problem),
        reason: reason.clone(),
    };
    match error {
        EngineError::NotFound { path, .. } => unusable(ModelProblem::Missing {
            file: file_name(path),
        }),
        EngineError::BadFile { path, .. } => unusable(ModelProblem::Damaged {
            file: file_name(path),
        }),
        EngineError::Unsupported { feature, .. } => unusable(problem(feature)),
        EngineError::Template { .. } => unusable(ModelProblem::Template),
        EngineError::PromptTooLong {
            prompt_tokens,
            context_length,
        } => Failure::PromptTooLong {
            prompt_tokens: to_u32(*prompt_tokens),
            context_length: to_u32(*context_length),
        },
        EngineError::OutOfMemory {
            needed_bytes,
            available_bytes,
            ..
        } => Failure::TooLarge {
            model: None,
            need_bytes: *needed_bytes,
            budget_bytes: *available_bytes,
            context_that_fits: None,
        },
        EngineError::InvalidParameter { name, value, .. } => Failure::InvalidParameter {
            name: name.to_string(),
            value: value.clone(),
            reason,
        },
        EngineError::Backend { .. } => Failure::Backend { reason },
        EngineError::EmptyPrompt
        | EngineError::Canceled
        | EngineError::InvalidConstraint { .. }
        | EngineError::ConstraintFailed { .. } => Failure::Other { reason },
    }
}

fn problem(feature: &UnsupportedFeature) -> ModelProblem {
    match feature.clone() {
        UnsupportedFeature::Architecture { name } => ModelProblem::Architecture { name },
        UnsupportedFeature::Quantization { name } => ModelProblem::Quantization { name },
        UnsupportedFeature::Format => ModelProblem::Format,
        UnsupportedFeature::Tokenizer => ModelProblem::Tokenizer,
        UnsupportedFeature::SpecialTokens => ModelProblem::SpecialTokens,
        UnsupportedFeature::Purpose => ModelProblem::Purpose,
        UnsupportedFeature::Other => ModelProblem::Feature,
    }
}

/// Returns the statistics of a response. `first_text` is the time until the first text,
/// `dropped_messages` the number of messages that were left out of the prompt, `context_length` that
/// of [`AnswerStats`]. The caller sets the route. Returns `None` for a request that ended before it
/// started.
pub fn stats(
    stats: &Stats,
    first_text: Option<Duration>,
    dropped_messages: usize,
    context_length: Option<u32>,
) -> Option<AnswerStats> {
    if stats.prompt_tokens == 0 {
        return None;
    }
    let time_to_first_token = first_text.unwrap_or(stats.time_to_first_token);
    Some(AnswerStats {
        prompt_tokens: to_u32(stats.prompt_tokens),
        cached_tokens: to_u32(stats.cached_tokens),
        generated_tokens: to_u32(stats.generated_tokens),
        time_to_first_token_seconds: time_to_first_token.as_secs_f64(),
        tokens_per_second: stats.decode_tokens_per_second(),
        dropped_messages: to_u32(dropped_messages),
        context_length,
        route: Route::default(),
        is_partial: false,
        engine: Some(*stats),
    })
}

/// Converts an ending for the store.
pub fn to_store(ending: &EndingView) -> Ending {
    match ending {
        EndingView::Writing => Ending::Writing,
        EndingView::Stop => Ending::Stop,
        EndingView::Length => Ending::Length,
        EndingView::Canceled => Ending::Canceled,
        EndingView::OutOfResources => Ending::Shed,
        EndingView::Failed { failure } => Ending::Failed {
            failure: json(failure),
        },
        EndingView::Interrupted => Ending::Interrupted,
    }
}

/// Converts an ending from the store. A failure that this version cannot parse becomes
/// [`Failure::Other`] with the stored text.
pub fn from_store(ending: &Ending) -> EndingView {
    match ending {
        Ending::Writing => EndingView::Writing,
        Ending::Stop => EndingView::Stop,
        Ending::Length => EndingView::Length,
        Ending::Canceled => EndingView::Canceled,
        Ending::Shed => EndingView::OutOfResources,
        Ending::Failed { failure } => EndingView::Failed {
            failure: serde_json::from_str(failure).unwrap_or_else(|_| Failure::Other {
                reason: failure.clone(),
            }),
        },
        Ending::Interrupted => EndingView::Interrupted,
    }
}

/// Returns the statistics stored with `message`, or `None` if another version wrote them.
pub fn stats_of(message: &Message) -> Option<AnswerStats> {
    serde_json::from_str(message.stats.as_deref()?).ok()
}

/// Serializes statistics or a failure for the store.
pub fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("names, numbers and texts are JSON")
}

pub(crate) fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Rounds up, so that a retry after this time is not too early.
fn seconds_rounded_up(time: Duration) -> u32 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
