//! Reads the JSON and text files of a model folder with limits.
//!
//! Rule: these files are not trusted. A small file can describe millions of values, and a [`Value`]
//! takes a hundred times the bytes of its text. So only files with few values become a [`Value`];
//! of all others only the required fields are kept.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::MAX_WEIGHT_FILES;
use crate::file_error::{FaultCode, FileError};

/// Maximum size of `config.json`; published ones have a few kilobytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
const MAX_CONFIG_VALUES: usize = 1 << 16;
/// Maximum size of `tokenizer_config.json`, which lists every added token.
const MAX_TOKENIZER_CONFIG_BYTES: u64 = 16 << 20;
/// Maximum size of `model.safetensors.index.json`, which names every tensor.
const MAX_INDEX_BYTES: u64 = 32 << 20;
const MAX_TEMPLATE_BYTES: u64 = 1 << 20;

/// Reads a file of at most `limit` bytes as JSON. The type `T` decides how much memory that takes.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path, limit: u64) -> Result<T, FileError> {
    let text = transom_files::read(path, limit).map_err(|error| FileError::io(path, &error))?;
    parse(path, &text)
}

pub(crate) fn read_config(folder: &Path) -> Result<Value, FileError> {
    let path = folder.join("config.json");
    let text = transom_files::read(&path, MAX_CONFIG_BYTES);
    let text = text.map_err(|error| FileError::io(&path, &error))?;
    if n_values(&text) > MAX_CONFIG_VALUES {
        let reason = format!("has more than {MAX_CONFIG_VALUES} values");
        return Err(FileError::new(&path, FaultCode::TooLarge, reason));
    }
    parse(&path, &text)
}

/// Returns the template of `chat_template.jinja`, else of `tokenizer_config.json`.
pub(crate) fn chat_template(folder: &Path) -> Result<Option<String>, FileError> {
    let path = folder.join("chat_template.jinja");
    if path.exists() {
        let template = transom_files::read_to_string(&path, MAX_TEMPLATE_BYTES);
        return template
            .map(Some)
            .map_err(|error| FileError::io(&path, &error));
    }
    let path = folder.join("tokenizer_config.json");
    if !path.exists() {
        return Ok(None);
    }
    let text = transom_files::read(&path, MAX_TOKENIZER_CONFIG_BYTES);
    let text = text.map_err(|error| FileError::io(&path, &error))?;
    let config: TokenizerConfig<'_> = parse(&path, &text)?;
    // Some files list several named templates instead of a text.
    let json = config.chat_template.map(RawValue::get);
    let Some(json) = json.filter(|json| json.starts_with('"')) else {
        return Ok(None);
    };
    let template: String = parse(&path, json.as_bytes())?;
    if template.len() as u64 > MAX_TEMPLATE_BYTES {
        let reason = format!("`chat_template` has more than {MAX_TEMPLATE_BYTES} bytes");
        return Err(FileError::new(&path, FaultCode::TooLarge, reason));
    }
    Ok(Some(template))
}

/// Returns the names of the weight files that the folder's index lists.
pub(crate) fn indexed_files(folder: &Path) -> Result<HashSet<String>, FileError> {
    #[derive(Deserialize)]
    struct Index {
        #[serde(default)]
        weight_map: Files,
    }
    let path = folder.join("model.safetensors.index.json");
    let index: Index = read_json(&path, MAX_INDEX_BYTES)?;
    Ok(index.weight_map.0)
}

/// Returns an upper bound of the number of values in a JSON text, without parsing it: every value
/// except the outermost follows one of these bytes.
pub(super) fn n_values(text: &[u8]) -> usize {
    text.iter().filter(|byte| b",[{".contains(byte)).count()
}

fn parse<'a, T: Deserialize<'a>>(path: &Path, text: &'a [u8]) -> Result<T, FileError> {
    serde_json::from_slice(text)
        .map_err(|error| FileError::new(path, FaultCode::WrongFormat, format!("not JSON: {error}")))
}

#[derive(Deserialize)]
struct TokenizerConfig<'a> {
    #[serde(borrow)]
    chat_template: Option<&'a RawValue>,
}

/// The files in a map from tensors to files, each once.
#[derive(Default)]
struct Files(HashSet<String>);

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FilesVisitor;

        impl<'de> Visitor<'de> for FilesVisitor {
            type Value = Files;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a map from tensors to files")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Files, A::Error> {
                let mut files = HashSet::new();
                while let Some((_, file)) = map.next_entry::<IgnoredAny, String>()? {
                    files.insert(file);
                    if files.len() > MAX_WEIGHT_FILES {
                        let reason = format!("it names more than {MAX_WEIGHT_FILES} files");
                        return Err(A::Error::custom(reason));
                    }
                }
                Ok(Files(files))
            }
        }

        deserializer.deserialize_map(FilesVisitor)
    }
}
