//! Reads the body of a request for a message.
//!
//! Rule: every block is text, a tool call or a result, or refused by name. Only reasoning of earlier
//! responses is left out, as the protocol says.

use serde_json::Value;
use transom_engine::{ChatPrompt, Message, Role};

use crate::constraints::{self, Constrained};
use crate::error::ApiError;
use crate::generation::Params;
use crate::json::{Fields, Located};
use crate::routes::openai::stops;
use crate::routes::tools;

use super::tool_blocks::ToolBlocks;

/// Claude Code begins its instructions with a line that differs in every request. It says nothing to
/// the model, and no later request would find its prompt in the KV cache.
const BILLING_LINE: &str = "x-anthropic-billing-header";

/// A request for a message, checked.
#[derive(Debug)]
pub(super) struct MessageRequest {
    pub(super) conversation: MessagePrompt,
    pub(super) params: Params,
    pub(super) is_streamed: bool,
    /// Reasoning is sent with its text, not only as an empty block.
    pub(super) shows_thinking: bool,
}

/// What requests for a message and for a token count have in common.
#[derive(Debug)]
pub(super) struct MessagePrompt {
    pub(super) model: String,
    pub(super) chat: ChatPrompt,
    shows_thinking: bool,
    constraint: Option<Constrained>,
}

impl MessageRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// A field is missing, wrong, or not supported.
    pub(super) fn read(mut body: Fields) -> Result<Self, ApiError> {
        let max_tokens = body.required("max_tokens")?.integer(1..=i64::MAX)?;
        let mut conversation = MessagePrompt::read(&mut body)?;
        let params = Params {
            temperature: body.number("temperature", 0.0..=1.0)?,
            // 0 keeps only the most likely token, and so does the smallest number above it.
            top_p: body
                .number("top_p", 0.0..=1.0)?
                .map(|top_p| top_p.max(f64::from(f32::MIN_POSITIVE))),
            top_k: body.count("top_k", 0)?,
            // The context ends every response that is longer.
            max_tokens: Some(usize::try_from(max_tokens).unwrap_or(usize::MAX)),
            stop: stops(&mut body, "stop_sequences")?,
            constraint: conversation.constraint.take(),
            ..Params::default()
        };
        let is_streamed = body.flag("stream")?.unwrap_or(false);
        body.tolerate(&["metadata", "service_tier", "cache_control"]);
        body.finish();
        Ok(Self {
            params,
            is_streamed,
            shows_thinking: conversation.shows_thinking,
            conversation,
        })
    }
}

impl MessagePrompt {
    /// Takes the fields of a conversation.
    ///
    /// # Errors
    /// A field is missing, wrong, or not supported.
    pub(super) fn read(body: &mut Fields) -> Result<Self, ApiError> {
        let model = body.required("model")?.text()?;
        for name in ["mcp_servers", "container"] {
            body.refuse(name, &[])?;
        }
        let constraint = constraint(body)?;
        let tools = tools::of_messages(body)?;
        let (enable_thinking, shows_thinking) = thinking(body)?;
        let system = body.take("system");
        let system = system.map(|system| text_of(system, Role::System));
        let system = system.transpose()?.filter(|text| !text.is_empty());
        let turns = turns(body.required("messages")?)?;
        let continue_final_message = turns
            .last()
            .is_some_and(|last| last.role == Role::Assistant && last.tool_calls.is_empty());
        let messages = system.map(Message::system).into_iter().chain(turns);
        let mut chat = ChatPrompt {
            messages: messages.collect(),
            enable_thinking: Some(enable_thinking),
            continue_final_message,
            ..ChatPrompt::default()
        };
        tools.add_to(&mut chat, constraint.as_ref())?;
        Ok(Self {
            model,
            chat,
            shows_thinking,
            constraint,
        })
    }
}

/// Takes `output_config` and its older name.
fn constraint(body: &mut Fields) -> Result<Option<Constrained>, ApiError> {
    let mut format = body.object("output_format")?;
    if let Some(mut config) = body.object("output_config")? {
        format = config.object("format")?.or(format);
        config.finish();
    }
    Ok(format.map(constraints::format).transpose()?.flatten())
}

/// Returns whether the response may reason, and whether the reasoning is shown. Without the field it
/// may not, as the protocol says.
fn thinking(body: &mut Fields) -> Result<(bool, bool), ApiError> {
    let Some(mut thinking) = body.object("thinking")? else {
        return Ok((false, true));
    };
    let kinds = [("enabled", true), ("adaptive", true), ("disabled", false)];
    let is_enabled = thinking.required("type")?.choice(&kinds)?;
    let displays = [("summarized", true), ("omitted", false)];
    let is_shown = thinking.choice("display", &displays)?.unwrap_or(true);
    if thinking.integer("budget_tokens", 1..=i64::MAX)?.is_some() {
        // Nothing ends a reasoning section early.
        body.ignored.add(&thinking.path_of("budget_tokens"));
    }
    thinking.finish();
    Ok((is_enabled, is_shown))
}

/// Returns the messages. Consecutive messages of one author become one, as the protocol says.
fn turns(messages: Located) -> Result<Vec<Message>, ApiError> {
    let not_empty = messages.must_be("an array of at least one message");
    let mut turns: Vec<Message> = Vec::new();
    for message in messages.list()? {
        let mut message = message.object()?;
        let roles = [("user", Role::User), ("assistant", Role::Assistant)];
        let role = message.required("role")?.choice(&roles)?;
        let mut content = message.required("content")?;
        let is_response = role == Role::Assistant;
        let ToolBlocks { calls, results } = ToolBlocks::take(&mut content, &turns, is_response)?;
        let must_have_text = content.must_be("text that is not empty");
        let text = text_of(content, role)?;
        message.finish();
        let has_results = !results.is_empty();
        turns.extend(results);
        match turns.last_mut() {
            Some(last) if last.role == role && !calls.is_empty() => {
                last.content.push_str(&text);
                last.tool_calls.extend(calls);
            }
            _ if !calls.is_empty() => turns.push(Message {
                tool_calls: calls,
                ..Message::new(role, text)
            }),
            _ if has_results && text.is_empty() => {}
            // A response that only reasoned, or has not begun.
            _ if text.is_empty() && role == Role::Assistant => {}
            _ if text.is_empty() => return Err(must_have_text),
            Some(last) if last.role == role => {
                last.content.push('\n');
                last.content.push_str(&text);
            }
            _ => turns.push(Message::new(role, text)),
        }
    }
    match turns.is_empty() {
        true => Err(not_empty),
        false => Ok(turns),
    }
}

/// Returns the text of a string, or of blocks.
pub(super) fn text_of(content: Located, role: Role) -> Result<String, ApiError> {
    let texts = match &content.value {
        Value::String(_) => vec![content.text()?],
        Value::Array(_) => {
            // Blocks of tools were taken out.
            let blocks = content.list()?.into_iter();
            let blocks = blocks.filter(|block| !block.value.is_null());
            let texts = blocks.map(|block| text_of_block(block, role));
            let texts = texts.collect::<Result<Vec<_>, _>>()?;
            texts.into_iter().flatten().collect()
        }
        _ => return Err(content.must_be("a string or an array of blocks")),
    };
    let texts = texts.iter().map(|text| match role {
        Role::System => without_billing_line(text),
        Role::User | Role::Assistant | Role::Tool => text.as_str(),
    });
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    Ok(texts.join("\n"))
}

/// Returns the text of a block; `None` if the model does not read such blocks.
fn text_of_block(block: Located, role: Role) -> Result<Option<String>, ApiError> {
    let path = block.path.clone();
    let mut block = block.object()?;
    let kind = block.required("type")?;
    let only_text = |what: &str| {
        let message = format!("`{path}` is {what}, and models here read only text");
        Err(ApiError::field(&path, message))
    };
    match (kind.value.as_str(), role) {
        (Some("text"), _) => {
            let text = block.required("text")?.text()?;
            block.tolerate(&["cache_control", "citations"]);
            block.finish();
            Ok(Some(text))
        }
        (Some("thinking" | "redacted_thinking"), Role::Assistant) => Ok(None),
        (Some("image"), _) => only_text("an image"),
        (Some("document"), _) => only_text("a document"),
        (Some("tool_use"), _) => only_text("a tool call"),
        (Some("tool_result"), _) => only_text("the result of a tool"),
        _ => Err(kind.must_be("`text`")),
    }
}

fn without_billing_line(text: &str) -> &str {
    if !text.starts_with(BILLING_LINE) {
        return text;
    }
    let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
    rest.trim_start_matches(['\r', '\n'])
}

#[cfg(test)]
mod tests;
