//! How long a model stays loaded after a request: `keep_alive` in Ollama's form, or `ttl`.

use std::time::Duration;

use serde_json::Value;
use transom_supervisor::KeepAlive;

use crate::error::ApiError;
use crate::json::{Fields, Located};

/// A longer time means: as long as there is enough memory.
const MAX_SECONDS: f64 = 365.0 * 24.0 * 3600.0;

/// The units of a time in text, in seconds.
const UNITS: [(&str, f64); 7] = [
    ("h", 3600.0),
    ("m", 60.0),
    ("s", 1.0),
    ("ms", 1e-3),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ns", 1e-9),
];

/// Takes `keep_alive`, a number of seconds or a text such as `5m`, and `ttl`, a number of seconds.
/// The first one wins. A negative `keep_alive` keeps the model as long as there is enough memory.
///
/// # Errors
/// A value is no time.
pub(crate) fn take(fields: &mut Fields) -> Result<Option<KeepAlive>, ApiError> {
    let seconds = fields.take("keep_alive").map(seconds).transpose()?;
    let ttl = fields.integer("ttl", 0..=i64::MAX)?;
    let seconds = seconds.or(ttl.map(|ttl| ttl as f64));
    Ok(seconds.map(keep_alive))
}

fn keep_alive(seconds: f64) -> KeepAlive {
    match (0.0..=MAX_SECONDS).contains(&seconds) {
        true => KeepAlive::Idle {
            time: Duration::from_secs_f64(seconds),
        },
        false => KeepAlive::Forever,
    }
}

fn seconds(located: Located) -> Result<f64, ApiError> {
    let seconds = match &located.value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => seconds_of(text),
        _ => None,
    };
    seconds.ok_or_else(|| {
        located.must_be("a number of seconds or a time such as \"5m\", or negative for no limit")
    })
}

/// Returns the seconds of a time in Go's form: `5m`, `1h30m`, `1.5s`, `-1s`, `0`.
fn seconds_of(text: &str) -> Option<f64> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (-1.0, unsigned),
        None => (1.0, text),
    };
    if unsigned == "0" {
        return Some(0.0);
    }
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut seconds = 0.0;
    let mut rest = unsigned;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !is_of_number(c))?);
        let (unit, after) = after.split_at(after.find(is_of_number).unwrap_or(after.len()));
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
        seconds += number.parse::<f64>().ok()? * unit;
        rest = after;
    }
    (!unsigned.is_empty()).then_some(sign * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: &Value) -> Result<Option<KeepAlive>, ApiError> {
        take(&mut Fields::parse(body.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn a_time_is_a_number_of_seconds_or_a_text_with_units() {
        let milliseconds = |n| {
            let time = Duration::from_millis(n);
            Some(KeepAlive::Idle { time })
        };
        for (body, expected) in [
            (json!({}), None),
            (json!({ "keep_alive": null }), None),
            (json!({ "ttl": 300 }), milliseconds(300_000)),
            (json!({ "keep_alive": 0, "ttl": 300 }), milliseconds(0)),
            (json!({ "keep_alive": "0" }), milliseconds(0)),
            (json!({ "keep_alive": "0s" }), milliseconds(0)),
            (json!({ "keep_alive": 1.5 }), milliseconds(1500)),
            (json!({ "keep_alive": "5m" }), milliseconds(300_000)),
            (json!({ "keep_alive": "1h30m" }), milliseconds(5_400_000)),
            (json!({ "keep_alive": "1.5s250ms" }), milliseconds(1750)),
            (json!({ "keep_alive": -1 }), Some(KeepAlive::Forever)),
            (json!({ "keep_alive": "-1m" }), Some(KeepAlive::Forever)),
            (json!({ "keep_alive": 1e300 }), Some(KeepAlive::Forever)),
            (json!({ "ttl": i64::MAX }), Some(KeepAlive::Forever)),
        ] {
            assert_eq!(read(&body), Ok(expected), "{body}");
        }
    }

    #[test]
    fn other_values_are_refused_by_name() {
        for value in ["", "-", "5", "m", "5x", "5 m", ".s", "1.2.3s", "5m1", "é"] {
            let error = read(&json!({ "keep_alive": value })).unwrap_err();
            assert_eq!(error.param.as_deref(), Some("keep_alive"), "{value:?}");
        }
        let error = read(&json!({ "keep_alive": true })).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("keep_alive"));
        for value in [json!(-1), json!("5m"), json!(1.5)] {
            let error = read(&json!({ "ttl": value })).unwrap_err();
            assert_eq!(error.param.as_deref(), Some("ttl"));
        }
    }
}
