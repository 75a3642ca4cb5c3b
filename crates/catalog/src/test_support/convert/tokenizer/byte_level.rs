//! Byte-level BPE: chooses the llama.cpp pre-tokenizer that splits like `tokenizer.json`.
//!
//! In GGUF a pre-tokenizer is a name, and its code is in llama.cpp. It is recognized by the exact
//! regular expression in `tokenizer.json`. An expression that is not in the table is refused.

use serde_json::Value;

use super::Tokenizer;
use crate::file_error::FileError;
use crate::test_support::GgufWriter;

/// The regular expression of Qwen's tokenizers. This one and GPT-2's, which is built into the
/// `tokenizers` library, were compared with llama.cpp over 82,000 texts in all scripts without a
/// difference.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

impl Tokenizer {
    pub(super) fn write_byte_level(&self, to: &mut GgufWriter) -> Result<(), FileError> {
        let is_nfc = |normalizer: &Value| normalizer["type"] == "NFC";
        let normalizer = &self.json["normalizer"];
        let parts = normalizer["normalizers"].as_array();
        let is_usual = normalizer.is_null()
            || is_nfc(normalizer)
            || parts.is_some_and(|parts| parts.iter().all(is_nfc));
        if !is_usual {
            return Err(self.unsupported("normalizer", self.entry("normalizer")));
        }
        if self.json["decoder"]["type"] != "ByteLevel" {
            return Err(self.unsupported("decoder", self.entry("decoder")));
        }
        let pre = pre_tokenizer(&self.json["pre_tokenizer"]);
        // With `ignore_merges`, a part that is a token is kept without merges.
        let Some(pre) = pre.filter(|_| !self.model.ignore_merges) else {
            let value = format!(
                "{} with ignore_merges {}",
                self.entry("pre_tokenizer"),
                self.model.ignore_merges
            );
            return Err(self.unsupported("pre_tokenizer", value));
        };
        to.string("tokenizer.ggml.model", "gpt2")
            .string("tokenizer.ggml.pre", pre)
            .strings("tokenizer.ggml.merges", &self.merges()?);
        Ok(())
    }

    /// Returns the merges, each as one text with a space between its parts.
    fn merges(&self) -> Result<Vec<String>, FileError> {
        let merges = self.model.merges.iter().map(|(left, right)| {
            match left.contains(' ') || right.contains(' ') {
                true => Err(self.unsupported("a merge", format!("{left:?} and {right:?}"))),
                false => Ok(format!("{left} {right}")),
            }
        });
        merges.collect()
    }
}

/// Returns llama.cpp's name of a pre-tokenizer.
fn pre_tokenizer(entry: &Value) -> Option<&'static str> {
    let steps = match entry["type"].as_str()? {
        "Sequence" => entry["pretokenizers"].as_array()?.as_slice(),
        _ => std::slice::from_ref(entry),
    };
    match steps {
        [bytes] if is_byte_level(bytes, true) => Some("gpt-2"),
        [split, bytes] if is_byte_level(bytes, false) => {
            let is_qwen2 = split["type"] == "Split"
                && split["behavior"] == "Isolated"
                && split["invert"] != true
                && split["pattern"]["Regex"] == QWEN2;
            is_qwen2.then_some("qwen2")
        }
        _ => None,
    }
}

/// Returns true if a step maps bytes to letters, and splits like GPT-2 or not at all.
fn is_byte_level(step: &Value, uses_expression: bool) -> bool {
    let splits = step["use_regex"].as_bool().unwrap_or(true);
    step["type"] == "ByteLevel" && step["add_prefix_space"] != true && splits == uses_expression
}
