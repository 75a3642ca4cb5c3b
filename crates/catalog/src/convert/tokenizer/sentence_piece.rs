//! SentencePiece's BPE with byte fallback, as in the first Llama models and Mistral.
//!
//! llama.cpp merges by token scores: of all neighbors that form a token, those with the best score
//! are merged. `tokenizer.json` has a list of merges. Both give the same result if each pair of tokens
//! that forms a token is in the list, and the pairs that form the same token are next to each other;
//! then the position in the list is the score. Other lists are refused.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{TokenType, Tokenizer};
use crate::convert::ConvertError;
use crate::gguf::GgufWriter;

/// SentencePiece's character for a space.
const SPACE: char = '▁';

impl Tokenizer {
    pub(super) fn write_sentence_piece(&self, to: &mut GgufWriter) -> Result<(), ConvertError> {
        to.string("tokenizer.ggml.model", "llama")
            .string("tokenizer.ggml.pre", "default")
            .bool("tokenizer.ggml.add_space_prefix", self.adds_space()?)
            .f32s("tokenizer.ggml.scores", &self.scores()?);
        Ok(())
    }

    pub(super) fn mark_bytes(&mut self) -> Result<(), ConvertError> {
        for byte in 0..=255u8 {
            let text = format!("<0x{byte:02X}>");
            match self.id_of(&text) {
                Some(id) => self.types[id as usize] = TokenType::Byte,
                None => return Err(self.unsupported("the token of a byte", text + ", missing")),
            }
        }
        Ok(())
    }

    /// Returns true if a space is added before text; files say so in two ways. A scheme that adds it
    /// only at the very beginning is written as "never": a chat begins with a special token, so no
    /// text is at the beginning.
    fn adds_space(&self) -> Result<bool, ConvertError> {
        let normalizer = &self.json["normalizer"];
        let pre_tokenizer = &self.json["pre_tokenizer"];
        if normalizer.is_null() {
            let is_whole = pre_tokenizer["type"] == "Metaspace"
                && pre_tokenizer["split"] == false
                && pre_tokenizer["replacement"] == SPACE.to_string();
            return match pre_tokenizer["prepend_scheme"].as_str() {
                Some("always") if is_whole => Ok(true),
                Some("first" | "never") if is_whole => Ok(false),
                _ => Err(self.unsupported("pre_tokenizer", self.entry("pre_tokenizer"))),
            };
        }
        let steps = match normalizer["normalizers"].as_array() {
            Some(steps) => steps.as_slice(),
            None => std::slice::from_ref(normalizer),
        };
        let is_prepend =
            |step: &Value| step["type"] == "Prepend" && step["prepend"] == SPACE.to_string();
        let is_replace = |step: &Value| {
            step["type"] == "Replace"
                && step["pattern"]["String"] == " "
                && step["content"] == SPACE.to_string()
        };
        match steps {
            _ if !pre_tokenizer.is_null() => {
                Err(self.unsupported("pre_tokenizer", self.entry("pre_tokenizer")))
            }
            [prepend, replace] if is_prepend(prepend) && is_replace(replace) => Ok(true),
            [replace] if is_replace(replace) => Ok(false),
            _ => Err(self.unsupported("normalizer", self.entry("normalizer"))),
        }
    }

    /// Returns a score for each token: minus the position of its first merge. Tokens that no merge
    /// forms are never looked up by score.
    fn scores(&self) -> Result<Vec<f32>, ConvertError> {
        let mut merged: BTreeMap<String, f32> = BTreeMap::new();
        let mut pairs = BTreeSet::new();
        let mut last = String::new();
        for (index, merge) in self.model.merges.iter().enumerate() {
            let what = || format!("merge {index}");
            let Some((left, right)) = merge.parts() else {
                return Err(self.unsupported(&what(), "no pair"));
            };
            let both = format!("{left}{right}");
            if both != last && merged.contains_key(&both) {
                let value = format!("{left:?} and {right:?}, apart from others that make the same");
                return Err(self.unsupported(&what(), value));
            }
            merged.entry(both.clone()).or_insert(-(index as f32));
            pairs.insert((left, right));
            last = both;
        }
        self.find_missing_merge(&pairs)?;
        let scores = self.tokens.iter().map(|token| merged.get(token));
        Ok(scores
            .map(|score| score.copied().unwrap_or(f32::MIN))
            .collect())
    }

    /// Refuses two tokens that form a token without a merge, because llama.cpp would merge them.
    fn find_missing_merge(&self, pairs: &BTreeSet<(&str, &str)>) -> Result<(), ConvertError> {
        let is_normal = |text: &str| {
            let id = self.model.vocab.get(text).map(|&id| id as usize);
            id.is_some_and(|id| self.types[id] == TokenType::Normal)
        };
        for (text, _) in self.model.vocab.iter().filter(|(text, _)| is_normal(text)) {
            for (at, _) in text.char_indices().skip(1) {
                let (left, right) = text.split_at(at);
                if is_normal(left) && is_normal(right) && !pairs.contains(&(left, right)) {
                    let value = format!("none for {left:?} and {right:?}, which make {text:?}");
                    return Err(self.unsupported("merges", value));
                }
            }
        }
        Ok(())
    }
}
