//! Requests without a stream: counts of tokens, conversions of tokens, and embeddings.
//!
//! All of them load the model if necessary. If the returned future is dropped, the request is canceled.

use transom_engine::{EmbedInput, Prompt, Stats, TokenEvent, TokenInput, TokenPiece};
use transom_supervisor::{KeepAlive, Outcome, ResponseEvent, Work};

use super::{NO_RESULT, background_request, check_end};
use crate::door::Caller;
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::models::Model;

/// Returns the number of tokens of `prompt`, whether it fits the context or not.
///
/// # Errors
/// The model can't be loaded, or its template refuses the prompt.
pub(crate) async fn count_tokens(
    model: &Model,
    prompt: Prompt,
    caller: &Caller,
    keep_alive: Option<KeepAlive>,
) -> Result<usize, ApiError> {
    let work = Work::CountTokens(Box::new(model.routed(prompt)));
    let stats = run(model, work, "count", caller, keep_alive, |_| {}).await?;
    Ok(stats.prompt_tokens)
}

/// Returns the tokens of `input`, in order.
///
/// # Errors
/// The model can't be loaded, or a token is not in its vocabulary.
pub(crate) async fn convert_tokens(
    model: &Model,
    input: TokenInput,
    caller: &Caller,
    keep_alive: Option<KeepAlive>,
) -> Result<Vec<TokenPiece>, ApiError> {
    let work = Work::Tokenize(Box::new(input));
    let mut converted = Vec::new();
    let add = |event| {
        if let ResponseEvent::Token {
            event: TokenEvent::Pieces { pieces },
        } = event
        {
            converted.extend(pieces);
        }
    };
    run(model, work, "request", caller, keep_alive, add).await?;
    Ok(converted)
}

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
    metrics: &'a Metrics,
    is_over: bool,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.metrics.count_canceled();
        }
        self.metrics.count_closed();
    }
}

/// Embeds `inputs`; without any, only loads the model.
///
/// # Errors
/// The model can't be loaded, or can't embed an input. The error names the field as
/// `inputs[2]`.
pub(crate) async fn embed(
    model: &Model,
    inputs: Vec<EmbedInput>,
    caller: &Caller,
    keep_alive: Option<KeepAlive>,
) -> Result<Embedded, ApiError> {
    let work = match inputs.is_empty() {
        true => Work::Load,
        false => Work::Embed(inputs),
    };
    let metrics = &caller.state.metrics;
    metrics.count_opened();
    let mut open = OpenRequest {
        metrics,
        is_over: false,
    };
    let mut embedded = Embedded::default();
    let add = |event| {
        if let ResponseEvent::Embedded { n_tokens, vector } = event {
            embedded.n_tokens += n_tokens;
            embedded.vectors.push(vector);
        }
    };
    let ended = run(model, work, "request", caller, keep_alive, add).await;
    open.is_over = true;
    ended?;
    metrics.count_embedded(embedded.n_tokens);
    Ok(embedded)
}

/// Runs a request and passes its events on. `what` it is completes "the … was canceled".
async fn run(
    model: &Model,
    work: Work,
    what: &str,
    caller: &Caller,
    keep_alive: Option<KeepAlive>,
    mut on_event: impl FnMut(ResponseEvent),
) -> Result<Stats, ApiError> {
    caller.set_model(&model.name);
    let request = background_request(caller.client(), model.spec.clone(), work, keep_alive);
    let mut response = caller.state.supervisor().submit(request);
    while let Some(event) = response.next().await {
        match event {
            ResponseEvent::Ended { outcome } => {
                return match outcome {
                    Outcome::Finished { reason, stats } => check_end(reason, what).map(|()| stats),
                    Outcome::Loaded { .. } => Ok(Stats::default()),
                    Outcome::Failed { error } => Err(error.into()),
                };
            }
            event => on_event(event),
        }
    }
    Err(ApiError::internal(NO_RESULT))
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
