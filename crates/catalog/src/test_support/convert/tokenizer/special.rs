//! Special tokens: beginning of text, end of text, and padding, which `tokenizer_config.json` names.

use std::path::Path;

use serde_json::Value;

use super::{Tokenizer, unsupported};
use crate::file_error::FileError;
use crate::safetensors::read_json;
use crate::test_support::GgufWriter;

/// Texts of tokens that end a response in llama.cpp whatever the file's entries say. From its list,
/// those that Qwen has.
const KNOWN_ENDS: [&str; 2] = ["<|im_end|>", "<|endoftext|>"];

impl Tokenizer {
    /// Writes the ids of the special tokens, and whether they are added at the beginning and the end.
    pub(super) fn write_special(
        &self,
        folder: &Path,
        to: &mut GgufWriter,
    ) -> Result<(), FileError> {
        let config = read(folder, "tokenizer_config.json")?;
        let id = |key: &str| {
            let value = &config[key];
            let text = value.as_str().or_else(|| value["content"].as_str())?;
            self.id_of(text)
        };
        let keys = [
            ("bos_token", "bos"),
            ("eos_token", "eos"),
            ("pad_token", "padding"),
        ];
        for (key, name) in keys {
            if let Some(id) = id(key) {
                to.u32(&format!("tokenizer.ggml.{name}_token_id"), id);
            }
        }
        for (key, token) in [
            ("add_bos_token", "bos_token"),
            ("add_eos_token", "eos_token"),
        ] {
            let is_added = config[key] == true && id(token).is_some();
            to.bool(&format!("tokenizer.ggml.{key}"), is_added);
        }
        self.refuse_other_ends(folder, id("eos_token"))?;
        match self.json["post_processor"]["type"].as_str() {
            None | Some("ByteLevel") => Ok(()),
            Some(_) => Err(self.unsupported("post_processor", self.entry("post_processor"))),
        }
    }

    /// Refuses other tokens that end a response, unless llama.cpp knows their texts.
    fn refuse_other_ends(&self, folder: &Path, eos: Option<u32>) -> Result<(), FileError> {
        for name in ["config.json", "generation_config.json"] {
            let json = read(folder, name)?;
            let ids = match &json["eos_token_id"] {
                Value::Array(ids) => ids.as_slice(),
                one => std::slice::from_ref(one),
            };
            let is_other = |id: &u64| {
                let text = self.tokens.get(*id as usize);
                let is_known = text.is_some_and(|text| KNOWN_ENDS.contains(&text.as_str()));
                eos.map(u64::from) != Some(*id) && !is_known
            };
            if let Some(other) = ids.iter().filter_map(Value::as_u64).find(is_other) {
                return Err(unsupported(&folder.join(name), "eos_token_id", other));
            }
        }
        Ok(())
    }
}

fn read(folder: &Path, name: &str) -> Result<Value, FileError> {
    let path = folder.join(name);
    match path.exists() {
        true => read_json(&path, super::MAX_BYTES),
        false => Ok(Value::Null),
    }
}
