//! Methods of Python's strings, lists and dicts that templates call.
//!
//! Most are in minijinja-contrib; the missing ones are here. Methods that change their object do
//! not exist, as in the sandbox of `transformers`.

use minijinja::value::{Tuple, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

/// Maximum width of `zfill` and of an indent.
pub(super) const MAX_FILL: usize = 1000;

pub(crate) fn call(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let result = match (value.kind(), value.as_str()) {
        (ValueKind::String, Some(text)) => string_method(text, method, args)?,
        (ValueKind::Seq, _) => list_method(value, method, args)?,
        (ValueKind::Map, _) if method == "copy" => {
            let () = from_args(args)?;
            Some(value.clone())
        }
        _ => None,
    };
    match result {
        Some(result) => Ok(result),
        None => pycompat::unknown_method_callback(state, value, method, args),
    }
}

fn string_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            let parts = match text.split_once(separator) {
                Some((before, after)) => [before, separator, after],
                None => [text, "", ""],
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let parts = match text.rsplit_once(separator) {
                Some((before, after)) => [before, separator, after],
                None => ["", "", text],
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "rsplit" => {
            let (separator, n_splits): (&str, Option<i64>) = from_args(args)?;
            rsplit(text, separator, n_splits)?
        }
        "index" => {
            let (part,): (&str,) = from_args(args)?;
            let at = text
                .find(part)
                .ok_or_else(|| invalid("substring not found"))?;
            Value::from(text[..at].chars().count())
        }
        "casefold" => {
            let () = from_args(args)?;
            Value::from(text.to_lowercase())
        }
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            if width > MAX_FILL {
                return Err(invalid("zfill is too wide"));
            }
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['-', '+'])));
            let n_zeros = width.saturating_sub(text.chars().count());
            Value::from(format!("{sign}{}{digits}", "0".repeat(n_zeros)))
        }
        _ => return Ok(None),
    }))
}

fn rsplit(text: &str, separator: &str, n_splits: Option<i64>) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(invalid("empty separator"));
    }
    let n_parts = n_splits
        .and_then(|n| usize::try_from(n).ok())
        .map_or(usize::MAX, |n| n.saturating_add(1));
    let mut parts: Vec<Value> = text.rsplitn(n_parts, separator).map(Value::from).collect();
    parts.reverse();
    Ok(Value::from(parts))
}

fn list_method(list: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "index" => {
            let (item,): (&Value,) = from_args(args)?;
            let at = list
                .try_iter()?
                .position(|candidate| candidate == *item)
                .ok_or_else(|| invalid("value is not in the list"))?;
            Value::from(at)
        }
        "copy" => {
            let () = from_args(args)?;
            list.clone()
        }
        _ => return Ok(None),
    }))
}

fn invalid(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}
