//! The body of a completion request.

use serde_json::{Value, json};
use transom_engine::Prompt;

use crate::error::ApiError;
use crate::generation::Params;
use crate::json::{Fields, Ignored, Located};
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
    pub(super) fn read(mut fields: Fields, ignored: &mut Ignored) -> Result<Self, ApiError> {
        let model = fields.required("model")?.text()?;
        refuse_unsupported(&mut fields)?;
        let mut params = openai::params(&mut fields)?;
        params.max_tokens = match fields.has("max_tokens") {
            true => openai::max_tokens(&mut fields, &["max_tokens"])?,
            false => Some(DEFAULT_MAX_TOKENS),
        };
        let n = fields.integer("n", 1..=MAX_CHOICES)?.unwrap_or(1);
        let streaming = Streaming::take(&mut fields)?;
        let prompts = prompts(fields.required("prompt")?)?;
        let echoes = match fields.flag("echo")? {
            Some(true) => texts(&prompts)?,
            Some(false) | None => Vec::new(),
        };
        fields.finish(ignored);
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

/// Refuses what no engine here can do, unless the value asks for nothing.
fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    openai::refuse_constraints(fields)?;
    if fields
        .text("suffix")?
        .is_some_and(|suffix| !suffix.is_empty())
    {
        let message = "`suffix` needs a model that fills in the middle, which this server does not \
                       support; leave it out";
        return Err(ApiError::field("suffix", message).with_code("unsupported_parameter"));
    }
    // 0 asks for the log probabilities of the chosen tokens.
    fields.refuse("logprobs", &[json!(false)])?;
    for name in ["top_logprobs", "prompt_logprobs", "truncate_prompt_tokens"] {
        fields.refuse(name, &[])?;
    }
    Ok(())
}

/// Returns the prompts of a request: one or several, each as a text or as token ids.
fn prompts(located: Located) -> Result<Vec<Prompt>, ApiError> {
    let is_one = match &located.value {
        Value::String(_) => true,
        Value::Array(values) => values.first().is_some_and(Value::is_number),
        _ => false,
    };
    if is_one {
        return Ok(vec![prompt(located)?]);
    }
    let wrong = located.must_be(&format!(
        "a text, an array of token ids, or an array of 1 to {MAX_PROMPTS} of them"
    ));
    match &located.value {
        Value::Array(values) if (1..=MAX_PROMPTS).contains(&values.len()) => {}
        _ => return Err(wrong),
    }
    located.list()?.into_iter().map(prompt).collect()
}

fn prompt(located: Located) -> Result<Prompt, ApiError> {
    let wrong = located.must_be("a text or an array of at least one token id");
    match located.value {
        Value::String(text) => Ok(Prompt::Text(text)),
        Value::Array(_) => {
            let ids = located.list()?.into_iter().map(token_id);
            let ids: Vec<u32> = ids.collect::<Result<_, _>>()?;
            match ids.is_empty() {
                true => Err(wrong),
                false => Ok(Prompt::Tokens(ids)),
            }
        }
        _ => Err(wrong),
    }
}

fn token_id(located: Located) -> Result<u32, ApiError> {
    let id = located.integer(0..=i64::from(u32::MAX))?;
    Ok(u32::try_from(id).unwrap_or(u32::MAX))
}

/// Returns the texts of prompts.
fn texts(prompts: &[Prompt]) -> Result<Vec<String>, ApiError> {
    let text = |prompt: &Prompt| match prompt {
        Prompt::Text(text) => Ok(text.clone()),
        Prompt::Tokens(_) | Prompt::Chat(_) => Err(ApiError::field(
            "echo",
            "`echo` needs a `prompt` that is a text; token ids are not turned into text here",
        )),
    };
    prompts.iter().map(text).collect()
}

#[cfg(test)]
mod tests;
