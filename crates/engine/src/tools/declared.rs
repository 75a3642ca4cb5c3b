//! Reads the tools that a request declares, and decides whose schemas can be held.

use std::thread;

use serde_json::{Value, json};

use super::families::Family;
use super::{Declared, Tool, grammar};
use crate::constraint::{Constraint, Grammar, can_hold, remove_ignored};
use crate::error::EngineError;

/// Tools whose schemas one thread checks. Each takes a few tenths of a millisecond, and agents declare
/// dozens.
const TOOLS_PER_THREAD: usize = 4;

/// Nested schemas are checked recursively.
const STACK_BYTES: usize = 8 << 20;

/// Reads declared tools.
///
/// # Errors
/// [`EngineError::InvalidParameter`] for a tool without a name and for two with one name;
/// [`EngineError::InvalidConstraint`] for a tool with `strict` whose schema cannot be held.
pub(super) fn read(tools: &[Value], family: &Family) -> Result<Declared, EngineError> {
    let mut declared = Declared::default();
    for tool in tools {
        let tool = read_tool(tool)?;
        if declared.contains(&tool.name) {
            let expected = "a name that no other tool has";
            return Err(EngineError::invalid_parameter("tools", tool.name, expected));
        }
        declared.tools.push(tool);
    }
    check_schemas(&mut declared.tools, family);
    for (tool, json) in declared.tools.iter().zip(tools) {
        if !tool.is_held && function(json).get("strict") == Some(&Value::Bool(true)) {
            return Err(refusal(tool));
        }
    }
    Ok(declared)
}

fn function(tool: &Value) -> &Value {
    tool.get("function").unwrap_or(tool)
}

fn read_tool(tool: &Value) -> Result<Tool, EngineError> {
    let function = function(tool);
    let name = function.get("name").and_then(Value::as_str);
    let name = name.unwrap_or_default().to_owned();
    // Other characters would end the name early in the form of some model.
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:".contains(c);
    if name.is_empty() || !name.chars().all(is_plain) {
        let expected = "functions with a name of letters, digits and `_-./:`";
        return Err(EngineError::invalid_parameter("tools", name, expected));
    }
    let schema = match function.get("parameters") {
        Some(schema @ Value::Object(_)) => schema.clone(),
        _ => json!({ "type": "object", "properties": {} }),
    };
    Ok(Tool {
        name,
        schema,
        is_held: false,
    })
}

/// Sets [`Tool::is_held`], on several threads if there are many tools.
fn check_schemas(tools: &mut [Tool], family: &Family) {
    let check = |tools: &mut [Tool]| {
        for tool in tools {
            let is_held = is_object(&tool.schema) && can_hold(&tool.schema);
            // The form of a family reads parts of the schema, without its draft.
            remove_ignored(&mut tool.schema);
            tool.is_held = is_held && grammar::holds(family, &tool.schema);
        }
    };
    let n_cores = thread::available_parallelism().map_or(1, usize::from);
    let n_tools = tools.len().div_ceil(n_cores).max(TOOLS_PER_THREAD);
    thread::scope(|scope| {
        let mut parts = tools.chunks_mut(n_tools);
        let first = parts.next();
        for part in parts {
            let thread = thread::Builder::new().name("tools".to_owned());
            let thread = thread.stack_size(STACK_BYTES);
            // Without a thread, the arguments of these tools are any object.
            let _ = thread.spawn_scoped(scope, || check(part));
        }
        first.map(check);
    });
}

fn is_object(schema: &Value) -> bool {
    schema.get("type").is_none_or(|kind| kind == "object")
}

/// Returns why the schema of a tool cannot be held.
fn refusal(tool: &Tool) -> EngineError {
    let schema = Grammar::JsonSchema(tool.schema.clone());
    let (path, keyword, message) = match Constraint::on_answer(schema).check() {
        _ if !is_object(&tool.schema) => (
            String::new(),
            "type".to_owned(),
            "arguments are an object".to_owned(),
        ),
        Err(EngineError::InvalidConstraint {
            path,
            keyword,
            message,
        }) => (path, keyword, message),
        Err(error) => return error,
        Ok(()) => {
            let message = "the model does not write arguments as JSON, and the form that it uses can't be \
                held to this schema";
            (String::new(), String::new(), message.to_owned())
        }
    };
    EngineError::InvalidConstraint {
        path,
        keyword,
        message: format!("the arguments of {:?}: {message}", tool.name),
    }
}
