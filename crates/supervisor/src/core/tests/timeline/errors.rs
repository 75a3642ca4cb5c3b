//! Errors of requests as the text of a timeline.

use transom_engine::EngineError;

use crate::request::RequestError;

pub(super) fn error_text(error: &RequestError) -> String {
    match error {
        RequestError::Engine { source } => match source {
            EngineError::Unsupported { .. } => "unsupported".to_owned(),
            EngineError::NotFound { .. } => "not found".to_owned(),
            EngineError::OutOfMemory { .. } => "out of memory".to_owned(),
            EngineError::BadFile { .. } => "bad file".to_owned(),
            other => format!("engine error: {other}"),
        },
        RequestError::NoVariantRuns { variants, .. } => {
            format!("none of {} variants runs", variants.len())
        }
        RequestError::Busy { waiting, .. } => format!("busy, {waiting} waiting"),
        RequestError::ClientBusy {
            client, waiting, ..
        } => format!("busy, {waiting} of {client} waiting"),
        RequestError::TooLarge {
            in_use_bytes,
            context_that_fits,
            ..
        } => format!("too large, {in_use_bytes} in use, {context_that_fits:?} would fit"),
        RequestError::Blocked { .. } => "blocked".to_owned(),
        RequestError::WorkerGone { during, .. } => format!("worker gone while {during}"),
        RequestError::Shed { name } => format!("shed {name} twice"),
        RequestError::Stuck { process_id, .. } => format!("stuck process {process_id}"),
        RequestError::Unloaded => "unloaded".to_owned(),
        RequestError::Quitting => "quitting".to_owned(),
        RequestError::InstanceGone { .. } => "instance gone".to_owned(),
    }
}
