//! A strict reader of request bodies.
//!
//! A route takes each field that it knows out of [`Fields`], checked, and so decides about each:
//! used, refused by name, or tolerated because it asks for nothing. `null` means that a field is not
//! given. What remains is unknown: it is noted in [`Ignored`], which the response names in a header.
//!
//! Rule: every error names the field with its path, such as `messages[0].content`. JSON that readers
//! understand in different ways (duplicate keys, lone surrogates, numbers that overflow, deep
//! nesting) is refused.

mod strict;

use std::ops::RangeInclusive;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::error::{ApiError, ErrorKind};
use crate::limits::{BODY_TIMEOUT, MAX_BODY_BYTES};

/// A value and its path in the body.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    pub(crate) path: String,
    pub(crate) value: Value,
    ignored: Ignored,
}

/// The fields of an object that no one has taken yet.
#[derive(Debug, Clone)]
pub(crate) struct Fields {
    /// Path of the object; empty for the body itself.
    path: String,
    map: Map<String, Value>,
    /// Where the fields of the whole body are noted that have no effect.
    pub(crate) ignored: Ignored,
}

/// The paths of the fields of a request that have no effect, for a header of its response. Clones share
/// them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ignored(Arc<Mutex<Vec<String>>>);

/// The body of a request, read and parsed.
impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let ignored = request.extensions().get::<Ignored>().cloned();
        let fields = Self::parse(&read(request.into_body()).await?)?;
        Ok(Self {
            ignored: ignored.unwrap_or_default(),
            ..fields
        })
    }
}

/// Reads a body within the limits of size and time.
async fn read(body: Body) -> Result<Bytes, ApiError> {
    let collected = timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect());
    let Ok(collected) = collected.await else {
        let (status, kind) = (StatusCode::REQUEST_TIMEOUT, ErrorKind::InvalidRequest);
        let message = "the body did not arrive in time; send the request again";
        return Err(ApiError::new(status, kind, message));
    };
    match collected {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(_) => Err(ApiError::bad_request("the body ended too early")),
    }
}

/// Returns the error for a body over the limit.
pub(crate) fn too_large() -> ApiError {
    let megabytes = MAX_BODY_BYTES >> 20;
    let message = format!("the body is larger than {megabytes} MB; send less text");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorKind::TooLarge, message)
}

impl Located {
    /// Returns the error that this value is wrong; `expected` says what it must be.
    pub(crate) fn must_be(&self, expected: &str) -> ApiError {
        let path = &self.path;
        ApiError::field(path, format!("`{path}` must be {expected}"))
    }

    /// Returns the text.
    pub(crate) fn text(self) -> Result<String, ApiError> {
        match self.value {
            Value::String(text) => Ok(text),
            _ => Err(self.must_be("a string")),
        }
    }

    /// Returns the truth value.
    pub(crate) fn flag(self) -> Result<bool, ApiError> {
        let flag = self.value.as_bool();
        flag.ok_or_else(|| self.must_be("true or false"))
    }

    /// Returns the number, if it is in `range`.
    pub(crate) fn number(self, range: RangeInclusive<f64>) -> Result<f64, ApiError> {
        let number = self.value.as_f64().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            self.must_be(&format!("a number from {least} to {most}"))
        })
    }

    /// Returns the whole number, if it is in `range`. `3.0` is a whole number.
    pub(crate) fn integer(self, range: RangeInclusive<i64>) -> Result<i64, ApiError> {
        let whole = |number: f64| {
            let is_exact = number.fract() == 0.0 && number.abs() < 9e15;
            is_exact.then_some(number as i64)
        };
        let number = self.value.as_i64();
        let number = number.or_else(|| self.value.as_f64().and_then(whole));
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| {
                let least = range.start();
                match *range.end() {
                    i64::MAX => self.must_be(&format!("a whole number of at least {least}")),
                    most => self.must_be(&format!("a whole number from {least} to {most}")),
                }
            })
    }

    /// Returns the elements, each with its path.
    pub(crate) fn list(self) -> Result<Vec<Self>, ApiError> {
        let Value::Array(values) = self.value else {
            return Err(self.must_be("an array"));
        };
        let located = |(index, value): (usize, Value)| Self {
            path: format!("{}[{index}]", self.path),
            value,
            ignored: self.ignored.clone(),
        };
        Ok(values.into_iter().enumerate().map(located).collect())
    }

    /// Takes the elements that match out of an array, each with its path. `null` is in their places.
    pub(crate) fn take_elements(&mut self, matches: impl Fn(&Value) -> bool) -> Vec<Self> {
        let elements = self.value.as_array_mut().into_iter().flatten().enumerate();
        let taken = elements.filter(|(_, value)| matches(value));
        let taken = taken.map(|(index, value)| Self {
            path: format!("{}[{index}]", self.path),
            value: value.take(),
            ignored: self.ignored.clone(),
        });
        taken.collect()
    }

    /// Returns the elements of an array of at most `most` of what `of` names. An array over the limit costs
    /// no memory for paths.
    pub(crate) fn list_up_to(self, most: usize, of: &str) -> Result<Vec<Self>, ApiError> {
        match &self.value {
            Value::Array(values) if values.len() > most => {
                Err(self.must_be(&format!("an array of at most {most} {of}")))
            }
            _ => self.list(),
        }
    }

    /// Returns the fields of the object.
    pub(crate) fn object(self) -> Result<Fields, ApiError> {
        match self.value {
            Value::Object(map) => Ok(Fields {
                path: self.path,
                map,
                ignored: self.ignored,
            }),
            _ => Err(self.must_be("an object")),
        }
    }

    /// Returns the texts of a string, or of an array of at most `most` strings.
    pub(crate) fn text_or_texts(self, most: usize) -> Result<Vec<String>, ApiError> {
        if self.value.is_string() {
            return Ok(vec![self.text()?]);
        }
        match &self.value {
            Value::Array(values) if values.len() <= most => {}
            _ => return Err(self.must_be(&format!("a string or an array of up to {most} strings"))),
        }
        self.list()?.into_iter().map(Self::text).collect()
    }

    /// Returns the value that the text stands for.
    pub(crate) fn choice<T: Copy>(self, choices: &[(&str, T)]) -> Result<T, ApiError> {
        let text = self.value.as_str();
        let chosen = choices.iter().find(|(name, _)| Some(*name) == text);
        chosen.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<String> = choices
                .iter()
                .map(|(name, _)| format!("`{name}`"))
                .collect();
            self.must_be(&names.join(" or "))
        })
    }
}

impl Fields {
    /// Parses a body.
    ///
    /// # Errors
    /// The body is not one JSON object, or readers could understand it in different ways.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        match strict::parse(body) {
            Ok(Value::Object(map)) => Ok(Self {
                path: String::new(),
                map,
                ignored: Ignored::default(),
            }),
            Ok(_) => Err(ApiError::bad_request("the body must be a JSON object")),
            Err(error) => Err(ApiError::bad_request(format!(
                "the body can't be read as JSON: {error}"
            ))),
        }
    }

    /// Returns the path of this object; empty for the body itself.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the path of a field of this object.
    pub(crate) fn path_of(&self, name: &str) -> String {
        match &*self.path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    /// Returns true if a field is given and not `null`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    /// Returns a field and does not take it. `null` and a missing field are `None`.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Takes a field. `null` and a missing field are `None`.
    pub(crate) fn take(&mut self, name: &str) -> Option<Located> {
        let value = self.map.shift_remove(name);
        let value = value.filter(|value| !value.is_null())?;
        Some(self.located(name, value))
    }

    /// Returns a value as that of a field.
    pub(crate) fn located(&self, name: &str, value: Value) -> Located {
        Located {
            path: self.path_of(name),
            value,
            ignored: self.ignored.clone(),
        }
    }

    /// Takes a field that must be given.
    pub(crate) fn required(&mut self, name: &str) -> Result<Located, ApiError> {
        self.take(name).ok_or_else(|| {
            let path = self.path_of(name);
            let message = format!("`{path}` is required");
            ApiError::field(path, message)
        })
    }

    /// Takes a text.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        self.take(name).map(Located::text).transpose()
    }

    /// Takes a truth value.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        self.take(name).map(Located::flag).transpose()
    }

    /// Takes a number in `range`.
    pub(crate) fn number(
        &mut self,
        name: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, ApiError> {
        let located = self.take(name);
        located.map(|located| located.number(range)).transpose()
    }

    /// Takes a whole number in `range`.
    pub(crate) fn integer(
        &mut self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        let located = self.take(name);
        located.map(|located| located.integer(range)).transpose()
    }

    /// Takes a count of at least `least`.
    pub(crate) fn count(&mut self, name: &str, least: i64) -> Result<Option<usize>, ApiError> {
        let count = self.integer(name, least..=i64::MAX)?;
        Ok(count.and_then(|count| usize::try_from(count).ok()))
    }

    /// Takes a text that stands for one of these values.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, ApiError> {
        let located = self.take(name);
        located.map(|located| located.choice(choices)).transpose()
    }

    /// Takes the fields of an object.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Self>, ApiError> {
        self.take(name).map(Located::object).transpose()
    }

    /// Takes a list.
    pub(crate) fn list(&mut self, name: &str) -> Result<Option<Vec<Located>>, ApiError> {
        self.take(name).map(Located::list).transpose()
    }

    /// Refuses a field by name, unless its value is one of `neutral`, which change nothing. Without
    /// such values: unless it is `false`, `0` or empty.
    pub(crate) fn refuse(&mut self, name: &str, neutral: &[Value]) -> Result<(), ApiError> {
        let Some(located) = self.take(name) else {
            return Ok(());
        };
        let is_neutral = match neutral {
            [] => is_empty(&located.value),
            neutral => neutral.contains(&located.value),
        };
        match is_neutral {
            true => Ok(()),
            false => Err(ApiError::unsupported(located.path)),
        }
    }

    /// Returns all fields with their names, for an object whose keys are data.
    pub(crate) fn into_entries(mut self) -> Vec<(String, Located)> {
        let entries = std::mem::take(&mut self.map).into_iter();
        let located = entries.map(|(name, value)| (name.clone(), self.located(&name, value)));
        located.collect()
    }

    /// Drops fields that are meant for other servers, and change no response.
    pub(crate) fn tolerate(&mut self, names: &[&str]) {
        for name in names {
            self.map.shift_remove(*name);
        }
    }

    /// Refuses the fields that nobody took, in an object without unknown fields.
    pub(crate) fn finish_known(self) -> Result<(), ApiError> {
        let mut names = self.map.iter().filter(|(_, value)| !value.is_null());
        match names.next() {
            Some((name, _)) => Err(ApiError::unsupported(self.path_of(name))),
            None => Ok(()),
        }
    }

    /// Notes the fields that nobody took.
    pub(crate) fn finish(self) {
        for (name, _) in self.map.iter().filter(|(_, value)| !value.is_null()) {
            self.ignored.add(&self.path_of(name));
        }
    }
}

impl Ignored {
    /// Adds a field that was understood, but has no effect.
    pub(crate) fn add(&self, path: &str) {
        self.0.lock().push(path.to_owned());
    }

    /// Returns the paths as the value of a header; `None` if there are none.
    pub(crate) fn header(&self) -> Option<String> {
        // Names come from the client, and a header is a short line of printable text.
        let is_plain = |name: &&String| {
            let mut bytes = name.bytes();
            name.len() <= 80 && bytes.all(|b| b.is_ascii_graphic() && b != b',')
        };
        let mut paths = self.0.lock();
        // There are more fields than tools, and only so many fit.
        paths.sort_by_key(|path| !path.starts_with("tools."));
        let names: Vec<String> = paths.iter().filter(is_plain).take(20).cloned().collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

#[cfg(test)]
mod tests;
