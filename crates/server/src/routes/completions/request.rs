//! The body of a completion request.

use transom_engine::logprobs::MAX_TOP_LOGPROBS;
use transom_engine::{EmbedInput, FillIn, Prompt};

use crate::error::ApiError;
use crate::generation::Params;
use crate::json::Fields;
use crate::routes::inputs;
use crate::routes::openai::{self, Streaming};

/// Most choices of a prompt.
const MAX_CHOICES: i64 = 8;

/// Most prompts of a request.
const MAX_PROMPTS: usize = 16;

/// The number of tokens if the request sets none, as in OpenAI's API.
const DEFAULT_MAX_TOKENS: usize = 16;

/// A completion request, checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CompletionRequest {
    pub(super) model: String,
    pub(super) prompts: Vec<Prompt>,
    /// The texts of the prompts, if the response repeats them.
    pub(super) echoes: Vec<String>,
    pub(super) params: Params,
    /// Number of choices of each prompt.
    pub(super) n: usize,
    pub(super) streaming: Streaming,
}

impl CompletionRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// A field is wrong, or asks for something that this server can't do.
    pub(super) fn read(mut fields: Fields) -> Result<Self, ApiError> {
        let model = fields.required("model")?.text()?;
        refuse_unsupported(&mut fields)?;
        let mut params = openai::params(&mut fields)?;
        params.max_tokens = match fields.has("max_tokens") {
            true => openai::max_tokens(&mut fields, &["max_tokens"])?,
            false => Some(DEFAULT_MAX_TOKENS),
        };
        params.logprobs = logprobs(&mut fields)?;
        let n = fields.integer("n", 1..=MAX_CHOICES)?.unwrap_or(1);
        let streaming = Streaming::take(&mut fields)?;
        let prompts = inputs::take(fields.required("prompt")?, MAX_PROMPTS)?;
        let suffix = fields.text("suffix")?.filter(|suffix| !suffix.is_empty());
        let echo = fields.flag("echo")?.unwrap_or(false);
        if echo && suffix.is_some() {
            let message = "`echo` can't be combined with `suffix`; leave one out";
            return Err(ApiError::field("echo", message));
        }
        let prompts = prompts.into_iter();
        let prompts = prompts.map(|input| prompt(input, suffix.as_deref()));
        let prompts: Vec<Prompt> = prompts.collect::<Result<_, _>>()?;
        let echoes = match echo {
            true => texts(&prompts)?,
            false => Vec::new(),
        };
        if !echoes.is_empty() && params.logprobs.is_some() {
            let message =
                "`logprobs` can't be combined with `echo`: tokens of a prompt have none here";
            return Err(ApiError::field("logprobs", message));
        }
        fields.finish();
        Ok(Self {
            model,
            prompts,
            echoes,
            params,
            n: usize::try_from(n).unwrap_or(1),
            streaming,
        })
    }
}

/// Takes `logprobs`: the number of most likely tokens that each token comes with.
fn logprobs(fields: &mut Fields) -> Result<Option<u8>, ApiError> {
    let n_top = fields.integer("logprobs", 0..=i64::from(MAX_TOP_LOGPROBS))?;
    Ok(n_top.and_then(|n_top| u8::try_from(n_top).ok()))
}

/// Refuses what no engine here can do, unless the value asks for nothing.
fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    for name in ["top_logprobs", "prompt_logprobs", "truncate_prompt_tokens"] {
        fields.refuse(name, &[])?;
    }
    Ok(())
}

/// Returns the prompt, which ends before a gap if there is a text after it.
fn prompt(input: EmbedInput, suffix: Option<&str>) -> Result<Prompt, ApiError> {
    match (input, suffix) {
        (EmbedInput::Text(text), None) => Ok(Prompt::Text(text)),
        (EmbedInput::Text(prefix), Some(suffix)) => Ok(Prompt::FillIn(FillIn {
            prefix,
            suffix: suffix.to_owned(),
        })),
        (EmbedInput::Tokens(ids), None) => Ok(Prompt::Tokens(ids)),
        (EmbedInput::Tokens(_), Some(_)) => Err(ApiError::field(
            "suffix",
            "`suffix` needs a `prompt` that is a text, not token ids",
        )),
    }
}

/// Returns the texts of prompts.
fn texts(prompts: &[Prompt]) -> Result<Vec<String>, ApiError> {
    let text = |prompt: &Prompt| match prompt {
        Prompt::Text(text) => Ok(text.clone()),
        Prompt::Tokens(_) | Prompt::Chat(_) | Prompt::FillIn(_) => Err(ApiError::field(
            "echo",
            "`echo` needs a `prompt` that is a text; token ids are not turned into text here",
        )),
    };
    prompts.iter().map(text).collect()
}

#[cfg(test)]
mod tests;
