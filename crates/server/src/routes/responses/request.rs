//! The body of a request for a response.

use serde_json::{Map, Value, json};
use transom_engine::{ChatPrompt, Message, Role, Truncation};

use super::input;
use crate::constraints::{self, Constrained};
use crate::error::ApiError;
use crate::generation::Params;
use crate::json::Fields;
use crate::routes::logprobs;
use crate::routes::openai::{self, Streaming};
use crate::routes::tools::{self, Tools};

/// Tokens to keep free for a response without a limit when old messages are dropped.
const RESERVED_FOR_RESPONSE: usize = 1024;

/// The element of `include` that asks for log probabilities.
const LOGPROBS: &str = "message.output_text.logprobs";

/// The code of fields that this server does not support.
const UNSUPPORTED: &str = "unsupported_parameter";

/// A request for a response, checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ResponsesRequest {
    pub(super) model: String,
    pub(super) prompt: ChatPrompt,
    pub(super) params: Params,
    pub(super) truncation: Truncation,
    pub(super) is_streamed: bool,
    /// The request has an effort of reasoning.
    pub(super) has_effort: bool,
    /// The fields that the response repeats, with the values in force.
    pub(super) repeated: Map<String, Value>,
}

impl ResponsesRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// A field is wrong, or asks for something that this server can't do.
    pub(super) fn read(mut fields: Fields) -> Result<Self, ApiError> {
        let model = fields.required("model")?.text()?;
        let mut repeated = Map::new();
        refuse_stored(&mut fields)?;
        let format = text_format(&mut fields)?;
        refuse_others(&mut fields)?;
        let logprobs = take_logprobs(&mut fields)?;
        let tools = take_tools(&mut fields, &mut repeated)?;
        let enable_thinking = reasoning(&mut fields, &mut repeated)?;
        labels(&mut fields, &mut repeated)?;
        let mut params = openai::params(&mut fields)?;
        params.max_tokens = openai::max_tokens(&mut fields, &["max_output_tokens"])?;
        params.logprobs = logprobs;
        if let Some(constrained) = format.constraint {
            if params.constraint.is_some() {
                let message = "`text.format` can't be combined with other constraints";
                return Err(ApiError::field("text.format", message));
            }
            params.constraint = Some(constrained);
        }
        let truncations = [("auto", true), ("disabled", false)];
        let drops_messages = fields.choice("truncation", &truncations)?.unwrap_or(false);
        let streaming = Streaming::take(&mut fields)?;
        let instructions = fields.text("instructions")?;
        let input = input::messages(fields.required("input")?)?;
        fields.finish();
        for (name, value) in [
            ("instructions", json!(instructions)),
            ("max_output_tokens", json!(params.max_tokens)),
            ("temperature", json!(params.temperature)),
            ("top_p", json!(params.top_p)),
            ("presence_penalty", json!(params.presence_penalty)),
            ("frequency_penalty", json!(params.frequency_penalty)),
            (
                "text",
                json!({ "format": format.repeated, "verbosity": "medium" }),
            ),
            ("top_logprobs", json!(logprobs.unwrap_or(0))),
            (
                "truncation",
                json!(if drops_messages { "auto" } else { "disabled" }),
            ),
            ("background", json!(false)),
            ("store", json!(false)),
            ("previous_response_id", Value::Null),
            ("service_tier", json!("default")),
        ] {
            repeated.insert(name.to_owned(), value);
        }
        let mut prompt = ChatPrompt {
            messages: conversation(instructions, input),
            enable_thinking,
            ..ChatPrompt::default()
        };
        tools.add_to(&mut prompt, params.constraint.as_ref())?;
        Ok(Self {
            model,
            prompt,
            truncation: match drops_messages {
                true => Truncation::DropOldest {
                    response_tokens: params.max_tokens.unwrap_or(RESERVED_FOR_RESPONSE),
                    context_limit: None,
                },
                false => Truncation::Disabled,
            },
            params,
            is_streamed: streaming.is_on,
            has_effort: enable_thinking.is_some(),
            repeated,
        })
    }
}

/// Returns all messages. Those of the system at the start become one, because many templates have a
/// place for only one.
fn conversation(instructions: Option<String>, input: Vec<Message>) -> Vec<Message> {
    let instructions = instructions.map(Message::system);
    let mut messages: Vec<Message> = instructions.into_iter().chain(input).collect();
    let is_system = |message: &&Message| message.role == Role::System;
    let n_system = messages.iter().take_while(is_system).count();
    if n_system > 1 {
        let texts = messages.drain(..n_system).map(|message| message.content);
        let texts: Vec<String> = texts.collect();
        messages.insert(0, Message::system(texts.join("\n\n")));
    }
    messages
}

/// Refuses what needs a store of responses.
fn refuse_stored(fields: &mut Fields) -> Result<(), ApiError> {
    for name in ["previous_response_id", "conversation"] {
        if fields.take(name).is_some() {
            let message = format!(
                "`{name}` is not supported: responses are not stored here; send the whole \
                 conversation as `input`"
            );
            return Err(ApiError::field(name, message).with_code(UNSUPPORTED));
        }
    }
    if fields.flag("background")? == Some(true) {
        let message = "`background` must be false: responses are not stored here, so none could be \
                       fetched later";
        return Err(ApiError::field("background", message).with_code(UNSUPPORTED));
    }
    if fields.flag("store")? == Some(true) {
        fields.ignored.add("store");
    }
    Ok(())
}

/// The format of the text of a response.
struct TextFormat {
    constraint: Option<Constrained>,
    /// What the response repeats.
    repeated: Value,
}

/// Takes `text`.
fn text_format(fields: &mut Fields) -> Result<TextFormat, ApiError> {
    let mut format = TextFormat {
        constraint: None,
        repeated: json!({ "type": "text" }),
    };
    let Some(mut text) = fields.object("text")? else {
        return Ok(format);
    };
    if let Some(given) = text.take("format") {
        format.repeated = given.value.clone();
        format.constraint = constraints::format(given.object()?)?;
    }
    text.refuse("verbosity", &[json!("medium")])?;
    text.finish_known()?;
    Ok(format)
}

/// Refuses what no engine here can do, unless the value asks for nothing.
fn refuse_others(fields: &mut Fields) -> Result<(), ApiError> {
    for name in ["prompt", "context_management", "moderation", "logprobs"] {
        fields.refuse(name, &[])?;
    }
    fields.refuse("n", &[json!(1)])?;
    fields.refuse("modalities", &[json!(["text"])])?;
    fields.tolerate(&["client_metadata"]);
    Ok(())
}

/// Takes `include` and `top_logprobs`. Returns the number of most likely tokens that each token comes
/// with; `None` without log probabilities.
fn take_logprobs(fields: &mut Fields) -> Result<Option<u8>, ApiError> {
    let mut is_on = false;
    for wanted in fields.list("include")?.unwrap_or_default() {
        match wanted.value.as_str() {
            Some(LOGPROBS) => is_on = true,
            Some(_) => fields.ignored.add(&wanted.path),
            None => return Err(wanted.must_be("a string")),
        }
    }
    let n_top = logprobs::take_n_top(fields)?;
    if !is_on && n_top > 0 {
        let message = format!("`top_logprobs` needs `include: [\"{LOGPROBS}\"]`");
        return Err(ApiError::field("top_logprobs", message));
    }
    Ok(is_on.then_some(n_top))
}

/// Takes the tools. The response repeats their fields as they were sent.
fn take_tools(fields: &mut Fields, repeated: &mut Map<String, Value>) -> Result<Tools, ApiError> {
    for (name, default) in [
        ("tools", json!([])),
        ("tool_choice", json!("auto")),
        ("parallel_tool_calls", json!(true)),
    ] {
        let sent = fields.get(name).cloned().unwrap_or(default);
        repeated.insert(name.to_owned(), sent);
    }
    let max_tool_calls = fields.count("max_tool_calls", 1)?;
    repeated.insert("max_tool_calls".to_owned(), json!(max_tool_calls));
    tools::of_responses(fields)
}

/// Takes the effort of reasoning: returns whether the model reasons, if the request says so.
fn reasoning(
    fields: &mut Fields,
    repeated: &mut Map<String, Value>,
) -> Result<Option<bool>, ApiError> {
    let (mut effort, mut repeated_effort) = (None, Value::Null);
    if let Some(mut reasoning) = fields.object("reasoning")? {
        repeated_effort = json!(reasoning.get("effort"));
        effort = reasoning.choice("effort", &openai::EFFORTS)?;
        for name in ["summary", "generate_summary"] {
            let Some(summary) = reasoning.take(name) else {
                continue;
            };
            let path = summary.path.clone();
            // The reasoning itself is in the response, which is all that there is.
            let choices = [
                ("auto", true),
                ("none", true),
                ("concise", false),
                ("detailed", false),
            ];
            if !summary.choice(&choices)? {
                fields.ignored.add(&path);
            }
        }
        reasoning.finish();
    }
    let reasoning = json!({ "effort": repeated_effort, "summary": null });
    repeated.insert("reasoning".to_owned(), reasoning);
    Ok(effort)
}

/// Takes the fields that change no response, and which it repeats.
fn labels(fields: &mut Fields, repeated: &mut Map<String, Value>) -> Result<(), ApiError> {
    let metadata = match fields.take("metadata") {
        None => json!({}),
        Some(metadata) if metadata.value.is_object() => metadata.value,
        Some(metadata) => return Err(metadata.must_be("an object")),
    };
    repeated.insert("metadata".to_owned(), metadata);
    for name in ["user", "prompt_cache_key", "safety_identifier"] {
        let text = fields.text(name)?;
        repeated.insert(name.to_owned(), json!(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
