//! Messages as the variables that `transformers` gives to templates.
//!
//! Rule: every text is marked, so that none of it becomes a control token.

use minijinja::{Error, Value};

use super::control_tokens::Marker;
use super::json;
use crate::chat::{Message, ToolCall};

/// How templates get the arguments of tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arguments {
    /// As objects, as `transformers` documents it.
    Objects,
    /// As JSON text, as OpenAI's API has them. Templates that join arguments with other text need
    /// this form, and fail with the other one.
    Texts,
}

/// Returns the variable of a message whose text is `content`, already marked. What a message does
/// not have is undefined.
pub(super) fn to_value(
    message: &Message,
    content: &str,
    arguments: Arguments,
    marker: Marker<'_>,
) -> Result<Value, Error> {
    let mut fields = vec![
        ("role", Value::from(message.role.as_str())),
        ("content", Value::from(content)),
    ];
    let text = |text: &str| Value::from(&*marker.text(text));
    if let Some(name) = &message.name {
        fields.push(("name", text(name)));
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter();
        let calls = calls.map(|call| call_value(call, arguments, marker));
        let calls: Vec<Value> = calls.collect::<Result<_, _>>()?;
        fields.push(("tool_calls", Value::from(calls)));
    }
    if let Some(id) = &message.tool_call_id {
        fields.push(("tool_call_id", text(id)));
    }
    Ok(Value::from_pairs(fields))
}

/// Keys are in the order of OpenAI's API, which templates that write a whole call repeat.
fn call_value(call: &ToolCall, arguments: Arguments, marker: Marker<'_>) -> Result<Value, Error> {
    let text = |text: &str| Value::from(&*marker.text(text));
    let object = json::to_value(&call.function.arguments, marker);
    let arguments = match arguments {
        Arguments::Texts if object.as_str().is_none() => Value::from(json::dumps(&object)?),
        Arguments::Objects | Arguments::Texts => object,
    };
    let function = Value::from_pairs([
        ("name", text(&call.function.name)),
        ("arguments", arguments),
    ]);
    Ok(Value::from_pairs([
        ("id", text(&call.id)),
        ("type", Value::from("function")),
        ("function", function),
    ]))
}
