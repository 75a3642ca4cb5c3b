//! Reads the chat template of a file, and detokenizes with its tokenizer.

use std::borrow::Cow;

use transom_engine::generation::Detokenize;
use transom_engine::text::REASONING_MARKERS;
use transom_engine::{ChatTemplate, EngineError};

use crate::files::ModelFiles;
use crate::native::Vocab;

/// Compiles the chat template of a file; `None` if it has none.
///
/// # Errors
/// [`EngineError::Template`] for a syntax error.
pub(crate) fn chat_template(
    files: &ModelFiles,
    vocab: Vocab<'_>,
) -> Result<Option<ChatTemplate>, EngineError> {
    let tokens = files.special_tokens().into_iter();
    let tokens = tokens.filter_map(|(name, id)| Some((name, vocab.spelling(id)?)));
    let source = files.facts.chat_template.as_deref();
    source
        .map(|source| ChatTemplate::new(source, tokens, vocab.control_tokens()))
        .transpose()
}

#[derive(Debug)]
pub(crate) struct Detokenizer<'a> {
    vocab: Vocab<'a>,
    /// True if the next token is the first, whose leading space belongs to the prompt.
    is_at_start: bool,
    bytes: Vec<u8>,
}

impl<'a> Detokenizer<'a> {
    pub(crate) fn new(vocab: Vocab<'a>) -> Self {
        Self {
            vocab,
            is_at_start: vocab.is_sentencepiece(),
            bytes: Vec::new(),
        }
    }
}

impl Detokenize for Detokenizer<'_> {
    fn is_end(&self, token: u32) -> bool {
        self.vocab.is_end(token)
    }

    /// Control tokens have no bytes, except reasoning markers.
    fn push(&mut self, token: u32) -> Cow<'_, [u8]> {
        self.bytes.clear();
        let is_marker = || {
            let spelling = self.vocab.spelling(token);
            spelling.is_some_and(|text| REASONING_MARKERS.contains(&text.as_str()))
        };
        let special = self.vocab.is_control(token) && is_marker();
        self.vocab
            .piece(token, self.is_at_start, special, &mut self.bytes);
        self.is_at_start &= self.bytes.is_empty();
        Cow::Borrowed(&self.bytes)
    }
}

#[cfg(test)]
mod tests;
