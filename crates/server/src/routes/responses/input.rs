//! The input of a request: a text, or items of a conversation.

use serde_json::Value;
use transom_engine::{Message, Role, ToolCall};

use crate::error::ApiError;
use crate::json::{Fields, Located};
use crate::routes::content;

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
pub(super) fn messages(input: Located) -> Result<Vec<Message>, ApiError> {
    let is_empty = input.must_be("a text or an array of at least one message");
    let items = match input.value {
        Value::String(text) => return Ok(vec![Message::user(text)]),
        Value::Array(_) => input.list()?,
        _ => return Err(is_empty),
    };
    let mut messages = Vec::new();
    for item in items {
        add(item, &mut messages)?;
    }
    match messages.is_empty() {
        true => Err(is_empty),
        false => Ok(messages),
    }
}

fn add(item: Located, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    let mut fields = item.object()?;
    let kind = fields.take("type");
    let kind = kind.unwrap_or_else(|| fields.located("type", "message".into()));
    match kind.value.as_str() {
        Some("message") => messages.push(message(&mut fields)?),
        Some("function_call") => add_call(&mut fields, messages)?,
        Some("function_call_output") => {
            let result = result(&mut fields, messages)?;
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
    fields.finish();
    Ok(())
}

fn message(fields: &mut Fields) -> Result<Message, ApiError> {
    let role = fields.required("role")?.choice(&ROLES)?;
    let content = content::text(fields.required("content")?)?;
    Ok(Message::new(role, content))
}

/// Adds a call to the response that it is part of.
fn add_call(fields: &mut Fields, messages: &mut Vec<Message>) -> Result<(), ApiError> {
    let id = fields.required("call_id")?.text()?;
    let name = fields.required("name")?.text()?;
    let arguments = content::arguments(fields.required("arguments")?)?;
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
fn result(fields: &mut Fields, messages: &[Message]) -> Result<Message, ApiError> {
    let id = fields.required("call_id")?;
    let expected = "the `call_id` of an earlier `function_call`";
    let call = content::call_with_id(id, messages, expected)?;
    let content = content::text(fields.required("output")?)?;
    Ok(Message::tool_result(call, content))
}

#[cfg(test)]
mod tests;
