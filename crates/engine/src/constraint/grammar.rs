//! Turns a [`Grammar`] into the form that llguidance compiles, within limits.
//!
//! Rule: what cannot be held in full is refused, with its place. Nothing is left out of a schema.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use serde_json::{Value, json};

use super::Grammar;
use super::references::remove_ignored;
use crate::error::EngineError;

/// The largest schema, grammar or list, in bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// How deep a schema may be nested.
const MAX_DEPTH: usize = 100;

/// White space between the parts of a JSON text, where a schema asks for it. A model that is not sure
/// what to write may write white space without end.
const WHITESPACE: &str = r"[\x20\x0A\x0D\x09]{1,32}";

/// White space of a separator that a schema asks for.
const MAX_SEPARATOR_SPACE: usize = 32;

/// How long the search for the keyword that cannot be held may take.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(1);

/// Keywords whose values are schemas: one, a list, or by name. Definitions come last, because one
/// that nothing refers to is no problem.
const SUBSCHEMAS: [&str; 11] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "prefixItems",
    "items",
    "additionalItems",
    "allOf",
    "anyOf",
    "oneOf",
    "$defs",
    "definitions",
];

/// Limits on compiling and on every token. A state of a lexer takes 1 to 2 KB.
pub(super) fn limits() -> ParserLimits {
    ParserLimits {
        max_lexer_states: 30_000,
        // Errors are for people, and must not contain the response.
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

/// Returns the grammar in llguidance's form.
///
/// # Errors
/// [`EngineError::InvalidConstraint`] if it is too large or empty.
pub(super) fn top_level(grammar: &Grammar) -> Result<TopLevelGrammar, EngineError> {
    let size = match grammar {
        Grammar::JsonSchema(schema) => return of_schema(schema),
        Grammar::Json | Grammar::JsonObject => 0,
        Grammar::Regex(text) | Grammar::Lark(text) => text.len(),
        Grammar::Choice(texts) => texts.iter().map(String::len).sum(),
    };
    check_size(size)?;
    Ok(match grammar {
        Grammar::JsonSchema(schema) => of_schema(schema)?,
        Grammar::Json => of_schema(&json!({}))?,
        Grammar::JsonObject => of_schema(&json!({ "type": "object" }))?,
        Grammar::Regex(pattern) => TopLevelGrammar::from_regex(without_anchors(pattern)),
        Grammar::Lark(grammar) => TopLevelGrammar::from_lark(grammar.clone()),
        Grammar::Choice(texts) if texts.is_empty() => {
            return Err(invalid("", "", "the list of choices is empty"));
        }
        Grammar::Choice(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| json!(text).to_string()).collect();
            TopLevelGrammar::from_lark(format!("start: {}", texts.join(" | ")))
        }
    })
}

fn of_schema(schema: &Value) -> Result<TopLevelGrammar, EngineError> {
    check_depth(schema)?;
    let mut size = ByteCount(0);
    // Writing to it cannot fail, nor can a value be no JSON.
    let _ = serde_json::to_writer(&mut size, schema);
    check_size(size.0)?;
    match schema {
        Value::Object(_) | Value::Bool(true) => {}
        Value::Bool(false) => return Err(invalid("", "", "no JSON is valid under `false`")),
        _ => return Err(invalid("", "", "a schema is a JSON object")),
    }
    check_separators(schema)?;
    Ok(TopLevelGrammar::from_json_schema(with_layout(schema)))
}

/// Counts the bytes that are written to it.
struct ByteCount(usize);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn check_size(size: usize) -> Result<(), EngineError> {
    if size > MAX_BYTES {
        let message = format!("it has {size} bytes, but at most {MAX_BYTES} are allowed");
        return Err(invalid("", "", message));
    }
    Ok(())
}

/// Returns true if values can be held to this schema. Unlike [`check`], it does not search for the reason.
pub(crate) fn can_hold(schema: &Value) -> bool {
    of_schema(schema).is_ok_and(|grammar| translate(grammar).is_ok())
}

/// Checks whether the grammar can be held, as far as that does not depend on a model.
///
/// # Errors
/// [`EngineError::InvalidConstraint`].
pub(super) fn check(grammar: &Grammar) -> Result<(), EngineError> {
    let top_level = top_level(grammar)?;
    if matches!(grammar, Grammar::Lark(_)) {
        // Names of special tokens are known only with a vocabulary.
        return Ok(());
    }
    translate(top_level).map_err(|message| refusal(grammar, message))
}

/// Returns the error for a grammar that llguidance refused with `message`.
pub(super) fn refusal(grammar: &Grammar, message: String) -> EngineError {
    let (path, keyword) = match grammar {
        Grammar::JsonSchema(schema) => {
            let mut search = Search {
                root: schema,
                until: Instant::now() + MAX_SEARCH_TIME,
            };
            search.find(schema).unwrap_or_default()
        }
        Grammar::Json | Grammar::JsonObject => Default::default(),
        Grammar::Regex(_) => (String::new(), "regex".to_owned()),
        Grammar::Lark(_) => (String::new(), "grammar".to_owned()),
        Grammar::Choice(_) => (String::new(), "choice".to_owned()),
    };
    invalid(path, keyword, first_line(&message))
}

fn translate(grammar: TopLevelGrammar) -> Result<(), String> {
    let grammar = GrammarInit::Serialized(grammar);
    // Unwind safe: nothing of the unfinished grammar is used.
    let translated = catch_unwind(AssertUnwindSafe(|| grammar.to_internal(None, limits())));
    match translated {
        Ok(translated) => translated.map(drop).map_err(|error| error.to_string()),
        Err(_) => Err("compiling it failed; simplify it".to_owned()),
    }
}

/// Returns the error for a constraint that cannot be held.
pub(super) fn invalid(
    path: impl Into<String>,
    keyword: impl Into<String>,
    message: impl Into<String>,
) -> EngineError {
    EngineError::InvalidConstraint {
        path: path.into(),
        keyword: keyword.into(),
        message: message.into(),
    }
}

fn first_line(message: &str) -> String {
    let line = message.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or("no reason was given").trim().to_owned()
}

/// Anchors mean nothing where the whole text must match.
fn without_anchors(pattern: &str) -> &str {
    let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
    match pattern.strip_suffix('$') {
        Some(rest) if rest.len() - rest.trim_end_matches('\\').len() == 0 => rest,
        _ => pattern,
    }
}

fn check_depth(schema: &Value) -> Result<(), EngineError> {
    let mut left = vec![(schema, 1)];
    while let Some((value, depth)) = left.pop() {
        if depth > MAX_DEPTH {
            let message = format!("it is nested deeper than {MAX_DEPTH} levels");
            return Err(invalid("", "", message));
        }
        match value {
            Value::Array(items) => left.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => left.extend(map.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

/// Returns a schema with llguidance's options, and without the keywords that its draft ignores.
/// Anything but an object counts as a schema without keywords.
///
/// The layout of the JSON is one line as Python's `json.dumps` writes it, which models know from tool
/// calls and of which nothing is left to choose. The options of the caller stay, except a pattern of
/// white space, which could be endless, and those that leave out what cannot be held. llguidance reads
/// separators as regular expressions, so they must be plain text.
pub(crate) fn with_layout(schema: &Value) -> Value {
    let mut map = schema.as_object().cloned().unwrap_or_default();
    let options = map.entry("x-guidance").or_insert_with(|| json!({}));
    if !options.is_object() || check_separators(schema).is_err() {
        // Options in a list would be read by their positions, also those that may not be set. Null is
        // refused.
        *options = Value::Null;
    }
    if let Value::Object(options) = options {
        let has_pattern = options.remove("whitespace_pattern").is_some();
        match options.get("whitespace_flexible") {
            Some(Value::Bool(false)) => {}
            None if !has_pattern => {
                options.insert("whitespace_flexible".to_owned(), json!(false));
                for (name, text) in [("item_separator", ", "), ("key_separator", ": ")] {
                    options.entry(name).or_insert_with(|| json!(text));
                }
            }
            _ => {
                options.insert("whitespace_pattern".to_owned(), json!(WHITESPACE));
            }
        }
        options.insert("lenient".to_owned(), json!(false));
        options.insert("coerce_one_of".to_owned(), json!(false));
    }
    let mut schema = Value::Object(map);
    remove_ignored(&mut schema);
    schema
}

/// llguidance would not name a separator that it cannot hold.
fn check_separators(schema: &Value) -> Result<(), EngineError> {
    for (name, sign) in [("item_separator", ","), ("key_separator", ":")] {
        let text = schema
            .get("x-guidance")
            .and_then(|options| options.get(name));
        if text.is_some_and(|text| !is_separator(text, sign)) {
            let message = format!(
                "`{name}` must be `{sign}` with at most {MAX_SEPARATOR_SPACE} characters of white space"
            );
            return Err(invalid("", "x-guidance", message));
        }
    }
    Ok(())
}

/// Returns true for `sign` with a little white space of JSON around it.
fn is_separator(text: &Value, sign: &str) -> bool {
    let is_plain = |text: &str| text.trim_matches([' ', '\t', '\r', '\n']) == sign;
    let text = text.as_str();
    text.is_some_and(|text| is_plain(text) && text.len() <= sign.len() + MAX_SEPARATOR_SPACE)
}

/// Finds the innermost part of a schema that cannot be held.
struct Search<'a> {
    root: &'a Value,
    until: Instant,
}

impl Search<'_> {
    /// Returns the JSON pointer to the innermost refused schema within `schema`, and its keyword.
    /// `None` if `schema` is not refused on its own.
    fn find(&mut self, schema: &Value) -> Option<(String, String)> {
        if !self.is_refused(schema) {
            return None;
        }
        for (pointer, child) in children(schema) {
            if let Some((path, keyword)) = self.find(child) {
                return Some((pointer + &path, keyword));
            }
        }
        let map = schema.as_object()?;
        let only = |key: &String| json!({ key: map[key] });
        let without = |key: &String| {
            let mut rest = map.clone();
            rest.remove(key);
            Value::Object(rest)
        };
        // A keyword that is refused alone, or without which the rest is not.
        let alone = map.keys().find(|key| self.is_refused(&only(key)));
        let needed = || map.keys().find(|key| !self.is_refused(&without(key)));
        let keyword = alone.or_else(needed).cloned().unwrap_or_default();
        Some((String::new(), keyword))
    }

    fn is_refused(&self, schema: &Value) -> bool {
        if Instant::now() > self.until {
            return false;
        }
        let mut schema = schema.clone();
        if let (Some(map), Some(root)) = (schema.as_object_mut(), self.root.as_object()) {
            for key in ["$schema", "$defs", "definitions"] {
                if let (false, Some(value)) = (map.contains_key(key), root.get(key)) {
                    map.insert(key.to_owned(), value.clone());
                }
            }
        }
        schema.is_object()
            && translate(TopLevelGrammar::from_json_schema(with_layout(&schema))).is_err()
    }
}

/// Returns the schemas that are parts of `schema`, with JSON pointers to them.
fn children(schema: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for keyword in SUBSCHEMAS {
        match (keyword, schema.get(keyword)) {
            (_, Some(Value::Array(items))) => {
                let items = items.iter().enumerate();
                found.extend(items.map(|(index, item)| (format!("/{keyword}/{index}"), item)));
            }
            (
                "properties" | "patternProperties" | "$defs" | "definitions",
                Some(Value::Object(map)),
            ) => {
                let pointer = |name: &str| name.replace('~', "~0").replace('/', "~1");
                let named = map.iter();
                found.extend(
                    named.map(|(name, item)| (format!("/{keyword}/{}", pointer(name)), item)),
                );
            }
            (_, Some(item @ Value::Object(_))) => found.push((format!("/{keyword}"), item)),
            _ => {}
        }
    }
    found
}
