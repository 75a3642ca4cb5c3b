//! Special tokens: beginning of text, end of text, and padding.
//!
//! They are in `tokenizer_config.json`, `config.json`, `generation_config.json` and the
//! post-processor of `tokenizer.json`.

use std::path::Path;

use serde_json::Value;

use super::{Tokenizer, unsupported};
use crate::file_error::FileError;
use crate::safetensors::read_json;
use crate::test_support::GgufWriter;

/// Texts of tokens that end a response in llama.cpp whatever the file's entries say. From its list,
/// those that Llama, Mistral and Qwen have.
const KNOWN_ENDS: [&str; 7] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "</s>",
];

impl Tokenizer {
    /// Writes the ids of the special tokens, and whether they are added at the beginning and the end.
    pub(super) fn write_special(
        &self,
        folder: &Path,
        to: &mut GgufWriter,
    ) -> Result<(), FileError> {
        let read = |name: &str| {
            let path = folder.join(name);
            match path.exists() {
                true => read_json(&path, super::MAX_BYTES),
                false => Ok(Value::Null),
            }
        };
        let tokenizer_config = read("tokenizer_config.json")?;
        let config = read("config.json")?;
        let generation = read("generation_config.json")?;
        let named = |key: &str| {
            let value = &tokenizer_config[key];
            let text = value.as_str().or_else(|| value["content"].as_str())?;
            self.id_of(text)
        };
        let numbered = |key: &str| {
            let mut ids = Vec::new();
            ids.extend(ids_of(&config[key]));
            ids.extend(ids_of(&generation[key]));
            ids.retain(|&id| (id as usize) < self.tokens.len());
            ids
        };
        let first =
            |key: &str, id_key: &str| named(key).or_else(|| numbered(id_key).first().copied());
        let bos = first("bos_token", "bos_token_id");
        let eos = first("eos_token", "eos_token_id");
        let mut write = |key: &str, id: Option<u32>| {
            if let Some(id) = id {
                to.u32(&format!("tokenizer.ggml.{key}_token_id"), id);
            }
        };
        write("bos", bos);
        write("eos", eos);
        write("padding", first("pad_token", "pad_token_id"));
        // GGUF has entries for one more token that ends a response, and for one that ends a message.
        let mut others = numbered("eos_token_id");
        others.sort_unstable();
        others.dedup();
        others.retain(|&id| {
            Some(id) != eos && !KNOWN_ENDS.contains(&self.tokens[id as usize].as_str())
        });
        if others.len() > 2 {
            let value = format!("{others:?} beside {eos:?}, more than GGUF has entries for");
            return Err(unsupported(
                &folder.join("generation_config.json"),
                "eos_token_id",
                value,
            ));
        }
        write("eot", others.first().copied());
        write("eom", others.get(1).copied());
        let adds = |key: &str, place: Option<&Value>, id: Option<u32>| {
            let by_template = place.is_some_and(|piece| self.is_special(piece, id));
            let own = tokenizer_config[key].as_bool();
            id.is_some() && own.unwrap_or(by_template)
        };
        let template = self.template()?;
        to.bool(
            "tokenizer.ggml.add_bos_token",
            adds("add_bos_token", template.first(), bos),
        );
        to.bool(
            "tokenizer.ggml.add_eos_token",
            adds("add_eos_token", template.last(), eos),
        );
        Ok(())
    }

    /// Returns what the post-processor adds around one text.
    fn template(&self) -> Result<&[Value], FileError> {
        let entry = &self.json["post_processor"];
        let steps = match entry["processors"].as_array() {
            Some(steps) => steps.as_slice(),
            None => std::slice::from_ref(entry),
        };
        let mut pieces: &[Value] = &[];
        for step in steps {
            match (step["type"].as_str(), step["single"].as_array()) {
                (Some("TemplateProcessing"), Some(single)) => pieces = single,
                (Some("ByteLevel"), _) => {}
                _ if step.is_null() => {}
                _ => return Err(self.unsupported("post_processor", step.to_string())),
            }
        }
        Ok(pieces)
    }

    fn is_special(&self, piece: &Value, id: Option<u32>) -> bool {
        let text = piece["SpecialToken"]["id"].as_str();
        id.is_some() && text.and_then(|text| self.id_of(text)) == id
    }
}

fn ids_of(value: &Value) -> Vec<u32> {
    let values = match value {
        Value::Array(values) => values.as_slice(),
        single => std::slice::from_ref(single),
    };
    let ids = values.iter().filter_map(Value::as_u64);
    ids.filter_map(|id| u32::try_from(id).ok()).collect()
}
