//! Reads `tokenizer_config.json` and `special_tokens_map.json`.
//!
//! Both files have grown over years, so every field is optional and unknown fields are ignored. A
//! field with the wrong type is an error that names the file, line and column.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Deserializer};

use crate::error::EngineError;

/// The largest known file, with a description of every special token, has 1.2 MB.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The contents of `tokenizer_config.json`, completed with `special_tokens_map.json`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct TokenizerConfig {
    /// Begin-of-text token.
    #[serde(deserialize_with = "token_text")]
    pub bos_token: Option<String>,
    /// End-of-text token.
    #[serde(deserialize_with = "token_text")]
    pub eos_token: Option<String>,
    /// The token for text that is not in the vocabulary.
    #[serde(deserialize_with = "token_text")]
    pub unk_token: Option<String>,
    /// The padding token.
    #[serde(deserialize_with = "token_text")]
    pub pad_token: Option<String>,
    /// The chat template, or several named ones.
    pub chat_template: Option<ChatTemplateSource>,
}

/// The chat template of the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum ChatTemplateSource {
    /// The only template.
    One(String),
    /// Several templates, of which `default` is for plain conversations.
    Named(Vec<NamedTemplate>),
}

/// One of several chat templates.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NamedTemplate {
    /// Its purpose, such as `default` or `tool_use`.
    pub name: String,
    /// Its source.
    pub template: String,
}

impl ChatTemplateSource {
    /// Returns the template for conversations: the only one, or the one named `default`.
    pub fn default_template(&self) -> Option<&str> {
        match self {
            Self::One(template) => Some(template),
            Self::Named(templates) => templates
                .iter()
                .find(|named| named.name == "default")
                .map(|named| named.template.as_str()),
        }
    }
}

impl TokenizerConfig {
    /// Reads both files of a model folder. Missing files are allowed.
    ///
    /// # Errors
    /// [`EngineError::BadFile`], with line and column, if a file cannot be read.
    pub fn from_folder(folder: &Path) -> Result<Self, EngineError> {
        let read = |name| read_json::<Self>(&folder.join(name), MAX_FILE_BYTES);
        let mut config = read("tokenizer_config.json")?.unwrap_or_default();
        let map = read("special_tokens_map.json")?.unwrap_or_default();
        config.bos_token = config.bos_token.or(map.bos_token);
        config.eos_token = config.eos_token.or(map.eos_token);
        config.unk_token = config.unk_token.or(map.unk_token);
        config.pad_token = config.pad_token.or(map.pad_token);
        Ok(config)
    }

    /// Returns the special tokens by their names in templates.
    pub fn special_tokens(&self) -> BTreeMap<&'static str, &str> {
        [
            ("bos_token", &self.bos_token),
            ("eos_token", &self.eos_token),
            ("unk_token", &self.unk_token),
            ("pad_token", &self.pad_token),
        ]
        .into_iter()
        .filter_map(|(name, token)| Some((name, token.as_deref()?)))
        .collect()
    }
}

/// Reads a JSON file of at most `limit` bytes. Returns `None` if it does not exist.
///
/// # Errors
/// [`EngineError::BadFile`], with line and column, if it cannot be read.
pub fn read_json<T: serde::de::DeserializeOwned>(
    path: &Path,
    limit: u64,
) -> Result<Option<T>, EngineError> {
    match transom_files::read(path, limit) {
        // serde_json's message ends in "at line 3 column 7".
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| EngineError::bad_file(path, format!("not valid JSON: {error}"))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(EngineError::bad_file(path, error)),
    }
}

/// A token is its text, or an object with its text in `content`.
fn token_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Token { content: String },
    }
    Ok(
        Option::<Written>::deserialize(deserializer)?.map(|written| match written {
            Written::Text(text) => text,
            Written::Token { content } => content,
        }),
    )
}
