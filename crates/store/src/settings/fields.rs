//! What each setting may be: one description for refusing a change and for reading what is stored.
//!
//! Rule: every field of [`super::Settings`] is here; a test compares them. The ranges are those that
//! the fields' own documentation promises.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A value that a setting cannot have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[error("the setting {field} cannot be {value}: it takes {allowed}")]
pub struct SettingIssue {
    /// Its path, such as `general.hotkey` or `models["/a.gguf"].temperature`.
    pub field: String,
    /// The value as JSON, shortened.
    pub value: String,
    /// What it may be.
    pub allowed: String,
}

/// What a value may be. `null` stands for the default everywhere.
enum Kind {
    Flag,
    /// At most so many characters.
    Text(usize),
    /// One word that no slash begins.
    Name,
    OneOf(&'static [&'static str]),
    Whole(u64, u64),
    /// From, to.
    Number(f64, f64),
    /// Above the first, to the second.
    NumberAbove(f64, f64),
    List(&'static Kind),
    /// Named things of one kind.
    Named(&'static Kind),
    Group(&'static [(&'static str, Kind)]),
}

use Kind::{Flag, Group, List, Name, Named, Number, NumberAbove, OneOf, Text, Whole};

/// The largest whole number that JavaScript keeps exactly.
const MAX_EXACT: u64 = (1 << 53) - 1;
const MAX_U32: u64 = u32::MAX as u64;
/// A path, a name.
const LINE: Kind = Text(4096);
/// A page of instructions, with much room.
const PROSE: Kind = Text(1_000_000);

const SETTINGS: Kind = Group(&[
    (
        "general",
        Group(&[
            ("hotkey", Text(100)),
            ("launch_at_login", Flag),
            ("show_in_dock", Flag),
            ("pin_chat", Flag),
            ("appearance", OneOf(&["system", "light", "dark"])),
            ("language", Text(35)),
            ("was_welcomed", Flag),
        ]),
    ),
    (
        "behaviour",
        Group(&[
            ("idle_unload_seconds", Whole(0, MAX_U32)),
            ("keep_loaded", Flag),
            ("memory_budget_bytes", Whole(0, MAX_EXACT)),
        ]),
    ),
    ("model", LINE),
    ("models", Named(&MODEL)),
    ("added_models", List(&LINE)),
    ("recent_models", List(&LINE)),
    ("prompts", List(&Group(&[("name", Name), ("text", PROSE)]))),
]);

const MODEL: Kind = Group(&[
    ("context_length", Whole(1, MAX_U32)),
    ("kv_cache", OneOf(&["automatic", "full", "small"])),
    ("max_tokens", Whole(1, MAX_U32)),
    ("temperature", Number(0.0, 2.0)),
    ("top_p", NumberAbove(0.0, 1.0)),
    ("top_k", Whole(0, MAX_U32)),
    ("min_p", Number(0.0, 1.0)),
    ("repetition_penalty", NumberAbove(0.0, 10.0)),
    ("seed", Whole(0, MAX_U32)),
    ("system_prompt", PROSE),
    ("thinking", Flag),
]);

/// The known fields of `value` that are well, and what is wrong with the others.
pub(crate) fn sound(value: &Value) -> (Value, Vec<SettingIssue>) {
    let mut issues = Vec::new();
    let sound = SETTINGS.sound(value, "settings", &mut issues);
    (sound.unwrap_or_else(|| Value::Object(Map::new())), issues)
}

/// A value that cannot be at a path.
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
    /// The part of the value that is well; `None` where nothing is left of it.
    fn sound(&self, value: &Value, path: &str, issues: &mut Vec<SettingIssue>) -> Option<Value> {
        if value.is_null() {
            return None;
        }
        match (self, value) {
            (Group(fields), Value::Object(object)) => {
                let sound = fields.iter().filter_map(|(name, kind)| {
                    let path = below(path, name);
                    let value = kind.sound(object.get(*name)?, &path, issues)?;
                    Some(((*name).to_string(), value))
                });
                Some(Value::Object(sound.collect()))
            }
            (Named(kind), Value::Object(object)) => {
                let sound = object.iter().filter_map(|(name, value)| {
                    let value = kind.sound(value, &below(path, name), issues)?;
                    Some((name.clone(), value))
                });
                Some(Value::Object(sound.collect()))
            }
            (List(kind), Value::Array(values)) => {
                let sound = values.iter().enumerate().filter_map(|(index, value)| {
                    kind.sound(value, &format!("{path}[{index}]"), issues)
                });
                Some(Value::Array(sound.collect()))
            }
            _ if self.takes(value) => Some(value.clone()),
            _ => {
                issues.push(issue(path, &value.to_string(), &self.allowed()));
                None
            }
        }
    }

    fn takes(&self, value: &Value) -> bool {
        match self {
            Flag => value.is_boolean(),
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
            Whole(min, max) => value.as_u64().is_some_and(|n| (*min..=*max).contains(&n)),
            Number(min, max) => value.as_f64().is_some_and(|n| (*min..=*max).contains(&n)),
            NumberAbove(min, max) => value.as_f64().is_some_and(|n| n > *min && n <= *max),
            List(_) | Named(_) | Group(_) => false,
        }
    }

    fn allowed(&self) -> String {
        match self {
            Flag => "true or false".to_string(),
            Text(max) => format!("text of at most {max} characters"),
            Name => "one word of at most 100 bytes, without a slash before it".to_string(),
            OneOf(words) => format!("one of {}", words.join(", ")),
            Whole(min, max) => format!("whole numbers from {min} to {max}"),
            Number(min, max) => format!("numbers from {min} to {max}"),
            NumberAbove(min, max) => format!("numbers above {min}, to {max}"),
            List(_) => "a list".to_string(),
            Named(_) | Group(_) => "an object".to_string(),
        }
    }
}

/// The path of a field of an object.
fn below(path: &str, name: &str) -> String {
    let is_plain = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    match (path, is_plain && !name.is_empty()) {
        ("settings", true) => name.to_string(),
        (_, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{name:?}]"),
    }
}
