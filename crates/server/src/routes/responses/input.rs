//! The input of a request: a text, or items of a conversation.

use serde_json::{Value, json};
use transom_engine::{Message, Role, ToolCall};

use crate::error::ApiError;
use crate::json::{Fields, Ignored, Located};

/// The roles of messages.
const ROLES: [(&str, Role); 4] = [
    ("system", Role::System),
    // The newer name of the same.
    ("developer", Role::System),
    ("user", Role::User),
    ("assistant", Role::Assistant),
];

/// Returns the messages of the input.
///
/// # Errors
/// An item is wrong, or is of a type that this server does not know.
pub(super) fn messages(input: Located, ignored: &mut Ignored) -> Result<Vec<Message>, ApiError> {
    let is_empty = input.must_be("a text or an array of at least one message");
    let items = match input.value {
        Value::String(text) => return Ok(vec![Message::user(text)]),
        Value::Array(_) => input.list()?,
        _ => return Err(is_empty),
    };
    let mut messages = Vec::new();
    for item in items {
        add(item, &mut messages, ignored)?;
    }
    match messages.is_empty() {
        true => Err(is_empty),
        false => Ok(messages),
    }
}

fn add(item: Located, messages: &mut Vec<Message>, ignored: &mut Ignored) -> Result<(), ApiError> {
    let mut fields = item.object()?;
    let kind = fields.take("type").unwrap_or_else(|| Located {
        path: fields.path_of("type"),
        value: "message".into(),
    });
    match kind.value.as_str() {
        Some("message") => messages.push(message(&mut fields, ignored)?),
        Some("function_call") => add_call(&mut fields, messages)?,
        Some("function_call_output") => {
            let result = result(&mut fields, messages, ignored)?;
            messages.push(result);
        }
        // Of earlier responses. Templates leave the reasoning of the past out.
        Some("reasoning") => return Ok(()),
        _ => {
            let known = "`message`, `function_call`, `function_call_output` or `reasoning`";
            return Err(kind.must_be(known));
        }
    }
    // Of items of earlier responses.
    fields.tolerate(&["id", "status", "phase"]);
    fields.finish(ignored);
    Ok(())
}

fn message(fields: &mut Fields, ignored: &mut Ignored) -> Result<Message, ApiError> {
    let role = fields.required("role")?.choice(&ROLES)?;
    let content = text(fields.required("content")?, ignored)?;
    Ok(Message::new(role, content))
}

/// Adds a call to the response that it is part of.
fn add_call(fields: &mut Fields, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    let id = fields.required("call_id")?.text()?;
    let name = fields.required("name")?.text()?;
    let arguments = fields.required("arguments")?;
    let wrong = arguments.must_be("a text that contains a JSON object");
    let arguments = arguments.text()?;
    let arguments = match arguments.trim() {
        // Some clients write this for a function without parameters.
        "" => json!({}),
        text => serde_json::from_str(text).unwrap_or_default(),
    };
    if !arguments.is_object() {
        return Err(wrong);
    }
    let call = ToolCall::new(id, name, arguments);
    match messages.last_mut() {
        Some(last) if last.role == Role::Assistant => last.tool_calls.push(call),
        _ => messages.push(Message {
            tool_calls: vec![call],
            ..Message::assistant("")
        }),
    }
    Ok(())
}

/// Returns the result of an earlier call.
fn result(
    fields: &mut Fields,
    messages: &[Message],
    ignored: &mut Ignored,
) -> Result<Message, ApiError> {
    let id = fields.required("call_id")?;
    let unknown = id.must_be("the `call_id` of an earlier `function_call`");
    let id = id.text()?;
    let content = text(fields.required("output")?, ignored)?;
    let mut calls = messages.iter().rev().flat_map(|of| &of.tool_calls);
    let call = calls.find(|call| call.id == id).ok_or(unknown)?;
    Ok(Message::tool_result(call, content))
}

/// Returns the text of a string, or of an array of parts.
fn text(content: Located, ignored: &mut Ignored) -> Result<String, ApiError> {
    match content.value {
        Value::String(text) => Ok(text),
        Value::Array(_) => {
            let parts = content.list()?.into_iter();
            let parts: Result<Vec<_>, _> = parts.map(|part| text_of_part(part, ignored)).collect();
            Ok(parts?.join("\n"))
        }
        _ => Err(content.must_be("a text or an array of parts")),
    }
}

fn text_of_part(part: Located, ignored: &mut Ignored) -> Result<String, ApiError> {
    let mut fields = part.object()?;
    let kind = fields.required("type")?;
    let name = match kind.value.as_str() {
        Some("input_text" | "output_text" | "text") => "text",
        Some("refusal") => "refusal",
        Some("input_image" | "input_audio" | "input_file") => {
            let message = format!("`{}`: this model reads only text", kind.path);
            return Err(ApiError::field(kind.path, message));
        }
        _ => return Err(kind.must_be("`input_text` or `output_text`")),
    };
    let text = fields.required(name)?.text()?;
    fields.tolerate(&["annotations", "logprobs", "cache_control"]);
    fields.finish(ignored);
    Ok(text)
}

#[cfg(test)]
mod tests;
