//! The allowed values of each setting, both for changes and for reading stored values.
//!
//! Rule: every field of [`super::Settings`] and of [`super::ConversationSettings`] is here; a test
//! compares them. The ranges are those in the documentation of the fields.

use serde_json::{Map, Value};

use crate::setting_issue::SettingIssue;

/// The allowed values of a field. `null` is always allowed and means the default.
enum Kind {
    Bool,
    /// At most so many characters.
    Text(usize),
    /// One word that does not start with a slash.
    Name,
    OneOf(&'static [&'static str]),
    Integer(u64, u64),
    /// From, to.
    Number(f64, f64),
    /// Above the first, up to the second.
    NumberAbove(f64, f64),
    List(&'static Kind),
    /// An object with values of one kind under any names.
    MapOf(&'static Kind),
    Group(&'static [(&'static str, Kind)]),
}

use Kind::{Bool, Group, Integer, List, MapOf, Name, Number, NumberAbove, OneOf, Text};

/// The largest integer that JavaScript represents exactly.
const MAX_EXACT: u64 = (1 << 53) - 1;
const MAX_U32: u64 = u32::MAX as u64;
/// A port that needs no administrator.
const PORT: Kind = Integer(1024, 65_535);
/// A path or a name.
const LINE: Kind = Text(4096);
/// A long text, such as instructions.
const PROSE: Kind = Text(1_000_000);

const SETTINGS: Kind = Group(&[
    (
        "general",
        Group(&[
            ("hotkey", Text(100)),
            ("launch_at_login", Bool),
            ("show_in_dock", Bool),
            ("chat_in_window", Bool),
            ("pin_chat", Bool),
            ("pin_prompt", Bool),
            ("zoom", Integer(50, 300)),
            ("appearance", OneOf(&["system", "light", "dark"])),
            ("language", Text(35)),
            ("routing_off", Bool),
            ("check_for_updates", Bool),
            ("was_welcomed", Bool),
        ]),
    ),
    (
        "behavior",
        Group(&[
            ("idle_unload_seconds", Integer(0, MAX_U32)),
            ("keep_loaded", Bool),
            ("memory_budget_bytes", Integer(0, MAX_EXACT)),
        ]),
    ),
    (
        "local_api",
        Group(&[
            ("is_on", Bool),
            ("port", PORT),
            ("ollama_port", PORT),
            ("allowed_origins", List(&Text(300))),
        ]),
    ),
    ("model", LINE),
    ("models", MapOf(&MODEL)),
    ("added_models", List(&LINE)),
    ("recent_models", List(&LINE)),
    ("prompts", List(&Group(&[("name", Name), ("text", PROSE)]))),
    ("assistants", List(&ASSISTANT)),
    ("routes", MapOf(&ROUTE)),
    ("declined_offers", List(&Text(100))),
]);

const ASSISTANT: Kind = Group(&[("name", Text(100)), ("settings", CONVERSATION)]);

const ROUTE: Kind = Group(&[
    ("is_off", Bool),
    ("instructions", PROSE),
    ("temperature", Number(0.0, 2.0)),
    ("thinking", OneOf(&["on", "off", "model"])),
    // The engine reserves no more than a quarter.
    ("reserve", Number(0.0, 0.25)),
    ("history", Number(0.0, 1.0)),
    ("attached", Number(0.1, 1.0)),
]);

const CONVERSATION: Kind = Group(&[
    ("model", LINE),
    ("instructions", PROSE),
    ("temperature", Number(0.0, 2.0)),
    ("context_length", Integer(1, MAX_U32)),
    ("thinking", Bool),
    ("overflow", OneOf(&["drop_oldest", "stop", "summarize"])),
]);

const MODEL: Kind = Group(&[
    ("context_length", Integer(1, MAX_U32)),
    ("kv_cache", OneOf(&["automatic", "full", "small"])),
    ("max_tokens", Integer(1, MAX_U32)),
    ("temperature", Number(0.0, 2.0)),
    ("top_p", NumberAbove(0.0, 1.0)),
    ("top_k", Integer(0, MAX_U32)),
    ("min_p", Number(0.0, 1.0)),
    ("repetition_penalty", Number(0.01, 10.0)),
    ("seed", Integer(0, MAX_U32)),
    ("system_prompt", PROSE),
    ("thinking", Bool),
]);

/// Returns the known fields with valid values, and the issues of the others.
pub(crate) fn valid(value: &Value) -> (Value, Vec<SettingIssue>) {
    valid_object(&SETTINGS, value, "settings")
}

/// As [`valid`], for the settings of one conversation.
pub(crate) fn valid_conversation(value: &Value) -> (Value, Vec<SettingIssue>) {
    valid_object(&CONVERSATION, value, "conversation")
}

fn valid_object(kind: &Kind, value: &Value, path: &str) -> (Value, Vec<SettingIssue>) {
    let mut issues = Vec::new();
    let valid = kind.valid(value, path, &mut issues);
    (valid.unwrap_or_else(|| Value::Object(Map::new())), issues)
}

pub(crate) fn issue(field: &str, value: &str, allowed: &str) -> SettingIssue {
    const MAX_CHARS: usize = 80;
    let mut shown: String = value.chars().take(MAX_CHARS).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    SettingIssue {
        field: field.to_string(),
        value: shown,
        allowed: allowed.to_string(),
    }
}

impl Kind {
    /// Returns the valid part of the value; `None` if there is none.
    fn valid(&self, value: &Value, path: &str, issues: &mut Vec<SettingIssue>) -> Option<Value> {
        if value.is_null() {
            return None;
        }
        match (self, value) {
            (Group(fields), Value::Object(object)) => {
                let valid = fields.iter().filter_map(|(name, kind)| {
                    let path = field_path(path, name);
                    let value = kind.valid(object.get(*name)?, &path, issues)?;
                    Some(((*name).to_string(), value))
                });
                Some(Value::Object(valid.collect()))
            }
            (MapOf(kind), Value::Object(object)) => {
                let valid = object.iter().filter_map(|(name, value)| {
                    let value = kind.valid(value, &field_path(path, name), issues)?;
                    Some((name.clone(), value))
                });
                Some(Value::Object(valid.collect()))
            }
            (List(kind), Value::Array(values)) => {
                let valid = values.iter().enumerate().filter_map(|(index, value)| {
                    kind.valid(value, &format!("{path}[{index}]"), issues)
                });
                Some(Value::Array(valid.collect()))
            }
            _ if self.accepts(value) => Some(value.clone()),
            _ => {
                issues.push(issue(path, &value.to_string(), &self.allowed()));
                None
            }
        }
    }

    fn accepts(&self, value: &Value) -> bool {
        match self {
            Bool => value.is_boolean(),
            Text(max) => value
                .as_str()
                .is_some_and(|text| text.chars().count() <= *max),
            Name => value.as_str().is_some_and(|name| {
                !name.is_empty()
                    && name.len() <= 100
                    && !name.starts_with('/')
                    && !name.contains(char::is_whitespace)
            }),
            OneOf(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Integer(min, max) => value.as_u64().is_some_and(|n| (*min..=*max).contains(&n)),
            Number(min, max) => value.as_f64().is_some_and(|n| (*min..=*max).contains(&n)),
            NumberAbove(min, max) => value.as_f64().is_some_and(|n| n > *min && n <= *max),
            List(_) | MapOf(_) | Group(_) => false,
        }
    }

    fn allowed(&self) -> String {
        match self {
            Bool => "true or false".to_string(),
            Text(max) => format!("text of at most {max} characters"),
            Name => "one word of at most 100 bytes, without a slash before it".to_string(),
            OneOf(words) => format!("one of {}", words.join(", ")),
            Integer(min, max) => format!("whole numbers from {min} to {max}"),
            Number(min, max) => format!("numbers from {min} to {max}"),
            NumberAbove(min, max) => format!("numbers above {min}, to {max}"),
            List(_) => "a list".to_string(),
            MapOf(_) | Group(_) => "an object".to_string(),
        }
    }
}

fn field_path(path: &str, name: &str) -> String {
    let is_plain = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    match (path, is_plain && !name.is_empty()) {
        ("settings", true) => name.to_string(),
        (_, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{name:?}]"),
    }
}
