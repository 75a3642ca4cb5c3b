//! Durations as seconds, the form that programs in every language expect.
//!
//! For `#[serde(rename = "took_seconds", with = "transom_engine::seconds")]`, and
//! `seconds::option` for durations that may be missing.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de};

/// Writes a number.
///
/// # Errors
/// The serialiser's.
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

/// The same for a duration that may be missing.
pub mod option {
    use super::*;

    /// Writes a number or nothing.
    ///
    /// # Errors
    /// The serialiser's.
    pub fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.serialize_some(&time.as_secs_f64()),
            None => to.serialize_none(),
        }
    }

    /// Reads a number or nothing.
    ///
    /// # Errors
    /// As [`super::deserialize`].
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
    struct Waits {
        #[serde(rename = "first_seconds", with = "super")]
        first: Duration,
        #[serde(rename = "second_seconds", with = "super::option")]
        second: Option<Duration>,
    }

    #[test]
    fn numbers_go_out_and_come_back() {
        for second in [None, Some(Duration::from_millis(1_500))] {
            let waits = Waits {
                first: Duration::new(3, 123_456_789),
                second,
            };
            let json = serde_json::to_value(&waits).unwrap();
            assert_eq!(json["second_seconds"].as_f64(), second.map(|_| 1.5));
            assert_eq!(serde_json::from_value::<Waits>(json).unwrap(), waits);
        }
    }

    #[test]
    fn numbers_that_are_no_duration_are_refused() {
        for text in [
            r#"{"first_seconds":-1,"second_seconds":null}"#,
            r#"{"first_seconds":1,"second_seconds":1e300}"#,
        ] {
            assert!(serde_json::from_str::<Waits>(text).is_err(), "{text}");
        }
    }
}
