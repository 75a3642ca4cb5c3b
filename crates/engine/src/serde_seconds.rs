//! Serializes a `Duration` as a number of seconds.
//!
//! For `#[serde(rename = "took_seconds", with = "transom_engine::serde_seconds")]`, and
//! `serde_seconds::option` for an `Option<Duration>`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de};

/// Writes a number.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// Reads a number.
///
/// # Errors
/// For numbers that are no duration: negative, too large, not a number.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    duration(f64::deserialize(from)?)
}

fn duration<E: de::Error>(seconds: f64) -> Result<Duration, E> {
    Duration::try_from_secs_f64(seconds).map_err(E::custom)
}

/// The same for an `Option<Duration>`.
pub mod option {
    use super::*;

    /// Writes a number or null.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.serialize_some(&time.as_secs_f64()),
            None => to.serialize_none(),
        }
    }

    /// Reads a number or null.
    ///
    /// # Errors
    /// Those of [`super::deserialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(from)?;
        seconds.map(duration).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Times {
        #[serde(rename = "first_seconds", with = "super")]
        first: Duration,
        #[serde(rename = "second_seconds", with = "super::option")]
        second: Option<Duration>,
    }

    #[test]
    fn durations_round_trip_as_numbers() {
        for second in [None, Some(Duration::from_millis(1_500))] {
            let times = Times {
                first: Duration::new(3, 123_456_789),
                second,
            };
            let json = serde_json::to_value(&times).unwrap();
            assert_eq!(json["second_seconds"].as_f64(), second.map(|_| 1.5));
            assert_eq!(serde_json::from_value::<Times>(json).unwrap(), times);
        }
    }

    #[test]
    fn numbers_that_are_not_durations_are_refused() {
        for text in [
            r#"{"first_seconds":-1,"second_seconds":null}"#,
            r#"{"first_seconds":1,"second_seconds":1e300}"#,
        ] {
            assert!(serde_json::from_str::<Times>(text).is_err(), "{text}");
        }
    }
}
