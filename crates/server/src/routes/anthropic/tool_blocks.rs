//! Blocks of tool calls and of their results in earlier messages.

use transom_engine::{Message, ToolCall};

use super::request::text_of;
use crate::error::ApiError;
use crate::json::Located;
use crate::routes::content;

/// What the blocks of a message say besides its text.
#[derive(Debug, Default)]
pub(super) struct ToolBlocks {
    pub(super) calls: Vec<ToolCall>,
    pub(super) results: Vec<Message>,
}

impl ToolBlocks {
    /// Takes the blocks of tools out of the content of a message. `earlier` are the messages before it.
    ///
    /// # Errors
    /// A block is wrong, or a result has no call.
    pub(super) fn take(
        content: &mut Located,
        earlier: &[Message],
        is_response: bool,
    ) -> Result<Self, ApiError> {
        let mut found = Self::default();
        let kind = if is_response {
            "tool_use"
        } else {
            "tool_result"
        };
        // The others keep their places, so that errors name them.
        for block in content.take_elements(|block| block["type"] == kind) {
            match is_response {
                true => found.calls.push(call(block)?),
                false => found.results.push(result(block, earlier)?),
            }
        }
        Ok(found)
    }
}

fn call(block: Located) -> Result<ToolCall, ApiError> {
    let mut block = block.object()?;
    let id = block.required("id")?.text()?;
    let name = block.required("name")?.text()?;
    let input = block.required("input")?;
    if !input.value.is_object() {
        return Err(input.must_be("an object"));
    }
    block.tolerate(&["type", "cache_control"]);
    block.finish();
    Ok(ToolCall::new(id, name, input.value))
}

fn result(block: Located, earlier: &[Message]) -> Result<Message, ApiError> {
    let mut block = block.object()?;
    let id = block.required("tool_use_id")?;
    let call = content::call_with_id(id, earlier, "the `id` of an earlier tool call")?;
    let text = block.take("content");
    let text = text.map(|content| text_of(content, transom_engine::Role::Tool));
    let text = text.transpose()?.unwrap_or_default();
    let is_error = block.flag("is_error")?.unwrap_or(false);
    block.tolerate(&["type", "cache_control"]);
    block.finish();
    let content = match is_error {
        true => format!("Error: {text}"),
        false => text,
    };
    Ok(Message::tool_result(call, content))
}
