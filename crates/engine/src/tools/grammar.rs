//! The grammar of a response that may or must call tools, in llguidance's form of Lark.
//!
//! A response that must call a tool is held from its first character on. One that may call one is free
//! text until a call begins; then the call is held.

mod gemma;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::families::{CallGrammar, Family, Tags};
use super::schema::ValueTypes;
use super::{Declared, Tool};
use crate::chat::ToolChoice;
use crate::constraint::{Constraint, Grammar, can_hold, with_layout};

/// What a grammar is made of.
pub(super) struct Rules<'a> {
    pub(super) family: &'static Family,
    pub(super) declared: &'a Declared,
    pub(super) choice: &'a ToolChoice,
    pub(super) is_single: bool,
    /// The special tokens of the family, which no text spells.
    pub(super) special: &'a BTreeMap<&'static str, u32>,
}

impl Rules<'_> {
    /// Returns the constraint of the response; `None` if it is free.
    pub(super) fn constraint(&self) -> Option<Constraint> {
        let is_free = *self.choice == ToolChoice::Auto;
        let has_headers = self.family.name == "gpt-oss";
        // Text and headers can be told apart only by special tokens.
        let is_unclear = has_headers && is_free && !self.special.contains_key("<|channel|>");
        if *self.choice == ToolChoice::None || is_unclear {
            return None;
        }
        let mut rules = Vec::new();
        let calls = (0..).zip(self.tools()).map(|(index, tool)| {
            let call = self.call(index, tool, &mut rules);
            rules.push(format!("call_{index}: {call}"));
            format!("call_{index}")
        });
        let calls: Vec<String> = calls.collect();
        if calls.is_empty() {
            return None;
        }
        rules.push(format!("call: {}", calls.join(" | ")));
        self.add_shared(&mut rules);
        if has_headers {
            return Some(Constraint::on_response(Grammar::Lark(
                self.with_headers(rules, is_free),
            )));
        }
        let (first, body) = self.calls();
        match is_free {
            false => rules.push(format!("start: SPACE? {} {body}", self.text(&first))),
            true if self.begins_with_object() => {
                // Any text but one that begins like a call. A brace alone would be ambiguous.
                rules.push(
                    "OTHER: /[^{](.|\\n)*/ | /\\{[^\"](.|\\n)*/ | /\\{\"[^n](.|\\n)*/".to_owned(),
                );
                rules.push(format!("start: OTHER? | {} {body}", self.text(&first)));
            }
            true if self.special.contains_key(first.as_str()) => {
                rules.push(format!("start: TEXT? | TEXT? {} {body}", self.text(&first)));
            }
            true => {
                let marker = Value::from(first.as_str());
                rules.push(format!("before[lazy]: /(.|\\n)*/ {marker}"));
                rules.push(format!("start: TEXT? | before {body}"));
            }
        }
        Some(Constraint::on_answer(Grammar::Lark(rules.join("\n"))))
    }

    fn tools(&self) -> impl Iterator<Item = &Tool> {
        let chosen = match self.choice {
            ToolChoice::Named(name) => Some(name),
            ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => None,
        };
        let tools = self.declared.tools.iter();
        tools.filter(move |tool| chosen.is_none_or(|name| *name == tool.name))
    }

    /// Returns true if a call is an object without a marker.
    fn begins_with_object(&self) -> bool {
        self.family.opens[0].marker == "{"
    }

    /// Returns the text that begins the first call, and everything after it.
    fn calls(&self) -> (String, String) {
        let open = self.family.opens[0].marker;
        let separator = self.family.separator.filter(|_| !self.is_single);
        let is_list = self.family.separator == Some(", ");
        let mut body = String::new();
        let first = match (self.family.wrappers.first(), self.family.grammar) {
            (Some(wrapper), _) => {
                body += &self.text(open);
                (*wrapper).to_owned()
            }
            (None, CallGrammar::Json { before, .. }) if self.begins_with_object() => {
                format!("{open}{before}")
            }
            (None, _) => open.to_owned(),
        };
        body += if is_list { " \"[\" call" } else { " call" };
        match separator {
            Some(separator) if is_list => body += &format!(" ({} call)*", self.text(separator)),
            Some(separator) => {
                body += &format!(" ({} {} call)*", self.text(separator), self.text(open));
            }
            None => {}
        }
        if is_list {
            body += " \"]\"";
        }
        let close = match self.family.name {
            "phi-4-mini" => Some("<|/tool_call|>"),
            _ => self.family.wrappers.get(1).copied(),
        };
        if let Some(close) = close {
            body += &format!(" {}", self.text(close));
        }
        (first, body)
    }

    /// Returns the grammar of a call after its opening text. Adds the rules that only this call uses.
    fn call(&self, index: usize, tool: &Tool, rules: &mut Vec<String>) -> String {
        match self.family.grammar {
            CallGrammar::Json {
                before,
                between,
                after,
            } => {
                // That of an object is one text with its brace.
                let before = if self.begins_with_object() {
                    ""
                } else {
                    before
                };
                let head = self.text(&format!("{before}{}{between}", tool.name));
                let arguments = match tool.is_held {
                    true => with_layout(&closed(&tool.schema)),
                    false => with_layout(&json!({ "type": "object" })),
                };
                format!("{head} %json {arguments} {}", self.text(after))
            }
            CallGrammar::Tags(tags) => self.tagged(tool, tags),
            CallGrammar::Gemma => {
                let head = self.text(&format!("call:{}", tool.name));
                let arguments = match tool.is_held {
                    true => gemma::arguments(self, index, tool, rules),
                    false => "gemma_object".to_owned(),
                };
                format!("{head} {arguments} {}", self.text("<tool_call|>"))
            }
        }
    }

    fn tagged(&self, tool: &Tool, tags: &Tags) -> String {
        let layout = if tags.has_line_breaks { "\n" } else { "" };
        let before_value = match tags.before_value {
            "" => layout.to_owned(),
            tag => format!("\n{tag}"),
        };
        let start = match tags.before_name {
            "" => format!("{}\n", tool.name),
            before => format!("\n{before}{}{}\n", tool.name, tags.after_name),
        };
        let close = match tags.before_name {
            "" => tags.end.to_owned(),
            _ => format!("{}\n</tool_call>", tags.end),
        };
        let (start, close) = (self.text(&start), self.text(&close));
        if !tool.is_held || is_free(&tool.schema) {
            let key = self.text(tags.before_key);
            let value = self.text(&format!("{}{before_value}", tags.after_key));
            let line = self.text("\n");
            return format!("{start} ({key} KEY {value} plain_value {line})* {close}");
        }
        let mut text = start;
        let required = tool.schema.get("required").and_then(Value::as_array);
        for (key, property) in properties(&tool.schema) {
            let is_required = required.is_some_and(|names| names.iter().any(|name| name == key));
            let key_tag = format!("{}{key}{}", tags.before_key, tags.after_key);
            let head = self.text(&format!("{key_tag}{before_value}"));
            let end = self.text(&format!("{layout}{}", tags.after_value));
            let types = ValueTypes::of_property(&tool.schema, key);
            let value = match listed(resolved(property, &tool.schema)) {
                Some(values) if types.is_only_string() => {
                    let values: Vec<String> = values.map(|value| self.text(value)).collect();
                    format!("({}) {end}", values.join(" | "))
                }
                _ if types.is_only_string() => "plain_value".to_owned(),
                _ => {
                    let schema = with_definitions(property, &tool.schema);
                    format!("%json {} {end}", with_layout(&schema))
                }
            };
            let optional = if is_required { "" } else { "?" };
            text += &format!(" ({head} {value} {}){optional}", self.text("\n"));
        }
        format!("{text} {close}")
    }

    /// Adds the rules that the calls use.
    fn add_shared(&self, rules: &mut Vec<String>) {
        rules.push("TEXT: /(.|\\n)+/".to_owned());
        rules.push("SPACE: /[ \\n]{1,8}/".to_owned());
        match self.family.grammar {
            CallGrammar::Tags(tags) => {
                rules.push("KEY: /[^<>\\s]{1,64}/".to_owned());
                let layout = if tags.has_line_breaks { "\n" } else { "" };
                let close = format!("{layout}{}", tags.after_value);
                rules.push(match self.special.contains_key(tags.after_value) {
                    true => format!("plain_value: TEXT? {}", self.text(&close)),
                    false => format!("plain_value[lazy]: /(.|\\n)*/ {}", Value::from(close)),
                });
            }
            CallGrammar::Gemma => gemma::add_shared(self, rules),
            CallGrammar::Json { .. } => {}
        }
    }

    /// Returns the grammar of a response whose messages have headers, as those of gpt-oss: reasoning and
    /// remarks, then one call, or the answer if that is allowed.
    fn with_headers(&self, mut rules: Vec<String>, is_free: bool) -> String {
        let message = |header: &str| {
            let begin = self.text(&format!("<|channel|>{header}<|message|>"));
            format!("{begin} TEXT?")
        };
        let end = self.text("<|end|><|start|>assistant");
        let header = self.text("<|channel|>commentary to=functions.");
        let answer = match is_free {
            true => format!(" | {}", message("final")),
            false => String::new(),
        };
        rules.push(format!(
            "start: (({} | {}) {end})* ({header} call{answer})",
            message("analysis"),
            message("commentary"),
        ));
        rules.join("\n")
    }

    /// Returns `text` as a sequence of strings and special tokens.
    fn text(&self, text: &str) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let found = self.special.iter().filter_map(|(marker, id)| {
                let at = rest.find(marker)?;
                Some((at, std::cmp::Reverse(marker.len()), *id))
            });
            let Some((at, length, id)) = found.min() else {
                parts.push(Value::from(rest).to_string());
                break;
            };
            if at > 0 {
                parts.push(Value::from(&rest[..at]).to_string());
            }
            parts.push(format!("<[{id}]>"));
            rest = &rest[at + length.0..];
        }
        match parts.is_empty() {
            true => "\"\"".to_owned(),
            false => parts.join(" "),
        }
    }
}

/// Returns true if the form of the family can hold arguments to this schema, which llguidance holds in
/// JSON. Values that are plain text can be held only to a list.
pub(super) fn holds(family: &Family, schema: &Value) -> bool {
    match family.grammar {
        CallGrammar::Json { .. } => true,
        CallGrammar::Tags(_) => {
            has_only(schema, &OBJECT_KEYWORDS) && {
                let property = |(key, property): (&String, &Value)| {
                    let types = ValueTypes::of_property(schema, key);
                    match types.is_only_string() {
                        true => has_only(resolved(property, schema), &["type", "enum"]),
                        false => can_hold(&with_definitions(property, schema)),
                    }
                };
                names_are_known(schema) && properties(schema).all(property)
            }
        }
        CallGrammar::Gemma => gemma::holds(schema),
    }
}

/// Keywords of objects whose arguments are not JSON.
const OBJECT_KEYWORDS: [&str; 6] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "$defs",
    "definitions",
];

/// Returns true if no other keyword than these says which values are valid.
fn has_only(schema: &Value, keywords: &[&str]) -> bool {
    const NOTES: [&str; 8] = [
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "$schema",
        "$comment",
        "x-guidance",
    ];
    let is_known = |key: &String| keywords.contains(&&**key) || NOTES.contains(&&**key);
    schema
        .as_object()
        .is_some_and(|map| map.keys().all(is_known))
}

/// Returns true if each required property is declared, and others need not follow a schema.
fn names_are_known(schema: &Value) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    let is_declared = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        properties(schema).any(|(key, _)| key == name)
    };
    let others = schema.get("additionalProperties");
    required.into_iter().flatten().all(is_declared) && others.is_none_or(Value::is_boolean)
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten()
}

/// Returns a schema that allows no properties but those that it declares. Without `additionalProperties`
/// all are valid, but a function knows only its own.
fn closed(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let may_close = has_only(&schema, &OBJECT_KEYWORDS) && names_are_known(&schema);
    if may_close
        && !is_free(&schema)
        && let Some(map) = schema.as_object_mut()
    {
        map.entry("additionalProperties").or_insert(false.into());
    }
    schema
}

/// Returns true if an object may have any properties.
fn is_free(schema: &Value) -> bool {
    let others = schema.get("additionalProperties");
    // A function without parameters declares none, and a free object leaves them out.
    schema.get("properties").is_none() && others != Some(&Value::Bool(false))
}

/// Returns the texts of an `enum`, if all are texts.
fn listed(schema: &Value) -> Option<impl Iterator<Item = &str>> {
    let values = schema.get("enum").and_then(Value::as_array)?;
    let is_text = !values.is_empty() && values.iter().all(Value::is_string);
    is_text.then(|| values.iter().filter_map(Value::as_str))
}

/// Follows references to definitions in the same schema.
fn resolved<'s>(mut schema: &'s Value, root: &'s Value) -> &'s Value {
    // A reference may lead to itself.
    for _ in 0..8 {
        let pointer = schema.get("$ref").and_then(Value::as_str);
        let pointer = pointer.filter(|_| has_only(schema, &["$ref"]));
        let target = pointer.and_then(|pointer| root.pointer(pointer.strip_prefix('#')?));
        match target {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// Returns the schema of a property with the definitions that it may refer to, and the layout of its JSON.
fn with_definitions(property: &Value, root: &Value) -> Value {
    let mut map: Map<String, Value> = property.as_object().cloned().unwrap_or_default();
    for key in ["$defs", "definitions", "x-guidance"] {
        if let Some(definitions) = root.get(key) {
            map.entry(key).or_insert_with(|| definitions.clone());
        }
    }
    Value::Object(map)
}
