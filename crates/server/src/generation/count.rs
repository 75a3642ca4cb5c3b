//! Counts the tokens of a prompt, without a response.

use std::time::Duration;

use transom_engine::{FinishReason, Prompt};
use transom_supervisor::{KeepAlive, Outcome, ResponseEvent, Work};

use super::background_request;
use crate::door::Caller;
use crate::error::ApiError;
use crate::models::Model;
use crate::state::ServerState;

/// Returns the number of tokens of `prompt`, whether it fits the context or not. Loads the model if
/// necessary. If the returned future is dropped, the request is canceled.
///
/// # Errors
/// The model can't be loaded, or its template refuses the prompt.
pub(crate) async fn count_tokens(
    state: &ServerState,
    model: &Model,
    prompt: Prompt,
    caller: &Caller,
    keep_alive: Option<KeepAlive>,
) -> Result<usize, ApiError> {
    let work = Work::CountTokens(Box::new(model.routed(prompt)));
    caller.set_model(&model.name);
    let request = background_request(caller.client(), model.spec.clone(), work, keep_alive);
    let mut response = state.supervisor().submit(request);
    while let Some(event) = response.next().await {
        let ResponseEvent::Ended { outcome } = event else {
            continue;
        };
        return match outcome {
            Outcome::Finished {
                reason: FinishReason::Stop,
                stats,
            } => Ok(stats.prompt_tokens),
            Outcome::Failed { error } => Err(error.into()),
            Outcome::Finished { .. } | Outcome::Loaded { .. } => Err(ApiError::overloaded(
                "the count was canceled, because its model was unloaded",
                Some(Duration::from_secs(1)),
            )),
        };
    }
    Err(ApiError::internal("the request ended without a result"))
}
