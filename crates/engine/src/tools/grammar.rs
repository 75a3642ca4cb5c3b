//! The grammar of a response that may or must call tools, in llguidance's form of Lark.
//!
//! A response that must call a tool is held from its first character on. One that may call one is free
//! text until a call begins; then the call is held.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::families::{CallGrammar, Family, Tags};
use super::schema::ValueTypes;
use super::{Declared, Tool};
use crate::chat::ToolChoice;
use crate::constraint::{Constraint, Grammar};

/// White space between the parts of arguments; see `constraint`.
const WHITESPACE: &str = r"[\x20\x0A\x0D\x09]{1,32}";

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
        if has_headers && is_free || *self.choice == ToolChoice::None {
            // The header of a message says whether it is a call, and nothing precedes it.
            return None;
        }
        let mut rules = Vec::new();
        let calls = (0..).zip(self.tools()).map(|(index, tool)| {
            rules.push(format!("call_{index}: {}", self.call(tool)));
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
                self.with_headers(rules),
            )));
        }
        let (first, body) = self.calls();
        match is_free {
            false => rules.push(format!("start: SPACE? {} {body}", self.text(&first))),
            true if first == "{" => {
                // Any text but one that begins like a call.
                rules.push(
                    "OTHER: /[^{](.|\\n)*/ | /\\{\\s*[^\"\\s](.|\\n)*/ | /\\{\\s*\"[^n](.|\\n)*/"
                        .to_owned(),
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

    /// Returns the text that begins the first call, and everything after it.
    fn calls(&self) -> (String, String) {
        let open = self.family.opens[0].marker;
        let separator = self.family.separator.filter(|_| !self.is_single);
        let is_list = self.family.separator == Some(", ");
        let mut body = String::new();
        let first = match self.family.wrappers.first() {
            Some(wrapper) => {
                body += &self.text(open);
                *wrapper
            }
            None => open,
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
            body += if self.family.name == "phi-4-mini" {
                " END?"
            } else {
                ""
            };
        }
        if let Some(wrapper) = self.family.wrappers.get(1) {
            body += &format!(" {}", self.text(wrapper));
        }
        (
            first.to_owned(),
            body.replace(" END?", &format!(" {}", self.text("<|/tool_call|>"))),
        )
    }

    /// Returns the grammar of a call after its opening text.
    fn call(&self, tool: &Tool) -> String {
        match self.family.grammar {
            CallGrammar::Json {
                before,
                between,
                after,
            } => {
                let head = self.text(&format!("{before}{}{between}", tool.name));
                let arguments = with_whitespace(&tool.schema);
                format!("{head} %json {arguments} {}", self.text(after))
            }
            CallGrammar::Tags(tags) => self.tagged(tool, tags),
            CallGrammar::Gemma => self.gemma(tool),
        }
    }

    fn tagged(&self, tool: &Tool, tags: &Tags) -> String {
        let (gap, in_value) = match tags.has_line_breaks {
            true => ("\n", "\n"),
            false => ("\n", ""),
        };
        let start = match tags.before_name {
            "" => format!("{}\n", tool.name),
            before => format!("\n{before}{}{}\n", tool.name, tags.after_name),
        };
        let mut text = self.text(&start);
        let required = tool.schema.get("required").and_then(Value::as_array);
        let properties = tool.schema.get("properties").and_then(Value::as_object);
        for (key, property) in properties.into_iter().flatten() {
            let is_required = required.is_some_and(|names| names.iter().any(|name| name == key));
            let key_tag = format!("{}{key}{}", tags.before_key, tags.after_key);
            let before_value = match tags.before_value {
                "" => in_value.to_owned(),
                tag => format!("\n{tag}"),
            };
            let head = self.text(&format!("{key_tag}{before_value}"));
            let close = format!("{in_value}{}", tags.after_value);
            let types = ValueTypes::of_property(&tool.schema, key);
            let listed = property.get("enum").and_then(Value::as_array);
            let value = match listed {
                Some(values) if types.is_only_string() => {
                    let values = values.iter().filter_map(Value::as_str);
                    let values: Vec<String> = values.map(|value| self.text(value)).collect();
                    format!("({}) {}", values.join(" | "), self.text(&close))
                }
                _ if types.is_only_string() => "plain_value".to_owned(),
                _ => {
                    let schema = with_definitions(property, &tool.schema);
                    format!("%json {} {}", with_whitespace(&schema), self.text(&close))
                }
            };
            let optional = if is_required { "" } else { "?" };
            text += &format!(" ({head} {value} {}){optional}", self.text(gap));
        }
        let close = match tags.before_name {
            "" => tags.end.to_owned(),
            _ => format!("{}\n</tool_call>", tags.end),
        };
        format!("{text} {}", self.text(&close))
    }

    /// Properties of Gemma's notation have the names of the schema, in any order.
    fn gemma(&self, tool: &Tool) -> String {
        let head = self.text(&format!("call:{}{{", tool.name));
        let properties = tool.schema.get("properties").and_then(Value::as_object);
        let pairs = properties.into_iter().flatten().map(|(key, _)| {
            let types = ValueTypes::of_property(&tool.schema, key);
            let value = match types.is_only_string() {
                true => "gemma_string",
                false => "gemma_value",
            };
            format!("{} {value}", self.text(&format!("{key}:")))
        });
        let pairs: Vec<String> = pairs.collect();
        let members = match pairs.is_empty() {
            true => String::new(),
            false => format!("(({0}) (\",\" ({0}))*)?", pairs.join(" | ")),
        };
        format!("{head} {members} {}", self.text("}<tool_call|>"))
    }

    /// Adds the rules that the calls use.
    fn add_shared(&self, rules: &mut Vec<String>) {
        rules.push("TEXT: /(.|\\n)+/".to_owned());
        rules.push("SPACE: /[ \\n]{1,8}/".to_owned());
        match self.family.grammar {
            CallGrammar::Tags(tags) => {
                let layout = if tags.has_line_breaks { "\n" } else { "" };
                let close = format!("{layout}{}", tags.after_value);
                rules.push(match self.special.contains_key(tags.after_value) {
                    true => format!("plain_value: TEXT? {}", self.text(&close)),
                    false => format!("plain_value[lazy]: /(.|\\n)*/ {}", Value::from(close)),
                });
            }
            CallGrammar::Gemma => {
                let quote = self.text("<|\"|>");
                if self.special.contains_key("<|\"|>") {
                    rules.push(format!("gemma_string: {quote} TEXT? {quote}"));
                } else {
                    rules.push(format!("gemma_text[lazy]: /(.|\\n)*/ {quote}"));
                    rules.push(format!("gemma_string: {quote} gemma_text"));
                }
                for rule in [
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
            CallGrammar::Json { .. } => {}
        }
    }

    /// Returns the grammar of a response whose messages have headers, as those of gpt-oss: reasoning,
    /// and one call.
    fn with_headers(&self, mut rules: Vec<String>) -> String {
        let analysis = self.text("<|channel|>analysis<|message|>");
        let end = self.text("<|end|><|start|>assistant");
        let header = self.text("<|channel|>commentary to=functions.");
        rules.push(format!("start: ({analysis} TEXT? {end})? {header} call"));
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

/// Bounds the white space of arguments.
fn with_whitespace(schema: &Value) -> Value {
    let mut map = schema.as_object().cloned().unwrap_or_default();
    let options = json!({ "whitespace_pattern": WHITESPACE });
    map.insert("x-guidance".to_owned(), options);
    Value::Object(map)
}

/// Returns the schema of a property with the definitions that it may refer to.
fn with_definitions(property: &Value, root: &Value) -> Value {
    let mut map: Map<String, Value> = property.as_object().cloned().unwrap_or_default();
    for key in ["$defs", "definitions"] {
        if let Some(definitions) = root.get(key) {
            map.entry(key).or_insert_with(|| definitions.clone());
        }
    }
    Value::Object(map)
}
