//! Prompts for models that were trained to fill in the middle: to write the text between two others.
//!
//! Such a model has three marker tokens: before the text that precedes the gap, before the text that
//! follows it, and after both, where the response begins.
//!
//! Rule: the texts around the gap are plain text. A marker that is spelled in them stays text.

use serde::{Deserialize, Serialize};

use crate::error::EngineError;

/// The text around a gap, which the response fills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillIn {
    /// The text before the gap; may be empty.
    pub prefix: String,
    /// The text after the gap; may be empty.
    pub suffix: String,
}

/// The marker tokens of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FillInTokens {
    /// Comes before the text that precedes the gap.
    pub prefix: u32,
    /// Comes before the text that follows the gap.
    pub suffix: u32,
    /// Comes before the text that fills the gap.
    pub middle: u32,
}

/// The spellings of the three markers, one row for each family of models. llama.cpp knows the same.
const MARKERS: [[&str; 3]; 8] = [
    // Qwen, CodeGemma.
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    // StarCoder, Granite.
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
    // SantaCoder.
    ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
    // DeepSeek.
    ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
    // GLM.
    ["<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"],
    // Falcon.
    ["<|prefix|>", "<|suffix|>", "<|middle|>"],
    // Code Llama.
    ["<PRE>", "<SUF>", "<MID>"],
    ["▁<PRE>", "▁<SUF>", "▁<MID>"],
];

/// Tokens that such models write after the middle, before another file or for padding. llama.cpp ends
/// every response at them.
pub const END_MARKERS: [&str; 9] = [
    "<|fim_pad|>",
    "<fim_pad>",
    "<fim-pad>",
    "<|repo_name|>",
    "<reponame>",
    "<|fim_repo|>",
    "<|file_sep|>",
    "<|file_separator|>",
    "<file_sep>",
];

/// Returns the spellings of all markers.
pub fn markers() -> impl Iterator<Item = &'static str> {
    MARKERS.into_iter().flatten()
}

impl FillInTokens {
    /// Returns the markers of a model; `None` if it has not all three of a family. `id_of` returns the
    /// id of the token with exactly this spelling.
    pub fn find(id_of: impl Fn(&str) -> Option<u32>) -> Option<Self> {
        MARKERS.iter().find_map(|[prefix, suffix, middle]| {
            Some(Self {
                prefix: id_of(prefix)?,
                suffix: id_of(suffix)?,
                middle: id_of(middle)?,
            })
        })
    }

    /// Returns the tokens of a prompt. `start` are the tokens with which every text begins.
    pub fn prompt(self, start: &[u32], prefix: &[u32], suffix: &[u32]) -> Vec<u32> {
        let parts = [
            start,
            &[self.prefix],
            prefix,
            &[self.suffix],
            suffix,
            &[self.middle],
        ];
        parts.concat()
    }
}

/// Returns the error of a request to a model without markers.
pub fn no_markers() -> EngineError {
    let expected = "left out: this model was not trained to fill in the middle of a text";
    EngineError::invalid_parameter("suffix", "given", expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_all_markers_of_one_family_or_none() {
        let model = |spellings: &'static [&'static str]| {
            move |wanted: &str| {
                let index = spellings.iter().position(|spelling| *spelling == wanted)?;
                u32::try_from(index).ok()
            }
        };
        let tokens = FillInTokens::find(model(&[
            "a",
            "<fim_middle>",
            "<fim_prefix>",
            "<fim_suffix>",
        ]));
        let expected = FillInTokens {
            prefix: 2,
            suffix: 3,
            middle: 1,
        };
        assert_eq!(tokens, Some(expected));
        let mixed = &["<fim_prefix>", "<fim_suffix>", "<|fim_middle|>"];
        assert_eq!(FillInTokens::find(model(mixed)), None);
        assert_eq!(expected.prompt(&[9], &[5, 6], &[]), [9, 2, 5, 6, 3, 1]);
    }
}
