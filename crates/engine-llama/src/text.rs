//! Reads the chat template of a file, and detokenizes with its tokenizer.

use std::borrow::Cow;
use std::rc::Rc;

use transom_engine::generation::Detokenize;
use transom_engine::text::REASONING_MARKERS;
use transom_engine::{
    ChatTemplate, EngineError, ModelInfo, TokenInput, TokenPiece, TokenTable, TokenText,
};

use crate::files::ModelFiles;
use crate::native::{Model, Vocab};

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
    let text = |token| {
        let mut bytes = Vec::new();
        if !vocab.is_control(token) {
            write(vocab, token, false, &mut bytes);
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

/// Appends the bytes of the next token. Control tokens have none, except reasoning markers. The leading
/// space of the first token (`is_at_start`) belongs to the prompt.
fn write(vocab: Vocab<'_>, token: u32, is_at_start: bool, bytes: &mut Vec<u8>) {
    let is_marker = || {
        let spelling = vocab.spelling(token);
        spelling.is_some_and(|text| REASONING_MARKERS.contains(&text.as_str()))
    };
    let special = vocab.is_control(token) && is_marker();
    vocab.piece(token, is_at_start, special, bytes);
}

#[derive(Debug)]
pub(crate) struct Detokenizer {
    model: Rc<Model>,
    /// True if the next token is the first.
    is_at_start: bool,
    bytes: Vec<u8>,
}

impl Detokenizer {
    pub(crate) fn new(model: Rc<Model>) -> Self {
        Self {
            is_at_start: model.vocab().is_sentencepiece(),
            model,
            bytes: Vec::new(),
        }
    }
}

impl Detokenize for Detokenizer {
    fn is_end(&self, token: u32) -> bool {
        self.model.vocab().is_end(token)
    }

    fn push(&mut self, token: u32) -> Cow<'_, [u8]> {
        self.bytes.clear();
        let vocab = self.model.vocab();
        write(vocab, token, self.is_at_start, &mut self.bytes);
        self.is_at_start &= self.bytes.is_empty();
        Cow::Borrowed(&self.bytes)
    }

    fn peek(&self, token: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(self.model.vocab(), token, self.is_at_start, &mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests;
