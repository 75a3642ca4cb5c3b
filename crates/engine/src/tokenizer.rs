//! Converts text to token ids and back, as the model folder's `tokenizer.json` describes.
//!
//! The `tokenizers` crate encodes. [`Detokenizer`] decodes one token at a time, to bytes: a token
//! may be part of a character, and decoding must not repeat earlier tokens.
//!
//! Rule: the joined bytes of the detokenizer equal the crate's decode of all ids together.

mod detokenizer;
mod expansion;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use detokenizer::Detokenizer;

use serde::de::IgnoredAny;

use tokenizers::{AddedToken, Model, OffsetType, PreTokenizer};

use crate::constraint::{TokenTable, TokenText};
use crate::error::{EngineError, UnsupportedFeature};
use crate::fill_in;
use crate::template::{ControlTokens, Piece, RenderedPrompt};
use crate::token_pieces::{TokenInput, TokenPiece};
use crate::tokenizer_config::TokenizerConfig;
use detokenizer::DecodePlan;

/// The largest known file, that of Gemma, has 33 MB.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The tokenizer of a model folder.
#[derive(Debug)]
pub struct Tokenizer {
    path: PathBuf,
    inner: Arc<tokenizers::Tokenizer>,
    config: TokenizerConfig,
    decode_plan: Arc<DecodePlan>,
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a model folder, and `tokenizer_config.json` and
    /// `special_tokens_map.json` if they exist.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] without `tokenizer.json`; [`EngineError::BadFile`], with the file
    /// and, for invalid JSON, its line and column, if a file cannot be read or its vocabulary is
    /// empty; [`EngineError::Unsupported`] for a decoder that no language model uses, and for rules
    /// that would make a text many times longer.
    pub fn from_folder(folder: &Path) -> Result<Self, EngineError> {
        let path = folder.join("tokenizer.json");
        let bytes = match transom_files::read(&path, MAX_FILE_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let hint = "copy tokenizer.json from where the model came from";
                return Err(EngineError::not_found(path, "the tokenizer", hint));
            }
            Err(error) => return Err(EngineError::bad_file(path, error)),
        };
        let config = TokenizerConfig::from_folder(folder)?;
        Self::from_parts(path, &bytes, config)
    }

    fn from_parts(
        path: PathBuf,
        bytes: &[u8],
        config: TokenizerConfig,
    ) -> Result<Self, EngineError> {
        // Checked first for its error message: the crate's own message often lacks the position.
        let json = match std::str::from_utf8(bytes) {
            Ok(text) => serde_json::from_str::<IgnoredAny>(text).map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = json {
            return Err(EngineError::bad_file(path, reason));
        }
        let mut inner = catch_panic(&path, || tokenizers::Tokenizer::from_bytes(bytes))?;
        expansion::check(&path, inner.get_normalizer())?;
        expansion::check(&path, inner.get_decoder())?;
        // Some files contain the settings of a training run. Prompts are neither truncated nor
        // padded.
        inner.with_padding(None);
        if let Err(error) = inner.with_truncation(None) {
            return Err(EngineError::bad_file(path, error));
        }
        if inner.get_vocab_size(true) == 0 {
            return Err(EngineError::bad_file(path, "the vocabulary is empty"));
        }
        let decode_plan = DecodePlan::new(&path, inner.get_decoder())?;
        Ok(Self {
            path,
            inner: Arc::new(inner),
            config,
            decode_plan: Arc::new(decode_plan),
        })
    }

    /// Returns true if both tokenizers have the same tokens with the same ids.
    pub fn has_same_tokens(&self, other: &Self) -> bool {
        self.inner.get_vocab(true) == other.inner.get_vocab(true)
    }

    /// Returns the token ids of `text`. Special tokens in `text` become their ids.
    /// `add_special_tokens` adds those that the tokenizer puts around every text (such as a leading
    /// begin-of-text token); rendered chat templates already contain them.
    ///
    /// # Errors
    /// [`EngineError::BadFile`] if the vocabulary cannot express the text.
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, EngineError> {
        let encoding = catch_panic(&self.path, || {
            self.inner.encode_fast(text, add_special_tokens)
        })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Returns [`Tokenizer::encode`] without special tokens around the text; `None` for an error.
    pub fn encoder(&self) -> impl Fn(&str) -> Option<Vec<u32>> + use<> {
        let (path, inner) = (self.path.clone(), self.inner.clone());
        move |text| {
            let encoding = catch_panic(&path, || inner.encode_fast(text, false));
            encoding.ok().map(|encoding| encoding.get_ids().to_vec())
        }
    }

    /// Returns the token ids of a rendered conversation. Special tokens that the template wrote
    /// become their ids; those in messages stay text.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`]; [`EngineError::Unsupported`] if special tokens in messages
    /// cannot be distinguished, because the tokenizer rewrites the text in an unusual way.
    pub fn encode_prompt(&self, prompt: &RenderedPrompt) -> Result<Vec<u32>, EngineError> {
        if prompt.literal_tokens().is_empty() {
            return self.encode(prompt.text(), false);
        }
        let (text, mark) = prompt.marked();
        let inner = &self.inner;
        let mut n_found = 0;
        let encoding = catch_panic(&self.path, || {
            // The steps of `encode_fast`. The marks hide special tokens in messages from the first
            // step.
            let vocabulary = inner.get_added_vocabulary();
            let normalizer = inner.get_normalizer();
            let mut text = vocabulary.extract_and_normalize(normalizer, text.as_str());
            text.split(|_, mut piece| {
                n_found += piece.get().matches(mark).count();
                piece.replace(mark, "")?;
                Ok([piece])
            })?;
            if let Some(pre_tokenizer) = inner.get_pre_tokenizer() {
                pre_tokenizer.pre_tokenize(&mut text)?;
            }
            inner
                .get_model()
                .tokenize_in_pretokenized(&mut text, None)?;
            text.into_encoding(None, 0, OffsetType::None)
        })?;
        let ids = encoding.get_ids().to_vec();
        // Counts are checked, whatever the tokenizer's rules do with a mark or with letters that
        // spell a token.
        let is_special = |id: &u32| {
            let token = inner.id_to_token(*id);
            token.is_some_and(|token| inner.get_added_vocabulary().is_special_token(&token))
        };
        let n_special = ids.iter().filter(|id| is_special(id)).count();
        let control_tokens = self.control_tokens();
        let pieces = prompt.pieces(&control_tokens);
        let n_expected = pieces
            .filter(|piece| matches!(piece, Piece::Control(_)))
            .count();
        if n_found != prompt.literal_tokens().len() || n_special != n_expected {
            return Err(EngineError::unsupported(
                &self.path,
                UnsupportedFeature::SpecialTokens,
                "its rules don't allow reading special tokens in a message as text; remove them \
                 from the conversation",
            ));
        }
        Ok(ids)
    }

    /// Returns the token ids of `text`, in which special tokens and the markers of
    /// [`crate::fill_in`] stay text.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode_prompt`].
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        let added = self.inner.get_added_tokens_decoder().into_values();
        let is_control = |token: &AddedToken| {
            token.special || fill_in::markers().any(|marker| marker == token.content)
        };
        let control = added.filter(is_control).map(|token| token.content);
        self.encode_prompt(&RenderedPrompt::plain(text, &control.collect())?)
    }

    /// Returns the special tokens that the tokenizer puts before every text.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`].
    pub fn start_tokens(&self) -> Result<Vec<u32>, EngineError> {
        let (mut ids, plain) = (self.encode("x", true)?, self.encode("x", false)?);
        let is_text = |at: &usize| ids[*at..].starts_with(&plain);
        let n_before = (0..ids.len()).find(is_text).unwrap_or(0);
        ids.truncate(n_before);
        Ok(ids)
    }

    /// Returns the tokens of a text, or the text of tokens.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode_plain`].
    pub fn pieces(&self, input: &TokenInput) -> Result<Vec<TokenPiece>, EngineError> {
        let ids = match input {
            TokenInput::Tokens(ids) => ids.clone(),
            TokenInput::Text {
                text,
                add_special,
                parse_special: true,
            } => self.encode(text, *add_special)?,
            TokenInput::Text {
                text,
                add_special,
                parse_special: false,
            } => {
                let mut ids = match add_special {
                    true => self.start_tokens()?,
                    false => Vec::new(),
                };
                ids.extend(self.encode_plain(text)?);
                ids
            }
        };
        let mut detokenizer = self.detokenizer().within_text();
        let bytes = |id| match self.is_special(id) {
            true => self.inner.id_to_token(id).unwrap_or_default().into_bytes(),
            false => detokenizer.push(id),
        };
        let bytes: Vec<Vec<u8>> = ids.iter().copied().map(bytes).collect();
        let pieces = ids.into_iter().zip(bytes);
        Ok(pieces.map(|(id, bytes)| TokenPiece { id, bytes }).collect())
    }

    /// Returns the tokens that only a chat template may write.
    pub fn control_tokens(&self) -> ControlTokens {
        let added = self.inner.get_added_tokens_decoder().into_values();
        let special = added.filter(|token| token.special);
        special.map(|token| token.content).collect()
    }

    /// Returns a detokenizer at the start of a text.
    pub fn detokenizer(&self) -> Detokenizer {
        Detokenizer::new(self.inner.clone(), self.decode_plan.clone())
    }

    /// Returns the bytes of the first `n_tokens` ids, as the detokenizer writes them within a text.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] if they depend on the token before.
    pub fn token_table(
        &self,
        n_tokens: usize,
        end_tokens: Vec<u32>,
    ) -> Result<TokenTable, EngineError> {
        if self.decode_plan.depends_on_last_token() {
            let reason = "the text of its tokens depends on the token before, so responses can't be \
                          constrained";
            let feature = UnsupportedFeature::Tokenizer;
            return Err(EngineError::unsupported(&self.path, feature, reason));
        }
        let within = self.detokenizer().within_text();
        let text = |id| {
            let name = || self.inner.id_to_token(id).unwrap_or_default();
            let bytes = match self.is_special(id) {
                true => Vec::new(),
                false => within.clone().push(id),
            };
            match bytes.is_empty() {
                true => TokenText::Special(name()),
                false => TokenText::Text(bytes),
            }
        };
        let ids = (0..n_tokens).filter_map(|id| u32::try_from(id).ok());
        Ok(TokenTable {
            tokens: ids.map(text).collect(),
            end_tokens,
            strips_first_space: self.decode_plan.strips_first_space(),
        })
    }

    fn is_special(&self, id: u32) -> bool {
        let token = self.inner.id_to_token(id);
        let added = self.inner.get_added_vocabulary();
        token.is_some_and(|token| added.is_special_token(&token))
    }

    /// Returns the id of exactly this token, including special and added tokens.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Returns the contents of `tokenizer_config.json`.
    pub fn config(&self) -> &TokenizerConfig {
        &self.config
    }
}

/// Runs the crate on a file that may be inconsistent. The crate reports most faults, but panics at
/// some, such as a post-processor that names a missing token.
fn catch_panic<T>(
    path: &Path,
    run: impl FnOnce() -> tokenizers::Result<T>,
) -> Result<T, EngineError> {
    // Unwind safe: after a panic, neither the unfinished value nor its error is used.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|error| EngineError::bad_file(path, error)),
        Err(_) => Err(EngineError::bad_file(
            path,
            "the file contradicts itself; copy it again from where the model came from",
        )),
    }
}

#[cfg(test)]
mod tests;
