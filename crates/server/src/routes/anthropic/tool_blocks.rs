//! Blocks of tool calls and of their results in earlier messages.

use serde_json::Value;
use transom_engine::{Message, ToolCall};

use super::request::text_of;
use crate::error::ApiError;
use crate::json::{Ignored, Located};

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
        ignored: &mut Ignored,
    ) -> Result<Self, ApiError> {
        let mut found = Self::default();
        let Value::Array(blocks) = &mut content.value else {
            return Ok(found);
        };
        let kind = if is_response {
            "tool_use"
        } else {
            "tool_result"
        };
        let mut taken = Vec::new();
        // The others keep their places, so that errors name them.
        for (index, block) in blocks.iter_mut().enumerate() {
            if block.get("type").is_some_and(|it| it == kind) {
                let path = format!("{}[{index}]", content.path);
                let value = std::mem::take(block);
                taken.push(Located { path, value });
            }
        }
        for block in taken {
            match is_response {
                true => found.calls.push(call(block, ignored)?),
                false => found.results.push(result(block, earlier, ignored)?),
            }
        }
        Ok(found)
    }
}

fn call(block: Located, ignored: &mut Ignored) -> Result<ToolCall, ApiError> {
    let mut block = block.object()?;
    let id = block.required("id")?.text()?;
    let name = block.required("name")?.text()?;
    let input = block.required("input")?;
    if !input.value.is_object() {
        return Err(input.must_be("an object"));
    }
    block.tolerate(&["type", "cache_control"]);
    block.finish(ignored);
    Ok(ToolCall::new(id, name, input.value))
}

fn result(block: Located, earlier: &[Message], ignored: &mut Ignored) -> Result<Message, ApiError> {
    let mut block = block.object()?;
    let id = block.required("tool_use_id")?;
    let unknown = id.must_be("the `id` of an earlier tool call");
    let id = id.text()?;
    let mut calls = earlier.iter().rev().flat_map(|message| &message.tool_calls);
    let call = calls.find(|call| call.id == id).ok_or(unknown)?;
    let content = block.take("content");
    let content = content.map(|content| text_of(content, transom_engine::Role::Tool, ignored));
    let content = content.transpose()?.unwrap_or_default();
    let is_error = block.flag("is_error")?.unwrap_or(false);
    block.tolerate(&["type", "cache_control"]);
    block.finish(ignored);
    let content = match is_error {
        true => format!("Error: {content}"),
        false => content,
    };
    Ok(Message::tool_result(call, content))
}
