//! Reads the chat template of a file, and detokenizes with its tokenizer.

use std::borrow::Cow;

use transom_engine::generation::Detokenize;
use transom_engine::text::REASONING_MARKERS;
use transom_engine::{
    ChatTemplate, EngineError, ModelInfo, TokenInput, TokenPiece, TokenTable, TokenText,
};

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

/// Returns the error of a text of 2 GB and more.
pub(crate) fn too_long(text: &str) -> EngineError {
    let value = format!("{} bytes", text.len());
    EngineError::invalid_parameter("prompt", value, "less than 2 GB")
}

/// Returns the tokens of a text, or the text of tokens.
///
/// # Errors
/// [`EngineError::InvalidParameter`] for ids outside the vocabulary and texts of 2 GB and more.
pub(crate) fn pieces(
    info: &ModelInfo,
    vocab: Vocab<'_>,
    input: &TokenInput,
) -> Result<Vec<TokenPiece>, EngineError> {
    let ids = match input {
        TokenInput::Tokens(ids) => {
            info.check_vocabulary(ids)?;
            ids.clone()
        }
        TokenInput::Text {
            text,
            add_special,
            parse_special,
        } => {
            let ids = vocab.tokenize_with(text, *add_special, *parse_special);
            ids.ok_or_else(|| too_long(text))?
        }
    };
    let piece = |id| {
        let mut bytes = Vec::new();
        vocab.piece(id, false, true, &mut bytes);
        TokenPiece { id, bytes }
    };
    Ok(ids.into_iter().map(piece).collect())
}

/// Returns the bytes of all tokens, as [`Detokenizer`] writes them within a text.
pub(crate) fn token_table(vocab: Vocab<'_>) -> TokenTable {
    let detokenizer = Detokenizer {
        vocab,
        is_at_start: false,
        bytes: Vec::new(),
    };
    let text = |token| {
        let mut bytes = Vec::new();
        if !vocab.is_control(token) {
            detokenizer.write(token, &mut bytes);
        }
        match bytes.is_empty() {
            true => TokenText::Special(vocab.spelling(token).unwrap_or_default()),
            false => TokenText::Text(bytes),
        }
    };
    TokenTable {
        tokens: vocab.tokens().map(text).collect(),
        end_tokens: vocab
            .tokens()
            .filter(|&token| vocab.is_end(token))
            .collect(),
        strips_first_space: vocab.is_sentencepiece(),
    }
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

    /// Appends the bytes of the next token. Control tokens have none, except reasoning markers.
    fn write(&self, token: u32, bytes: &mut Vec<u8>) {
        let is_marker = || {
            let spelling = self.vocab.spelling(token);
            spelling.is_some_and(|text| REASONING_MARKERS.contains(&text.as_str()))
        };
        let special = self.vocab.is_control(token) && is_marker();
        self.vocab.piece(token, self.is_at_start, special, bytes);
    }
}

impl Detokenize for Detokenizer<'_> {
    fn is_end(&self, token: u32) -> bool {
        self.vocab.is_end(token)
    }

    fn push(&mut self, token: u32) -> Cow<'_, [u8]> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        self.write(token, &mut bytes);
        self.is_at_start &= bytes.is_empty();
        self.bytes = bytes;
        Cow::Borrowed(&self.bytes)
    }

    fn peek(&self, token: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(token, &mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests;
