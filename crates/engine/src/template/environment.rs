//! Configures minijinja as `transformers` configures Jinja2: the same options, functions and
//! filters.

use std::error::Error as _;
use std::fmt;
use std::time::SystemTime;

use jiff::Zoned;
use jiff::fmt::strtime;
use minijinja::value::{Rest, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};

use crate::template::{json, methods};

/// Maximum steps of a template per conversation. A message takes about a hundred.
pub(crate) const MAX_STEPS: u64 = 5_000_000;

pub(crate) fn new() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = environment
        .syntax()
        .to_builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
        .expect("the default delimiters are valid");
    environment.set_syntax(syntax);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(methods::call);
    environment.add_filter("tojson", json::tojson);
    environment.add_function("raise_exception", raise_exception);
    // In Python everything with a length and items is a sequence, including strings and dicts.
    environment.add_test("sequence", |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined
        )
    });
    environment.add_test("iterable", |value: &Value| {
        !value.is_none() && value.try_iter().is_ok()
    });
    environment
}

/// The message with which a template refuses a conversation.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let refusal = Refusal(message.to_string());
    Err(Error::new(ErrorKind::InvalidOperation, "refused by the template").with_source(refusal))
}

/// Returns the message of `raise_exception`, if that is the error.
pub(crate) fn refusal(error: &Error) -> Option<String> {
    // Errors inside macros are wrapped once for each call.
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(Refusal(message)) = error.downcast_ref() {
            return Some(message.clone());
        }
        source = error.source();
    }
    None
}

/// Returns the function `strftime_now`, with `now` as the current time.
pub(crate) fn strftime(now: SystemTime) -> Value {
    Value::from_function(move |format: &str, _: Rest<Value>| {
        Zoned::try_from(now)
            .and_then(|now| strtime::format(format, &now))
            .map_err(|error| {
                Error::new(
                    ErrorKind::InvalidOperation,
                    format!("strftime_now: {error}"),
                )
            })
    })
}
