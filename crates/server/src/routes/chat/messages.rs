//! The messages of a chat request, with tool calls and their results.
//!
//! Rule: the prompt contains every text of a message, or the request is refused. A result belongs to
//! an earlier call, because templates leave out one that does not.

use transom_engine::{Message, Role, ToolCall};

use crate::error::ApiError;
use crate::json::{Fields, Located};
use crate::routes::content;

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
}

impl CheckedMessages {
    /// Reads `messages`.
    ///
    /// # Errors
    /// A message is wrong, or contains something that a prompt can't have.
    pub(super) fn read(located: Located) -> Result<Self, ApiError> {
        let is_empty = located.must_be("an array of at least one message");
        let mut conversation = Self::default();
        for message in located.list()? {
            conversation.add(message)?;
        }
        match conversation.messages.is_empty() {
            true => Err(is_empty),
            false => Ok(conversation),
        }
    }

    fn add(&mut self, located: Located) -> Result<(), ApiError> {
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
                Message::new(role, content::text(fields.required("content")?)?)
            }
            Role::Assistant => response(&mut fields)?,
            Role::Tool => {
                let id = fields.required("tool_call_id")?;
                let expected = "the `id` of an earlier tool call";
                let call = content::call_with_id(id, &self.messages, expected)?;
                Message::tool_result(call, content::text(fields.required("content")?)?)
            }
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
        fields.finish();
        self.messages.push(message);
        Ok(())
    }
}

/// Returns an earlier response.
fn response(fields: &mut Fields) -> Result<Message, ApiError> {
    let calls = fields.list("tool_calls")?.unwrap_or_default().into_iter();
    let tool_calls: Vec<ToolCall> = calls.map(tool_call).collect::<Result<_, _>>()?;
    let content = match tool_calls.is_empty() {
        true => Some(fields.required("content")?),
        // A response that only calls tools has none.
        false => fields.take("content"),
    };
    let content = content.map(content::text).transpose()?.unwrap_or_default();
    Ok(Message {
        tool_calls,
        ..Message::assistant(content)
    })
}

fn tool_call(located: Located) -> Result<ToolCall, ApiError> {
    let mut fields = located.object()?;
    let id = fields.required("id")?.text()?;
    fields.choice("type", &[("function", ())])?;
    let mut function = fields.required("function")?.object()?;
    let name = function.required("name")?.text()?;
    let arguments = content::arguments(function.required("arguments")?)?;
    function.finish();
    // Of a streamed response.
    fields.tolerate(&["index"]);
    fields.finish();
    Ok(ToolCall::new(id, name, arguments))
}

#[cfg(test)]
mod tests;
