//! Parses JSON that every reader understands in the same way.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Most values of a text, with those inside of others. A value takes up to fifty times the memory of its
/// text.
pub(super) const MAX_VALUES: usize = 1 << 19;

/// Parses `text`, which must be one value.
///
/// # Errors
/// The text is not JSON or not UTF-8, an object has a key twice, a string has a lone surrogate, a
/// number is infinite, values are nested more than 128 levels deep, or there are more than [`MAX_VALUES`].
pub(super) fn parse(text: &[u8]) -> Result<Value, serde_json::Error> {
    let n_values = Cell::new(0);
    let mut from = serde_json::Deserializer::from_slice(text);
    let value = Strict(&n_values).deserialize(&mut from)?;
    from.end()?;
    Ok(value)
}

/// Reads a value, and counts it.
#[derive(Clone, Copy)]
struct Strict<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        self.0.set(self.0.get() + 1);
        if self.0.get() > MAX_VALUES {
            let message = format!("it has more than {MAX_VALUES} values; send fewer");
            return Err(D::Error::custom(message));
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self)?;
            if map.contains_key(&key) {
                // The key is the client's text and may be long.
                let key: String = key.chars().take(40).collect();
                return Err(A::Error::custom(format!("the key {key:?} is there twice")));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
