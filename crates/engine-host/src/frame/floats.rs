//! Vectors of numbers as bytes of a frame: four little-endian bytes for each `f32`, after the JSON.
//!
//! For `#[serde(with = "transom_engine_host::frame::floats")]` on a `Vec<f32>`. In a frame, the JSON
//! only has the number of values. Anywhere else, it has the values themselves.
//!
//! A message is serialized or parsed in one call on one thread, so the bytes of the frame wait for it
//! in a variable of the thread.

use std::cell::RefCell;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const VALUE_BYTES: usize = 4;

thread_local! {
    /// The values of the frame that this thread writes or reads; `None` between frames.
    static BYTES: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// How the JSON has a vector.
#[derive(Deserialize)]
#[serde(untagged)]
enum Field {
    /// The values are bytes of the frame; this is their number.
    InFrame(usize),
    InJson(Vec<f32>),
}

/// Runs `write`, which serializes a message, and returns its result and the bytes of all vectors.
pub(super) fn collect<T>(write: impl FnOnce() -> T) -> (T, Vec<u8>) {
    BYTES.set(Some(Vec::new()));
    let written = write();
    (written, BYTES.take().unwrap_or_default())
}

/// Runs `read`, which parses a message whose vectors have these bytes. A message of an unknown kind
/// leaves them.
pub(super) fn supply<T>(bytes: &[u8], read: impl FnOnce() -> T) -> T {
    BYTES.set(Some(bytes.to_vec()));
    let message = read();
    BYTES.set(None);
    message
}

/// Writes a vector.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(values: &[f32], to: S) -> Result<S::Ok, S::Error> {
    let is_in_frame = BYTES.with_borrow_mut(|bytes| match bytes {
        Some(bytes) => {
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            true
        }
        None => false,
    });
    match is_in_frame {
        true => values.len().serialize(to),
        false => values.serialize(to),
    }
}

/// Reads a vector.
///
/// # Errors
/// If the frame has fewer bytes than the JSON says.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f32>, D::Error> {
    let n_values = match Field::deserialize(from)? {
        Field::InJson(values) => return Ok(values),
        Field::InFrame(n_values) => n_values,
    };
    let of_vector = BYTES.with_borrow_mut(|bytes| {
        let bytes = bytes.as_mut()?;
        let n_bytes = n_values.checked_mul(VALUE_BYTES)?;
        (n_bytes <= bytes.len()).then(|| bytes.drain(..n_bytes).collect::<Vec<u8>>())
    });
    let of_vector = of_vector.ok_or_else(|| {
        D::Error::custom(format!("the bytes of a vector of {n_values} are missing"))
    })?;
    let (values, _) = of_vector.as_chunks::<VALUE_BYTES>();
    Ok(values.iter().copied().map(f32::from_le_bytes).collect())
}
