//! Arguments in Gemma's notation: JSON with plain keys, and strings between `<|"|>`.

use serde_json::{Value, json};

use super::{OBJECT_KEYWORDS, Rules, has_only, is_free, names_are_known, properties, resolved};
use crate::tools::Tool;

/// How deep a schema may be nested.
const MAX_DEPTH: usize = 8;

/// The most rules of one schema: definitions that are used often are written out each time.
const MAX_RULES: usize = 500;

/// Returns the rule of a tool's arguments. Adds the rules that it uses.
pub(super) fn arguments(
    grammar: &Rules<'_>,
    index: usize,
    tool: &Tool,
    rules: &mut Vec<String>,
) -> String {
    let mut writer = Writer {
        grammar: Some(grammar),
        root: &tool.schema,
        prefix: format!("gemma_{index}"),
        rules: Vec::new(),
    };
    let object = writer.object(&tool.schema, 0);
    rules.append(&mut writer.rules);
    object.unwrap_or_else(|| "gemma_object".to_owned())
}

/// Returns true if [`arguments`] writes the whole schema.
pub(super) fn holds(schema: &Value) -> bool {
    let mut writer = Writer {
        grammar: None,
        root: schema,
        prefix: String::new(),
        rules: Vec::new(),
    };
    writer.object(schema, 0).is_some()
}

struct Writer<'a> {
    /// `None` if only the schema is checked.
    grammar: Option<&'a Rules<'a>>,
    root: &'a Value,
    prefix: String,
    rules: Vec<String>,
}

impl Writer<'_> {
    /// Adds a rule and returns its name; `None` if there are too many.
    fn rule(&mut self, body: &str) -> Option<String> {
        let name = format!("{}_{}", self.prefix, self.rules.len());
        self.rules.push(format!("{name}: {body}"));
        (self.rules.len() <= MAX_RULES).then_some(name)
    }

    fn text(&self, text: &str) -> String {
        self.grammar
            .map_or_else(String::new, |grammar| grammar.text(text))
    }

    /// Returns an object whose properties come in the order of the schema.
    fn object(&mut self, schema: &Value, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH || !has_only(schema, &OBJECT_KEYWORDS) || !names_are_known(schema) {
            return None;
        }
        if is_free(schema) {
            return Some("gemma_object".to_owned());
        }
        let required = schema.get("required").and_then(Value::as_array);
        let mut pairs = Vec::new();
        for (key, property) in properties(schema) {
            let value = self.value(property, depth + 1)?;
            let key_text = self.text(&format!("{key}:"));
            let pair = self.rule(&format!("{key_text} {value}"))?;
            let is_required = required.is_some_and(|names| names.iter().any(|name| name == key));
            pairs.push((pair, is_required));
        }
        // What may follow a first property: those after it, with commas.
        let mut firsts = Vec::new();
        let mut rest = String::new();
        for (pair, is_required) in pairs.iter().rev() {
            let rest_rule = self.rule(match rest.as_str() {
                "" => "\"\"",
                rest => rest,
            })?;
            let first = format!("{pair} {rest_rule}");
            if *is_required {
                firsts.clear();
            }
            firsts.push(first);
            let optional = if *is_required { "" } else { "?" };
            rest = format!("(\",\" {pair}){optional} {rest_rule}");
        }
        let may_be_empty = pairs.iter().all(|(_, is_required)| !is_required);
        let members = match firsts.is_empty() {
            true => String::new(),
            false => format!(
                "({}){}",
                firsts.join(" | "),
                if may_be_empty { "?" } else { "" }
            ),
        };
        self.rule(&format!("\"{{\" {members} \"}}\""))
    }

    /// Returns a value of a list; `None` for an array or an object.
    fn constant(&self, value: &Value) -> Option<String> {
        match value {
            Value::String(text) => Some(self.text(&format!("<|\"|>{text}<|\"|>"))),
            Value::Number(_) | Value::Bool(_) | Value::Null => Some(self.text(&value.to_string())),
            Value::Array(_) | Value::Object(_) => None,
        }
    }

    fn value(&mut self, schema: &Value, depth: usize) -> Option<String> {
        let schema = resolved(schema, self.root);
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some(options) = options(schema) {
            let options = options.iter().map(|option| self.value(option, depth + 1));
            let options: Vec<String> = options.collect::<Option<_>>()?;
            return self.rule(&options.join(" | "));
        }
        if let Some(values) = constants(schema) {
            let values = values.iter().map(|value| self.constant(value));
            let values: Vec<String> = values.collect::<Option<_>>()?;
            return Some(format!("({})", values.join(" | ")));
        }
        let kind = match schema.get("type") {
            None if has_only(schema, &[]) => return Some("gemma_value".to_owned()),
            kind => kind.and_then(Value::as_str)?,
        };
        let simple = |rule: &str| has_only(schema, &["type"]).then(|| rule.to_owned());
        match kind {
            "string" => simple("gemma_string"),
            "integer" => simple("GEMMA_INTEGER"),
            "number" => simple("GEMMA_NUMBER"),
            "boolean" => simple("(\"true\" | \"false\")"),
            "null" => simple("\"null\""),
            "array" => match schema.get("items") {
                None => simple("gemma_array"),
                Some(items) if has_only(schema, &["type", "items"]) => {
                    let item = self.value(items, depth + 1)?;
                    self.rule(&format!("\"[\" ({item} (\",\" {item})*)? \"]\""))
                }
                Some(_) => None,
            },
            "object" => self.object(schema, depth),
            _ => None,
        }
    }
}

/// Returns the schemas of which a value must follow one: those of `anyOf`, or one for each type of a list.
fn options(schema: &Value) -> Option<Vec<Value>> {
    if let Some(options) = schema.get("anyOf") {
        let options = options.as_array()?;
        return has_only(schema, &["anyOf"]).then(|| options.clone());
    }
    let types = schema.get("type").and_then(Value::as_array)?;
    let of_type = |name| json!({ "type": name });
    has_only(schema, &["type"]).then(|| types.iter().map(of_type).collect())
}

/// Returns the values of `enum` or `const`, if nothing else says what is valid but one type that all of
/// them have.
fn constants(schema: &Value) -> Option<Vec<Value>> {
    let values = match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(values)), None) => values.clone(),
        (None, Some(value)) => vec![value.clone()],
        _ => return None,
    };
    let is_of_type = |value: &Value| match schema.get("type").map(Value::as_str) {
        None => true,
        Some(Some("string")) => value.is_string(),
        Some(Some("integer")) => value.is_i64() || value.is_u64(),
        Some(Some("number")) => value.is_number(),
        Some(Some("boolean")) => value.is_boolean(),
        Some(Some("null")) => value.is_null(),
        Some(_) => false,
    };
    let is_held = has_only(schema, &["type", "enum", "const"]) && values.iter().all(is_of_type);
    (is_held && !values.is_empty()).then_some(values)
}

/// Adds the rules of values that follow no schema.
pub(super) fn add_shared(grammar: &Rules<'_>, rules: &mut Vec<String>) {
    let quote = grammar.text("<|\"|>");
    match grammar.special.contains_key("<|\"|>") {
        true => rules.push(format!("gemma_string: {quote} TEXT? {quote}")),
        false => {
            rules.push(format!("gemma_text[lazy]: /(.|\\n)*/ {quote}"));
            rules.push(format!("gemma_string: {quote} gemma_text"));
        }
    }
    for rule in [
        "GEMMA_INTEGER: /-?(0|[1-9][0-9]{0,15})/",
        "GEMMA_NUMBER: /-?(0|[1-9][0-9]{0,15})(\\.[0-9]{1,15})?/",
        "GEMMA_KEY: /[A-Za-z_][A-Za-z0-9_\\-]{0,63}/",
        "gemma_pair: GEMMA_KEY \":\" gemma_value",
        "gemma_object: \"{\" (gemma_pair (\",\" gemma_pair)*)? \"}\"",
        "gemma_array: \"[\" (gemma_value (\",\" gemma_value)*)? \"]\"",
        "gemma_value: gemma_string | GEMMA_NUMBER | \"true\" | \"false\" | \"null\" \
         | gemma_object | gemma_array",
    ] {
        rules.push(rule.to_owned());
    }
}
