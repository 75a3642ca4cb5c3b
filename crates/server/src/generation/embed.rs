//! Embeds texts, without a stream.

use std::time::Duration;

use transom_engine::{EmbedInput, FinishReason};
use transom_supervisor::{ClientId, KeepAlive, Outcome, ResponseEvent, Work};

use super::background_request;
use crate::error::ApiError;
use crate::models::Model;
use crate::state::ServerState;

/// The vectors of the inputs of a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Embedded {
    /// One for each input, in order, each of length 1.
    pub(crate) vectors: Vec<Vec<f32>>,
    /// Tokens of all inputs.
    pub(crate) n_tokens: usize,
}

/// Counts an open request while it exists.
struct OpenRequest<'a> {
    state: &'a ServerState,
    is_over: bool,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.state.metrics.count_canceled();
        }
        self.state.metrics.count_closed();
    }
}

/// Embeds `inputs`; without any, only loads the model. If the returned future is dropped, the request
/// is canceled.
///
/// # Errors
/// The model can't be loaded, or can't embed an input. The error names the field as
/// `inputs[2]`.
pub(crate) async fn embed(
    state: &ServerState,
    model: &Model,
    inputs: Vec<EmbedInput>,
    client: ClientId,
    keep_alive: Option<KeepAlive>,
) -> Result<Embedded, ApiError> {
    let n_inputs = inputs.len();
    let work = match inputs.is_empty() {
        true => Work::Load,
        false => Work::Embed(inputs),
    };
    let request = background_request(client, model.spec.clone(), work, keep_alive);
    state.metrics.count_opened();
    let mut open = OpenRequest {
        state,
        is_over: false,
    };
    let mut response = state.supervisor().submit(request);
    let mut embedded = Embedded::default();
    while let Some(event) = response.next().await {
        let outcome = match event {
            ResponseEvent::Embedded { n_tokens, vector } => {
                embedded.n_tokens += n_tokens;
                embedded.vectors.push(vector);
                continue;
            }
            ResponseEvent::Ended { outcome } => outcome,
            ResponseEvent::Queued { .. }
            | ResponseEvent::Loading { .. }
            | ResponseEvent::Token { .. } => continue,
        };
        open.is_over = true;
        return match outcome {
            Outcome::Loaded { .. } => Ok(embedded),
            Outcome::Finished { .. } if embedded.vectors.len() == n_inputs => {
                state.metrics.count_embedded(embedded.n_tokens);
                Ok(embedded)
            }
            Outcome::Finished {
                reason: FinishReason::Shed,
                ..
            } => Err(ApiError::overloaded(
                "the request ended early: this computer is short of memory or too hot",
                Some(Duration::from_secs(30)),
            )),
            Outcome::Finished { .. } => Err(ApiError::overloaded(
                "the request was canceled, because its model was unloaded",
                Some(Duration::from_secs(1)),
            )),
            Outcome::Failed { error } => Err(error.into()),
        };
    }
    open.is_over = true;
    Err(ApiError::internal("the request ended without a result"))
}

/// Names `field` in an error about an input, which the engine counts from 1.
pub(crate) fn blame_input(mut error: ApiError, field: &str, is_list: bool) -> ApiError {
    let param = error.param.clone().unwrap_or_default();
    if param == "token" {
        error.param = Some(field.to_owned());
    } else if let Some(number) = param.strip_prefix("input ") {
        let index = number.parse::<usize>().unwrap_or(1).saturating_sub(1);
        let path = match is_list {
            true => format!("{field}[{index}]"),
            false => field.to_owned(),
        };
        error.message = error.message.replacen(&param, &format!("`{path}`"), 1);
        error.param = Some(path);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_input_by_its_place_in_the_body() {
        let error = || ApiError::field("input 3", "input 3 is 9 tokens long");
        let named = blame_input(error(), "input", true);
        assert_eq!(named.param.as_deref(), Some("input[2]"));
        assert_eq!(named.message, "`input[2]` is 9 tokens long");
        let named = blame_input(error(), "prompt", false);
        assert_eq!(named.message, "`prompt` is 9 tokens long");
        let named = blame_input(ApiError::field("token", "token is 7"), "input", true);
        assert_eq!(named.param.as_deref(), Some("input"));
    }
}
