//! Writes the recommended sampling parameters of `generation_config.json` under the keys that
//! llama.cpp reads.

use std::path::Path;

use serde_json::Value;

use super::unsupported;
use crate::file_error::FileError;
use crate::safetensors::read_json;
use crate::test_support::GgufWriter;

/// Maximum size of the file; published ones have a few hundred bytes.
const MAX_BYTES: u64 = 1 << 16;

const NUMBERS: [(&str, &str); 4] = [
    ("temperature", "temp"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("repetition_penalty", "penalty_repeat"),
];

/// Writes the recommended sampling parameters. Many folders have no such file.
///
/// # Errors
/// [`FileError`] if the file can't be read, or a parameter is not a number.
pub(super) fn write(folder: &Path, to: &mut GgufWriter) -> Result<(), FileError> {
    let path = folder.join("generation_config.json");
    if !path.exists() {
        return Ok(());
    }
    let json: Value = read_json(&path, MAX_BYTES)?;
    let value = |key: &str| json.get(key).filter(|value| !value.is_null());
    let unsupported = |key, value: &Value| unsupported(&path, key, value.to_string());
    let is_greedy = value("do_sample").and_then(Value::as_bool) == Some(false);
    if is_greedy {
        to.f32("general.sampling.temp", 0.0);
    }
    for (key, name) in NUMBERS {
        let Some(value) = value(key).filter(|_| !(is_greedy && name == "temp")) else {
            continue;
        };
        let number = value.as_f64().ok_or_else(|| unsupported(key, value))?;
        to.f32(&format!("general.sampling.{name}"), number as f32);
    }
    if let Some(value) = value("top_k") {
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let number = number.ok_or_else(|| unsupported("top_k", value))?;
        to.u32("general.sampling.top_k", number);
    }
    Ok(())
}
