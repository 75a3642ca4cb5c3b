//! What messages of several protocols consist of: texts, arguments of calls, and the calls of results.

use serde_json::{Value, json};
use transom_engine::{Message, ToolCall};

use crate::error::ApiError;
use crate::json::Located;

/// Returns the text of a string, or of an array of parts, in OpenAI's protocols.
///
/// # Errors
/// The value is neither, or a part is not text.
pub(super) fn text(content: Located) -> Result<String, ApiError> {
    match content.value {
        Value::String(text) => Ok(text),
        Value::Array(_) => {
            let parts = content.list()?.into_iter().map(text_of_part);
            Ok(parts.collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        _ => Err(content.must_be("a string or an array of parts")),
    }
}

fn text_of_part(part: Located) -> Result<String, ApiError> {
    let mut fields = part.object()?;
    let kind = fields.required("type")?;
    let name = match kind.value.as_str() {
        Some("text" | "input_text" | "output_text") => "text",
        Some("refusal") => "refusal",
        Some("image_url" | "input_audio" | "file" | "video_url" | "input_image" | "input_file") => {
            let message = format!("`{}`: this model reads only text", kind.path);
            return Err(ApiError::field(kind.path, message));
        }
        _ => return Err(kind.must_be("`text`, `input_text` or `output_text`")),
    };
    let text = fields.required(name)?.text()?;
    fields.tolerate(&["annotations", "logprobs", "cache_control"]);
    fields.finish();
    Ok(text)
}

/// Returns the arguments of a call, which are JSON in a string.
///
/// # Errors
/// The value is no string that contains a JSON object.
pub(super) fn arguments(located: Located) -> Result<Value, ApiError> {
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

/// Returns the last of the `earlier` calls with this id. `expected` says what the id must be.
///
/// # Errors
/// There is no such call. Templates leave out a result without a call.
pub(super) fn call_with_id<'a>(
    id: Located,
    earlier: &'a [Message],
    expected: &str,
) -> Result<&'a ToolCall, ApiError> {
    let unknown = id.must_be(expected);
    let id = id.text()?;
    let mut calls = earlier.iter().rev().flat_map(|message| &message.tool_calls);
    calls.find(|call| call.id == id).ok_or(unknown)
}
