//! Compares the messages between processes with the recorded ones of their protocol version.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Set this to record the shapes of a new protocol version.
const RECORD: &str = "TRANSOM_RECORD_SHAPES";

/// Returns the shape of `message`: its JSON with all numbers and booleans replaced. Asserts that
/// the message round-trips.
#[track_caller]
pub fn shape<T>(message: &T) -> Value
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let value = serde_json::to_value(message).expect("a message is JSON");
    let read: T = serde_json::from_value(value.clone()).expect("it is read back");
    assert_eq!(read, *message);
    without_figures(value)
}

fn without_figures(value: Value) -> Value {
    match value {
        Value::Number(_) => json!(0),
        Value::Bool(_) => json!(false),
        Value::Array(values) => values.into_iter().map(without_figures).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let fields = fields.map(|(name, value)| (name, without_figures(value)));
            Value::Object(fields.collect())
        }
        value @ (Value::Null | Value::String(_)) => value,
    }
}

/// Checks that messages have the shapes that `file` has for this protocol version. Records shapes
/// only for a version that `file` does not have yet.
///
/// # Panics
/// If they differ, with what to do.
#[track_caller]
pub fn check(file: &Path, protocol: u32, shapes: &[Value]) {
    let text = fs::read_to_string(file).unwrap_or_default();
    let known: Value = serde_json::from_str(&text).unwrap_or_default();
    let found = json!({ "protocol": protocol, "messages": shapes });
    if known["protocol"] == found["protocol"] {
        let known = known["messages"].as_array().expect("a list of messages");
        for (known, found) in known.iter().zip(shapes) {
            assert_eq!(
                known, found,
                "protocol {protocol} has another shape; raise its number"
            );
        }
        assert_eq!(known.len(), shapes.len(), "raise the protocol's number");
    } else if std::env::var_os(RECORD).is_some() {
        // One line per message, so that a diff shows which one changed.
        let lines: Vec<String> = shapes.iter().map(Value::to_string).collect();
        let lines = lines.join(",\n");
        let text = format!("{{\"protocol\":{protocol},\"messages\":[\n{lines}\n]}}\n");
        fs::write(file, text).expect("it can be written");
    } else {
        panic!("protocol {protocol} is new: record its shapes by running this with {RECORD}=1");
    }
}
