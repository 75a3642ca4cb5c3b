//! The messages of a chat request, with tool calls and their results.
//!
//! Rule: the prompt contains every text of a message, or the request is refused. A result belongs to
//! an earlier call, because templates leave out one that does not.

use std::collections::HashMap;

use serde_json::{Value, json};
use transom_engine::{Message, Role, ToolCall};

use crate::error::ApiError;
use crate::json::{Fields, Ignored, Located};

/// The roles of messages.
const ROLES: [(&str, Role); 5] = [
    ("system", Role::System),
    // The newer name of the same.
    ("developer", Role::System),
    ("user", Role::User),
    ("assistant", Role::Assistant),
    ("tool", Role::Tool),
];

/// The messages of a request, checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct CheckedMessages {
    pub(super) messages: Vec<Message>,
    /// Paths of the names of authors, which only some chat templates write.
    pub(super) names: Vec<String>,
    /// The functions of all calls so far, by the ids of the calls.
    calls: HashMap<String, String>,
}

impl CheckedMessages {
    /// Reads `messages`.
    ///
    /// # Errors
    /// A message is wrong, or contains something that a prompt can't have.
    pub(super) fn read(located: Located, ignored: &mut Ignored) -> Result<Self, ApiError> {
        let is_empty = located.must_be("an array of at least one message");
        let mut conversation = Self::default();
        for message in located.list()? {
            conversation.add(message, ignored)?;
        }
        match conversation.messages.is_empty() {
            true => Err(is_empty),
            false => Ok(conversation),
        }
    }

    fn add(&mut self, located: Located, ignored: &mut Ignored) -> Result<(), ApiError> {
        let mut fields = located.object()?;
        let role = fields.required("role")?;
        if role.value == "function" {
            let path = role.path;
            let message = format!("`{path}`: the role of a result is `tool` here");
            return Err(ApiError::field(path, message));
        }
        let role = role.choice(&ROLES)?;
        let mut message = match role {
            Role::System | Role::User => {
                Message::new(role, text_of(fields.required("content")?, ignored)?)
            }
            Role::Assistant => self.response(&mut fields, ignored)?,
            Role::Tool => self.result(&mut fields, ignored)?,
        };
        for name in ["tool_calls", "tool_call_id", "function_call", "audio"] {
            fields.refuse(name, &[])?;
        }
        if let Some(name) = fields.take("name") {
            // Templates write that of a tool, if any, beside its result.
            if role != Role::Tool {
                self.names.push(name.path.clone());
            }
            message.name = Some(name.text()?);
        }
        // Of earlier responses. Templates leave the reasoning of the past out.
        fields.tolerate(&[
            "reasoning",
            "reasoning_content",
            "reasoning_details",
            "refusal",
            "annotations",
            "cache_control",
        ]);
        fields.finish(ignored);
        self.messages.push(message);
        Ok(())
    }

    /// Returns an earlier response.
    fn response(
        &mut self,
        fields: &mut Fields,
        ignored: &mut Ignored,
    ) -> Result<Message, ApiError> {
        let calls = fields.list("tool_calls")?.unwrap_or_default().into_iter();
        let calls = calls.map(|call| tool_call(call, ignored));
        let tool_calls: Vec<ToolCall> = calls.collect::<Result<_, _>>()?;
        for call in &tool_calls {
            let (id, name) = (call.id.clone(), call.function.name.clone());
            self.calls.insert(id, name);
        }
        let content = match tool_calls.is_empty() {
            true => Some(fields.required("content")?),
            // A response that only calls tools has none.
            false => fields.take("content"),
        };
        let content = content.map(|content| text_of(content, ignored));
        Ok(Message {
            tool_calls,
            ..Message::assistant(content.transpose()?.unwrap_or_default())
        })
    }

    /// Returns the result of an earlier call.
    fn result(&self, fields: &mut Fields, ignored: &mut Ignored) -> Result<Message, ApiError> {
        let id = fields.required("tool_call_id")?;
        let unknown = id.must_be("the `id` of an earlier tool call");
        let id = id.text()?;
        let name = self.calls.get(&id).ok_or(unknown)?;
        let content = text_of(fields.required("content")?, ignored)?;
        Ok(Message {
            name: Some(name.clone()),
            tool_call_id: Some(id),
            ..Message::new(Role::Tool, content)
        })
    }
}

fn tool_call(located: Located, ignored: &mut Ignored) -> Result<ToolCall, ApiError> {
    let mut fields = located.object()?;
    let id = fields.required("id")?.text()?;
    if let Some(kind) = fields.take("type") {
        kind.choice(&[("function", ())])?;
    }
    let mut function = fields.required("function")?.object()?;
    let name = function.required("name")?.text()?;
    let arguments = arguments(function.required("arguments")?)?;
    function.finish(ignored);
    // Of a streamed response.
    fields.tolerate(&["index"]);
    fields.finish(ignored);
    Ok(ToolCall::new(id, name, arguments))
}

/// Returns the arguments of a call, which are JSON in a string.
fn arguments(located: Located) -> Result<Value, ApiError> {
    let wrong = located.must_be("a string that contains a JSON object");
    let text = located.text()?;
    let arguments: Value = match text.trim() {
        // Some clients write this for a function without parameters.
        "" => json!({}),
        text => serde_json::from_str(text).unwrap_or_default(),
    };
    match arguments.is_object() {
        true => Ok(arguments),
        false => Err(wrong),
    }
}

/// Returns the text of a string, or of an array of parts.
fn text_of(content: Located, ignored: &mut Ignored) -> Result<String, ApiError> {
    match content.value {
        Value::String(text) => Ok(text),
        Value::Array(_) => {
            let parts = content.list()?.into_iter();
            let parts: Result<Vec<_>, _> = parts.map(|part| text_of_part(part, ignored)).collect();
            Ok(parts?.join("\n"))
        }
        _ => Err(content.must_be("a string or an array of parts")),
    }
}

fn text_of_part(part: Located, ignored: &mut Ignored) -> Result<String, ApiError> {
    let mut fields = part.object()?;
    let kind = fields.required("type")?;
    let name = match kind.value.as_str() {
        Some("text") => "text",
        Some("refusal") => "refusal",
        Some("image_url" | "input_audio" | "file" | "video_url") => {
            let message = format!("`{}`: this model reads only text", kind.path);
            return Err(ApiError::field(kind.path, message));
        }
        _ => return Err(kind.must_be("`text`")),
    };
    let text = fields.required(name)?.text()?;
    fields.tolerate(&["cache_control"]);
    fields.finish(ignored);
    Ok(text)
}

#[cfg(test)]
mod tests;
