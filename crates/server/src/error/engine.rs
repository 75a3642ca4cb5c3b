//! The errors of the supervisor and the engine as errors of a request.
//!
//! Rule: every variant is listed, so a new one must be decided here. Messages that contain paths are
//! written anew.

use std::time::Duration;

use axum::http::StatusCode;
use transom_engine::EngineError;
use transom_supervisor::RequestError;

use super::{ApiError, ContextNumbers, ErrorKind};

/// The code of errors about a constraint that can't be held.
pub(crate) const INVALID_CONSTRAINT: &str = "invalid_constraint";

/// The code of errors about a response that ended before it matched its constraint.
pub(crate) const CONSTRAINT_FAILED: &str = "constraint_failed";

/// When a retry may succeed after a failure that has no time of its own.
const RETRY_SOON: Duration = Duration::from_secs(5);

/// When a retry may succeed after the machine was short of memory.
const RETRY_AFTER_PRESSURE: Duration = Duration::from_secs(30);

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        let message = error.to_string();
        match error {
            RequestError::Engine { source } => source.into(),
            RequestError::NoVariantRuns { name, variants } => {
                let reasons: Vec<&str> = variants.iter().map(|of| &*of.reason).collect();
                Self::bad_request(format!(
                    "no variant of {name} runs on this machine: {}",
                    reasons.join("; ")
                ))
            }
            // Waiting does not help if nothing else is loaded.
            RequestError::TooLarge {
                in_use_bytes: 0, ..
            } => Self::bad_request(message).with_code("model_too_large"),
            RequestError::TooLarge { .. } => Self::overloaded(message, Some(RETRY_AFTER_PRESSURE)),
            RequestError::Blocked { retry_after, .. } | RequestError::Busy { retry_after, .. } => {
                Self::overloaded(message, Some(retry_after))
            }
            RequestError::ClientBusy { retry_after, .. } => {
                Self::too_many_requests(message, retry_after)
            }
            RequestError::Unloaded | RequestError::Quitting => {
                Self::overloaded(message, Some(RETRY_SOON))
            }
            // The last output of the process may contain anything.
            RequestError::WorkerGone { .. } => Self::overloaded(
                "the model's process ended unexpectedly; send the request again to restart it",
                Some(RETRY_SOON),
            ),
            RequestError::InstanceGone { .. } => Self::overloaded(
                "the Transom that runs the models has quit; send the request again",
                Some(RETRY_SOON),
            ),
            RequestError::Shed { .. } | RequestError::Stuck { .. } => {
                Self::overloaded(message, Some(RETRY_AFTER_PRESSURE))
            }
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::NotFound { what, .. } => Self::model_not_found(format!(
                "the model's files are incomplete: {what} is missing; download the model again"
            )),
            EngineError::BadFile { reason, .. } => {
                Self::internal(format!("the model's files can't be used: {reason}"))
            }
            EngineError::Unsupported { reason, .. } => {
                Self::bad_request(format!("the model can't be used: {reason}"))
            }
            EngineError::Template { .. } => Self::field("messages", message),
            EngineError::EmptyPrompt => Self::bad_request(message),
            EngineError::PromptTooLong {
                prompt_tokens,
                context_length,
            } => Self {
                context: Some(ContextNumbers {
                    prompt_tokens,
                    context_length,
                }),
                ..Self::bad_request(message).with_code("context_length_exceeded")
            },
            // The engine names parameters as the command line does.
            EngineError::InvalidParameter { name, .. } => {
                let param = name.replace('-', "_");
                let message = message.replacen(&*name, &param, 1);
                Self::field(param, message)
            }
            // The route adds the name of the field.
            EngineError::InvalidConstraint { path, .. } => {
                Self::field(path, message).with_code(INVALID_CONSTRAINT)
            }
            EngineError::OutOfMemory { .. } => Self::overloaded(
                "the model needs more memory than is available; close other apps, or choose a \
                 smaller model",
                Some(RETRY_AFTER_PRESSURE),
            ),
            EngineError::Canceled => Self::overloaded("the request was canceled", Some(RETRY_SOON)),
            // No error of the server, which clients would repeat with the same result.
            EngineError::ConstraintFailed { .. } => {
                let (status, kind) = (StatusCode::UNPROCESSABLE_ENTITY, ErrorKind::InvalidRequest);
                Self::new(status, kind, message).with_code(CONSTRAINT_FAILED)
            }
            EngineError::Backend { .. } => Self::internal(message),
        }
    }
}
