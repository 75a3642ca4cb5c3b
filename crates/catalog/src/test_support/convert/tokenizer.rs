//! Writes `tokenizer.json` and its neighbors as GGUF's tokenizer entries.
//!
//! Only byte-level BPE is supported (GGUF's `gpt2`).
//!
//! Rule: llama.cpp gives a text the same tokens as the `tokenizers` library, or the tokenizer is
//! refused. One difference can't be avoided: llama.cpp does not normalize text to NFC, as Qwen's
//! tokenizers do, so a letter that is typed as base and accent gets other tokens.

mod byte_level;
mod special;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::{damaged, unsupported};
use crate::file_error::FileError;
use crate::safetensors::{chat_template, read_json};
use crate::test_support::GgufWriter;

const MAX_BYTES: u64 = 64 << 20;

/// Token types, with llama.cpp's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenType {
    Normal = 1,
    /// Matches text only if special tokens are requested.
    Control = 3,
    /// Matches text before all other tokens.
    UserDefined = 4,
    /// Only fills the vocabulary.
    Unused = 5,
}

struct Tokenizer {
    path: PathBuf,
    json: Value,
    tokens: Vec<String>,
    types: Vec<TokenType>,
    model: Model,
}

/// The entry `model` of `tokenizer.json`.
#[derive(Deserialize)]
struct Model {
    vocab: BTreeMap<String, u32>,
    merges: Vec<(String, String)>,
    unk_token: Option<String>,
    dropout: Option<f32>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
}

/// An entry of `added_tokens`.
#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    special: bool,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

/// Writes the tokenizer of `folder` and its chat template, with as many tokens as the model's
/// vocabulary has. Tokens without a text are named `[PAD…]`.
pub(crate) fn write(
    folder: &Path,
    vocab_size: usize,
    to: &mut GgufWriter,
) -> Result<(), FileError> {
    let tokenizer = Tokenizer::read(folder, vocab_size)?;
    tokenizer.write_byte_level(to)?;
    let types: Vec<i32> = tokenizer.types.iter().map(|&kind| kind as i32).collect();
    to.strings("tokenizer.ggml.tokens", &tokenizer.tokens)
        .i32s("tokenizer.ggml.token_type", &types);
    tokenizer.write_special(folder, to)?;
    if let Some(template) = chat_template(folder)? {
        to.string("tokenizer.chat_template", &template);
    }
    Ok(())
}

impl Tokenizer {
    fn read(folder: &Path, vocab_size: usize) -> Result<Self, FileError> {
        let path = folder.join("tokenizer.json");
        let json: Value = read_json(&path, MAX_BYTES)?;
        let bad = |reason: String| damaged(&path, reason);
        let kind = json.pointer("/model/type").and_then(Value::as_str);
        if kind != Some("BPE") {
            let kind = kind.unwrap_or("missing");
            return Err(unsupported(&path, "model.type", kind));
        }
        let model = Model::deserialize(&json["model"]).map_err(|error| bad(error.to_string()))?;
        let empty = Value::Array(Vec::new());
        let added = json.get("added_tokens").unwrap_or(&empty);
        let added: Vec<Added> =
            Deserialize::deserialize(added).map_err(|error| bad(error.to_string()))?;
        let mut this = Self {
            tokens: vec![String::new(); vocab_size],
            types: vec![TokenType::Unused; vocab_size],
            path,
            json,
            model,
        };
        this.refuse_unsupported(&added)?;
        this.fill(&added)?;
        Ok(this)
    }

    fn refuse_unsupported(&self, added: &[Added]) -> Result<(), FileError> {
        let model = &self.model;
        let is_used = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let (key, value) = if model.dropout.is_some_and(|dropout| dropout != 0.0) {
            ("model.dropout", format!("{:?}", model.dropout))
        } else if is_used(&model.continuing_subword_prefix) {
            let value = format!("{:?}", model.continuing_subword_prefix);
            ("model.continuing_subword_prefix", value)
        } else if is_used(&model.end_of_word_suffix) {
            let value = format!("{:?}", model.end_of_word_suffix);
            ("model.end_of_word_suffix", value)
        } else if is_used(&model.unk_token) {
            ("model.unk_token", format!("{:?}", model.unk_token))
        } else if model.byte_fallback {
            ("model.byte_fallback", "true".to_owned())
        } else if let Some(token) = added.iter().find(|token| token.takes_neighbors()) {
            let value = format!("{:?}, which takes its neighbors in", token.content);
            ("added_tokens", value)
        } else {
            return Ok(());
        };
        Err(unsupported(&self.path, key, value))
    }

    fn fill(&mut self, added: &[Added]) -> Result<(), FileError> {
        for (text, id) in std::mem::take(&mut self.model.vocab) {
            self.put(id, &text, TokenType::Normal)?;
        }
        for token in added {
            let kind = if token.special {
                TokenType::Control
            } else {
                TokenType::UserDefined
            };
            self.put(token.id, &token.content, kind)?;
        }
        for id in 0..self.tokens.len() {
            if self.types[id] == TokenType::Unused {
                self.tokens[id] = format!("[PAD{id}]");
            }
        }
        // llama.cpp ends the process if two tokens have the same text.
        let mut sorted: Vec<&str> = self.tokens.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(self.unsupported("a token's text that is there twice", pair[0])),
            None => Ok(()),
        }
    }

    fn put(&mut self, id: u32, text: &str, kind: TokenType) -> Result<(), FileError> {
        let n_tokens = self.tokens.len();
        let place = (self.tokens.get_mut(id as usize)).zip(self.types.get_mut(id as usize));
        let Some((token, token_type)) = place else {
            let reason = format!(
                "token {id} ({text:?}) is outside of the {n_tokens} tokens that config.json has"
            );
            return Err(damaged(&self.path, reason));
        };
        if *token_type != TokenType::Unused && *token != text {
            let reason = format!("token {id} is both {token:?} and {text:?}");
            return Err(damaged(&self.path, reason));
        }
        text.clone_into(token);
        *token_type = kind;
        Ok(())
    }

    fn unsupported(&self, what: &str, value: impl Display) -> FileError {
        unsupported(&self.path, what, value)
    }

    /// Returns the name of an entry of `tokenizer.json` for messages.
    fn entry(&self, key: &str) -> String {
        self.json[key].to_string()
    }

    fn id_of(&self, text: &str) -> Option<u32> {
        let id = self.tokens.iter().position(|token| token == text)?;
        Some(id as u32)
    }
}

impl Added {
    fn takes_neighbors(&self) -> bool {
        self.single_word || self.lstrip || self.rstrip
    }
}
