//! Converts texts to tokens and tokens to texts, without a response.

use std::time::Duration;

use transom_engine::{FinishReason, TokenEvent, TokenInput, TokenPiece};
use transom_supervisor::{KeepAlive, Outcome, ResponseEvent, Work};

use super::background_request;
use crate::door::Caller;
use crate::error::ApiError;
use crate::models::Model;
use crate::state::ServerState;

/// Returns the tokens of `input`, in order. Loads the model if necessary. If the returned future is
/// dropped, the request is canceled.
///
/// # Errors
/// The model can't be loaded, or a token is not in its vocabulary.
pub(crate) async fn convert_tokens(
    state: &ServerState,
    model: &Model,
    input: TokenInput,
    caller: &Caller,
    keep_alive: Option<KeepAlive>,
) -> Result<Vec<TokenPiece>, ApiError> {
    caller.set_model(&model.name);
    let work = Work::Tokenize(Box::new(input));
    let request = background_request(caller.client(), model.spec.clone(), work, keep_alive);
    let mut response = state.supervisor().submit(request);
    let mut converted = Vec::new();
    while let Some(event) = response.next().await {
        let outcome = match event {
            ResponseEvent::Token {
                event: TokenEvent::Pieces { pieces },
            } => {
                converted.extend(pieces);
                continue;
            }
            ResponseEvent::Ended { outcome } => outcome,
            ResponseEvent::Queued { .. }
            | ResponseEvent::Loading { .. }
            | ResponseEvent::Token { .. }
            | ResponseEvent::Embedded { .. } => continue,
        };
        return match outcome {
            Outcome::Finished {
                reason: FinishReason::Stop,
                ..
            } => Ok(converted),
            Outcome::Failed { error } => Err(error.into()),
            Outcome::Finished { .. } | Outcome::Loaded { .. } => Err(ApiError::overloaded(
                "the request was canceled, because its model was unloaded",
                Some(Duration::from_secs(1)),
            )),
        };
    }
    Err(ApiError::internal("the request ended without a result"))
}
