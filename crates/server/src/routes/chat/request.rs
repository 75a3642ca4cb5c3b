//! The body of a chat request.

use serde_json::json;
use transom_engine::{ChatPrompt, Message, Role};

use crate::error::ApiError;
use crate::generation::Params;
use crate::json::Fields;
use crate::routes::openai::{self, Streaming};
use crate::routes::{logprobs, tools};

use super::messages::CheckedMessages;

/// Most choices of a request.
const MAX_CHOICES: i64 = 8;

/// A chat request, checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChatRequest {
    pub(super) model: String,
    pub(super) prompt: ChatPrompt,
    pub(super) params: Params,
    pub(super) n: usize,
    pub(super) streaming: Streaming,
    /// The request has `reasoning_effort`.
    pub(super) has_effort: bool,
    /// Paths of the names of authors, which only some chat templates write.
    pub(super) names: Vec<String>,
}

impl ChatRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// A field is wrong, or asks for something that this server can't do.
    pub(super) fn read(mut fields: Fields) -> Result<Self, ApiError> {
        let model = fields.required("model")?.text()?;
        refuse_unsupported(&mut fields)?;
        let mut params = openai::params(&mut fields)?;
        let names = ["max_completion_tokens", "max_tokens"];
        params.max_tokens = openai::max_tokens(&mut fields, &names)?;
        params.logprobs = logprobs::take(&mut fields)?;
        let n = fields.integer("n", 1..=MAX_CHOICES)?.unwrap_or(1);
        let streaming = Streaming::take(&mut fields)?;
        let effort = fields.choice("reasoning_effort", &openai::EFFORTS)?;
        let switch = enable_thinking(&mut fields)?;
        let tools = tools::of_chat(&mut fields)?;
        let located = fields.required("messages")?;
        let CheckedMessages { messages, names } = CheckedMessages::read(located)?;
        let continue_final_message = continue_final_message(&mut fields, &messages)?;
        if fields.flag("store")? == Some(true) {
            fields.ignored.add("store");
        }
        fields.finish();
        let mut prompt = ChatPrompt {
            messages,
            enable_thinking: switch.or(effort),
            continue_final_message,
            ..ChatPrompt::default()
        };
        tools.add_to(&mut prompt, params.constraint.as_ref())?;
        Ok(Self {
            model,
            prompt,
            params,
            n: usize::try_from(n).unwrap_or(1),
            streaming,
            has_effort: effort.is_some(),
            names,
        })
    }
}

/// Refuses what no engine here can do, unless the value asks for nothing.
fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    let choices = [json!("none"), json!("auto")];
    fields.refuse("functions", &[])?;
    fields.refuse("function_call", &choices)?;
    fields.refuse("modalities", &[json!(["text"])])?;
    fields.refuse("verbosity", &[json!("medium")])?;
    for name in [
        "audio",
        "prediction",
        "web_search_options",
        "chat_template",
        "documents",
        "reasoning_format",
        "thinking_budget",
    ] {
        fields.refuse(name, &[])?;
    }
    Ok(())
}

/// Takes `chat_template_kwargs`, of which templates have one switch here.
fn enable_thinking(fields: &mut Fields) -> Result<Option<bool>, ApiError> {
    let Some(mut options) = fields.object("chat_template_kwargs")? else {
        return Ok(None);
    };
    let switch = options.flag("enable_thinking")?;
    options.finish_known()?;
    Ok(switch)
}

/// Takes the fields with which a client continues the last message of the assistant.
fn continue_final_message(fields: &mut Fields, messages: &[Message]) -> Result<bool, ApiError> {
    let continues = fields.flag("continue_final_message")?.unwrap_or(false);
    let adds_prompt = fields.flag("add_generation_prompt")?;
    let is_last = messages.last().map(|message| message.role) == Some(Role::Assistant);
    if continues && !is_last {
        let message = "`continue_final_message` needs a last message of the role `assistant`";
        return Err(ApiError::field("continue_final_message", message));
    }
    if adds_prompt == Some(continues) {
        let message = "`add_generation_prompt` must be the opposite of `continue_final_message`";
        return Err(ApiError::field("add_generation_prompt", message));
    }
    Ok(continues)
}

#[cfg(test)]
mod tests;
