//! `tojson` as Python's `json.dumps` writes it.
//!
//! minijinja's own `tojson` escapes for HTML; models were trained on Python's text, so this one
//! equals Python's to the byte.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::control_tokens::{Marker, is_mark};
use super::methods::MAX_FILL;

/// Converts a JSON value to a template variable. Marks texts and keeps the order of keys.
pub(super) fn to_value(json: &serde_json::Value, marker: Marker<'_>) -> Value {
    match json {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(b) => Value::from(*b),
        serde_json::Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(n), _) => Value::from(n),
            (None, Some(n)) => Value::from(n),
            (None, None) => n.as_f64().map_or(Value::from(()), Value::from),
        },
        serde_json::Value::String(text) => Value::from(&*marker.text(text)),
        serde_json::Value::Array(items) => {
            items.iter().map(|item| to_value(item, marker)).collect()
        }
        serde_json::Value::Object(entries) => Value::from_pairs(
            entries
                .iter()
                .map(|(key, value)| (marker.text(key), to_value(value, marker))),
        ),
    }
}

/// Returns the JSON text of a value, as `json.dumps(value, ensure_ascii=False)` writes it.
pub(super) fn dumps(value: &Value) -> Result<String, Error> {
    let no_options = std::iter::empty::<(&str, Value)>();
    tojson(value, None, None, no_options.collect())
}

/// The `tojson` filter of `transformers`: `json.dumps`, by default with `ensure_ascii=False`.
pub(crate) fn tojson(
    value: &Value,
    ensure_ascii: Option<bool>,
    indent: Option<Value>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let ensure_ascii: Option<bool> = ensure_ascii.or(kwargs.get("ensure_ascii")?);
    let indent: Option<Value> = indent.or(kwargs.get("indent")?);
    let separators: Option<Value> = kwargs.get("separators")?;
    let sort_keys: Option<bool> = kwargs.get("sort_keys")?;
    kwargs.assert_all_used()?;

    let indent = indent.map(indent_text).transpose()?.flatten();
    let default_item = if indent.is_some() { "," } else { ", " };
    let (item_separator, key_separator) = match separators.filter(|pair| !pair.is_none()) {
        Some(pair) => (
            pair.get_item_by_index(0)?.to_string(),
            pair.get_item_by_index(1)?.to_string(),
        ),
        None => (default_item.to_owned(), ": ".to_owned()),
    };
    let mut writer = JsonWriter {
        output: String::new(),
        item_separator,
        key_separator,
        indent,
        ensure_ascii: ensure_ascii.unwrap_or(false),
        sort_keys: sort_keys.unwrap_or(false),
    };
    writer.value(value, 0)?;
    Ok(writer.output)
}

/// `indent` is a number of spaces or the text itself.
fn indent_text(indent: Value) -> Result<Option<String>, Error> {
    Ok(match indent.kind() {
        ValueKind::None => None,
        ValueKind::String => Some(indent.to_string()),
        _ => match usize::try_from(indent)? {
            n_spaces @ 0..=MAX_FILL => Some(" ".repeat(n_spaces)),
            n_spaces => {
                let what = format!("tojson: an indent of {n_spaces}");
                return Err(Error::new(ErrorKind::InvalidOperation, what));
            }
        },
    })
}

struct JsonWriter {
    output: String,
    item_separator: String,
    key_separator: String,
    indent: Option<String>,
    ensure_ascii: bool,
    sort_keys: bool,
}

impl JsonWriter {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => self.output.push_str("null"),
            ValueKind::Bool => self
                .output
                .push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.output.push_str(&number(value)),
            ValueKind::String => self.text(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.container(['[', ']'], depth, &items, |writer, item| {
                    writer.value(item, depth + 1)
                })?;
            }
            ValueKind::Map => self.map(value, depth)?,
            kind => {
                return Err(Error::new(
                    ErrorKind::BadSerialization,
                    format!("tojson: {kind} has no JSON form"),
                ));
            }
        }
        Ok(())
    }

    fn map(&mut self, map: &Value, depth: usize) -> Result<(), Error> {
        let mut entries = Vec::new();
        for key in map.try_iter()? {
            let text = match key.kind() {
                ValueKind::String => key.to_string(),
                ValueKind::None => "null".to_owned(),
                ValueKind::Bool => key.to_string().to_lowercase(),
                _ => number(&key),
            };
            entries.push((text, map.get_item(&key)?));
        }
        if self.sort_keys {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
        }
        self.container(['{', '}'], depth, &entries, |writer, (key, value)| {
            writer.text(key);
            let separator = writer.key_separator.clone();
            writer.output.push_str(&separator);
            writer.value(value, depth + 1)
        })
    }

    fn container<T>(
        &mut self,
        brackets: [char; 2],
        depth: usize,
        items: &[T],
        write: impl Fn(&mut Self, &T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.output.push(brackets[0]);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                let separator = self.item_separator.clone();
                self.output.push_str(&separator);
            }
            self.line_break(depth + 1);
            write(self, item)?;
        }
        if !items.is_empty() {
            self.line_break(depth);
        }
        self.output.push(brackets[1]);
        Ok(())
    }

    fn line_break(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.output.push('\n');
            self.output.push_str(&indent.repeat(depth));
        }
    }

    fn text(&mut self, text: &str) {
        self.output.push('"');
        for c in text.chars() {
            match c {
                '"' => self.output.push_str("\\\""),
                '\\' => self.output.push_str("\\\\"),
                '\n' => self.output.push_str("\\n"),
                '\r' => self.output.push_str("\\r"),
                '\t' => self.output.push_str("\\t"),
                '\u{8}' => self.output.push_str("\\b"),
                '\u{c}' => self.output.push_str("\\f"),
                // A mark is not part of the text.
                c if is_mark(c) => self.output.push(c),
                c if c < ' ' || (self.ensure_ascii && !(' '..='~').contains(&c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.output.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.output.push(c),
            }
        }
        self.output.push('"');
    }
}

/// Writes a number as Python does: the shortest text that reads back as the same value, with an
/// exponent outside of 1e-4 to 1e16.
fn number(value: &Value) -> String {
    let float = match f64::try_from(value.clone()) {
        Ok(float) if !value.is_integer() => float,
        _ => return value.to_string(),
    };
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        let sign = if float < 0.0 { "-" } else { "" };
        return format!("{sign}Infinity");
    }
    let text = format!("{float:?}");
    // Rust's exponents have neither a plus sign nor a leading zero.
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}
