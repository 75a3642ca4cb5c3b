//! The tools of a request, in the words of each protocol, and the calls of a response.
//!
//! Tools are handed to the engine in OpenAI's form, which chat templates read. The engine checks their
//! names and decides which schemas can be held.

use serde_json::{Value, json};
use transom_engine::{ChatPrompt, ToolCallDelta, ToolChoice};

use crate::constraints::Constrained;
use crate::error::ApiError;
use crate::generation::Called;
use crate::json::{Fields, Located};

/// The tools that a response may call.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Tools {
    tools: Vec<Value>,
    choice: ToolChoice,
    is_single: bool,
}

impl Tools {
    /// Adds the tools to a prompt. With the choice `none`, the prompt does not name them.
    ///
    /// # Errors
    /// The response is also constrained, which a call would not match.
    pub(crate) fn add_to(
        self,
        chat: &mut ChatPrompt,
        constraint: Option<&Constrained>,
    ) -> Result<(), ApiError> {
        if self.choice == ToolChoice::None || self.tools.is_empty() {
            return Ok(());
        }
        if let Some(constraint) = constraint {
            let field = &constraint.field;
            let message = format!(
                "`{field}` can't be combined with `tools`; leave one out, or set `tool_choice` to \
                 `none`"
            );
            return Err(ApiError::field(field.clone(), message));
        }
        chat.tools = self.tools;
        chat.tool_choice = self.choice;
        chat.single_tool_call = self.is_single;
        Ok(())
    }
}

/// Takes the tools of a request in OpenAI's form for chats, which Ollama has too.
///
/// # Errors
/// A tool is no function, or the choice needs a tool that is not there.
pub(crate) fn of_chat(fields: &mut Fields) -> Result<Tools, ApiError> {
    let tools = fields.list("tools")?.unwrap_or_default().into_iter();
    let tools = tools.map(|tool| {
        let mut tool = tool.object()?;
        tool.required("type")?.choice(&[("function", ())])?;
        let function = tool.required("function")?;
        tool.finish();
        function_of(function, "parameters")
    });
    let tools: Vec<Value> = tools.collect::<Result<_, _>>()?;
    let choice = choice_among(&tools, fields, |choice| {
        let mut function = choice.required("function")?.object()?;
        function.required("name")?.text()
    })?;
    let are_parallel = fields.flag("parallel_tool_calls")?.unwrap_or(true);
    Ok(Tools {
        tools,
        choice,
        is_single: !are_parallel,
    })
}

/// Takes `tool_choice`: a word, or a function, whose name `name_of` returns.
fn choice_among(
    tools: &[Value],
    fields: &mut Fields,
    name_of: impl FnOnce(&mut Fields) -> Result<String, ApiError>,
) -> Result<ToolChoice, ApiError> {
    let choice = fields.take("tool_choice");
    let path = choice.as_ref().map(|choice| choice.path.clone());
    let choice = choice.map(|choice| match choice.value {
        Value::String(_) => choice.choice_of_word(),
        _ => {
            let mut choice = choice.object()?;
            choice.required("type")?.choice(&[("function", ())])?;
            Ok(ToolChoice::Named(name_of(&mut choice)?))
        }
    });
    checked(choice.transpose()?.unwrap_or_default(), path, tools)
}

/// Takes the tools of a request in the form of OpenAI's responses. Tools that are no functions, such as
/// `web_search`, are left out and noted: some clients send them to every server.
///
/// # Errors
/// A function is wrong, or the choice needs a tool that is not there.
pub(crate) fn of_responses(fields: &mut Fields) -> Result<Tools, ApiError> {
    let mut tools = Vec::new();
    for tool in fields.list("tools")?.unwrap_or_default() {
        match tool.value.get("type").and_then(Value::as_str) {
            Some("function") => tools.push(function_of(tool, "parameters")?),
            Some(_) => fields.ignored.add(&tool.path),
            None => return Err(tool.must_be("a tool with a `type`")),
        }
    }
    let choice = choice_among(&tools, fields, |choice| choice.required("name")?.text())?;
    Ok(Tools {
        tools,
        choice,
        is_single: fields.flag("parallel_tool_calls")? == Some(false),
    })
}

/// Takes the tools of a request in Anthropic's form.
///
/// # Errors
/// Those of [`of_chat`]; a tool that a server runs.
pub(crate) fn of_messages(fields: &mut Fields) -> Result<Tools, ApiError> {
    let tools = fields.list("tools")?.unwrap_or_default().into_iter();
    let tools = tools.map(|tool| {
        if let Some(kind) = tool.value.get("type").filter(|kind| !kind.is_null())
            && kind != "custom"
        {
            let message = format!("`{}.type` must be `custom`: no tools run here", tool.path);
            return Err(ApiError::field(format!("{}.type", tool.path), message));
        }
        function_of(tool, "input_schema")
    });
    let tools: Vec<Value> = tools.collect::<Result<_, _>>()?;
    let Some(mut fields) = fields.object("tool_choice")? else {
        return Ok(Tools {
            tools,
            ..Tools::default()
        });
    };
    let path = fields.path_of("type");
    let kind = fields.required("type")?;
    let choice = match kind.value.as_str() {
        Some("auto") => ToolChoice::Auto,
        Some("any") => ToolChoice::Required,
        Some("none") => ToolChoice::None,
        Some("tool") => ToolChoice::Named(fields.required("name")?.text()?),
        _ => return Err(kind.must_be("`auto`, `any`, `tool` or `none`")),
    };
    let choice = checked(choice, Some(path), &tools)?;
    let is_single = fields.flag("disable_parallel_tool_use")?.unwrap_or(false);
    fields.finish();
    Ok(Tools {
        tools,
        choice,
        is_single,
    })
}

/// Returns a function in OpenAI's form. Its schema has the name `schema` here.
fn function_of(function: Located, schema: &str) -> Result<Value, ApiError> {
    let mut fields = function.object()?;
    let name = fields.required("name")?;
    let not_empty = name.must_be("a name that is not empty");
    let name = name.text()?;
    if name.is_empty() {
        return Err(not_empty);
    }
    let description = fields.text("description")?.unwrap_or_default();
    let parameters = match fields.take(schema) {
        Some(schema) if schema.value.is_object() => schema.value,
        Some(schema) => return Err(schema.must_be("a JSON Schema")),
        None => json!({ "type": "object", "properties": {} }),
    };
    let is_strict = fields.flag("strict")?.unwrap_or(false);
    fields.tolerate(&["type", "cache_control"]);
    fields.finish();
    let mut function =
        json!({ "name": name, "description": description, "parameters": parameters });
    if is_strict {
        function["strict"] = true.into();
    }
    Ok(json!({ "type": "function", "function": function }))
}

/// Checks that a choice has its tool.
fn checked(
    choice: ToolChoice,
    path: Option<String>,
    tools: &[Value],
) -> Result<ToolChoice, ApiError> {
    let path = path.unwrap_or_default();
    let has = |name: &str| tools.iter().any(|tool| tool["function"]["name"] == name);
    match &choice {
        ToolChoice::Required if tools.is_empty() => {
            let message = format!("`{path}` needs `tools`");
            Err(ApiError::field(path, message))
        }
        ToolChoice::Named(name) if !has(name) => {
            let message = format!("`{path}` names no function of `tools`");
            Err(ApiError::field(path, message))
        }
        _ => Ok(choice),
    }
}

impl Located {
    fn choice_of_word(self) -> Result<ToolChoice, ApiError> {
        match self.value.as_str() {
            Some("auto") => Ok(ToolChoice::Auto),
            Some("none") => Ok(ToolChoice::None),
            Some("required") => Ok(ToolChoice::Required),
            _ => Err(self.must_be("`auto`, `none`, `required` or a function")),
        }
    }
}

/// Returns the calls of a message in OpenAI's form.
pub(crate) fn chat_calls(calls: &[Called]) -> Value {
    let calls = calls.iter().map(|call| {
        json!({
            "id": call.id,
            "type": "function",
            "function": { "name": call.name, "arguments": call.arguments },
        })
    });
    calls.collect()
}

/// Returns a part of a streamed call in OpenAI's form; `None` for its end, which has none.
pub(crate) fn chat_delta(index: usize, delta: &ToolCallDelta) -> Option<Value> {
    let call = match delta {
        ToolCallDelta::Begin { id, name } => json!({
            "index": index,
            "id": id,
            "type": "function",
            "function": { "name": name, "arguments": "" },
        }),
        ToolCallDelta::Arguments(json) => {
            json!({ "index": index, "function": { "arguments": json } })
        }
        ToolCallDelta::End => return None,
    };
    Some(json!({ "tool_calls": [call] }))
}

/// Returns the arguments of a complete call as an object.
pub(crate) fn arguments(call: &Called) -> Value {
    serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}))
}
