//! The fields that constrain the text of a response, in the words of several servers.
//!
//! Rule: a constraint is held in full, or the request is refused with the field, the place in its
//! schema and the keyword.

use serde_json::Value;
use transom_engine::Grammar;

use crate::error::{ApiError, CONSTRAINT_FAILED, INVALID_CONSTRAINT};
use crate::json::{Fields, Located};

/// Most choices.
const MAX_CHOICES: usize = 10_000;

/// What the text of a response must match, and the field that says it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Constrained {
    pub(crate) grammar: Grammar,
    /// Path of the field, for errors about the grammar.
    pub(crate) field: String,
}

impl Constrained {
    /// Names the field and the place within it in an error of the engine about this constraint.
    pub(crate) fn blame(&self, mut error: ApiError) -> ApiError {
        if matches!(error.code, Some(INVALID_CONSTRAINT | CONSTRAINT_FAILED)) {
            // The place is a JSON pointer.
            let place = error.param.unwrap_or_default().replace('/', ".");
            let field = format!("{}{place}", self.field);
            error.message = format!("`{field}`: {}", error.message);
            error.param = Some(field);
        }
        error
    }
}

/// Takes the fields of OpenAI's API, of vLLM and of llama.cpp.
///
/// # Errors
/// A field is wrong or not supported, or two of them constrain the same response.
pub(crate) fn take(fields: &mut Fields) -> Result<Option<Constrained>, ApiError> {
    let mut found = None;
    if let Some(format) = fields.object("response_format")? {
        add(&mut found, response_format(format, true)?)?;
    }
    if let Some(outputs) = fields.object("structured_outputs")? {
        add(&mut found, structured_outputs(outputs)?)?;
    }
    // The older names of vLLM, and one of llama.cpp.
    for (name, read) in [
        ("guided_json", schema as Reader),
        ("guided_regex", regex),
        ("guided_choice", choice),
        ("guided_grammar", lark),
        ("json_schema", schema),
    ] {
        let given = fields.take(name).map(read).transpose()?;
        add(&mut found, given)?;
    }
    // A grammar in another form, and one that starts at a text.
    for name in ["grammar", "grammar_lazy", "guided_whitespace_pattern"] {
        fields.refuse(name, &[])?;
    }
    fields.tolerate(&["guided_decoding_backend"]);
    Ok(found)
}

/// Takes a format in the form that Anthropic's and OpenAI's newer APIs share: its type, and a schema
/// beside it.
///
/// # Errors
/// The format is wrong or not supported.
pub(crate) fn format(format: Fields) -> Result<Option<Constrained>, ApiError> {
    response_format(format, false)
}

/// Takes Ollama's `format`: `json`, or a schema.
///
/// # Errors
/// The value is something else.
pub(crate) fn ollama(located: Located) -> Result<Option<Constrained>, ApiError> {
    match &located.value {
        Value::String(text) if text.is_empty() => Ok(None),
        Value::String(text) if text == "json" => Ok(Some(Constrained {
            grammar: Grammar::JsonObject,
            field: located.path,
        })),
        Value::Object(_) => schema(located).map(Some),
        _ => Err(located.must_be("`json` or a JSON Schema")),
    }
}

/// Reads one field of a constraint.
type Reader = fn(Located) -> Result<Constrained, ApiError>;

/// Adds a constraint, of which a response has one.
fn add(found: &mut Option<Constrained>, next: Option<Constrained>) -> Result<(), ApiError> {
    match (&*found, next) {
        (_, None) => Ok(()),
        (None, next) => {
            *found = next;
            Ok(())
        }
        (Some(first), Some(second)) => {
            let (first, second) = (&first.field, second.field);
            let message = format!("`{second}` can't be combined with `{first}`; leave one out");
            Err(ApiError::field(second, message))
        }
    }
}

/// Reads a format: text, any object, or a schema. The schema is in `json_schema` if `is_nested`, but
/// some clients write it beside the type.
fn response_format(mut format: Fields, is_nested: bool) -> Result<Option<Constrained>, ApiError> {
    let kind = format.required("type")?;
    let path = format.path().to_owned();
    let found = match kind.value.as_str() {
        Some("text") => None,
        Some("json_object") => Some(match format.take("schema") {
            Some(located) => schema(located)?,
            None => Constrained {
                grammar: Grammar::JsonObject,
                field: path,
            },
        }),
        Some("json_schema") => {
            let has_own = format.has("schema");
            let constrained = match is_nested && !has_own {
                true => named_schema(format.required("json_schema")?.object()?)?,
                false => {
                    let constrained = schema(format.required("schema")?)?;
                    labels(&mut format)?;
                    constrained
                }
            };
            Some(constrained)
        }
        Some("structural_tag" | "grammar" | "regex" | "python") => {
            return Err(ApiError::unsupported(kind.path));
        }
        _ => return Err(kind.must_be("`text` or `json_object` or `json_schema`")),
    };
    format.finish_known()?;
    Ok(found)
}

fn named_schema(mut fields: Fields) -> Result<Constrained, ApiError> {
    labels(&mut fields)?;
    let constrained = schema(fields.required("schema")?)?;
    fields.finish_known()?;
    Ok(constrained)
}

/// Takes the fields beside a schema. A response is always strict.
fn labels(fields: &mut Fields) -> Result<(), ApiError> {
    for name in ["name", "description"] {
        fields.text(name)?;
    }
    fields.flag("strict").map(drop)
}

/// Takes the fields of vLLM's `structured_outputs`.
fn structured_outputs(mut fields: Fields) -> Result<Option<Constrained>, ApiError> {
    let mut found = None;
    for (name, read) in [
        ("json", schema as Reader),
        ("regex", regex),
        ("choice", choice),
        ("grammar", lark),
    ] {
        let given = fields.take(name).map(read).transpose()?;
        add(&mut found, given)?;
    }
    if fields.flag("json_object")? == Some(true) {
        let constrained = Constrained {
            grammar: Grammar::JsonObject,
            field: fields.path_of("json_object"),
        };
        add(&mut found, Some(constrained))?;
    }
    for name in [
        "structural_tag",
        "whitespace_pattern",
        "disable_any_whitespace",
        "disable_additional_properties",
    ] {
        fields.refuse(name, &[])?;
    }
    fields.tolerate(&["disable_fallback"]);
    fields.finish_known()?;
    Ok(found)
}

/// Reads a JSON Schema, which some clients write as a text.
fn schema(located: Located) -> Result<Constrained, ApiError> {
    let wrong = located.must_be("a JSON Schema: an object");
    let schema = match located.value {
        Value::String(text) => serde_json::from_str(&text).unwrap_or_default(),
        value => value,
    };
    match schema.is_object() || schema == Value::Bool(true) {
        true => Ok(Constrained {
            grammar: Grammar::JsonSchema(schema),
            field: located.path,
        }),
        false => Err(wrong),
    }
}

fn regex(located: Located) -> Result<Constrained, ApiError> {
    let field = located.path.clone();
    let grammar = Grammar::Regex(located.text()?);
    Ok(Constrained { grammar, field })
}

fn lark(located: Located) -> Result<Constrained, ApiError> {
    let field = located.path.clone();
    let grammar = Grammar::Lark(located.text()?);
    Ok(Constrained { grammar, field })
}

fn choice(located: Located) -> Result<Constrained, ApiError> {
    let field = located.path.clone();
    let wrong = located.must_be(&format!("an array of 1 to {MAX_CHOICES} strings"));
    let choices = located.list()?;
    if !(1..=MAX_CHOICES).contains(&choices.len()) {
        return Err(wrong);
    }
    let choices = choices.into_iter().map(Located::text);
    let grammar = Grammar::Choice(choices.collect::<Result<_, _>>()?);
    Ok(Constrained { grammar, field })
}

#[cfg(test)]
mod tests;
