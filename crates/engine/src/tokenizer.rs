//! Text to token ids and back, as the model folder's `tokenizer.json` says.
//!
//! The `tokenizers` crate encodes. Decoding is our own ([`Detokenizer`]), because answers leave
//! token by token and a token may be part of a character: the crate's decode gives whole strings
//! only. The rule: the detokenizer's bytes, joined, are the crate's decode of all ids together.

mod config;
mod detokenizer;
mod growth;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

pub(crate) use config::read_json;
pub use config::{ChatTemplateSource, NamedTemplate, TokenizerConfig};
pub use detokenizer::Detokenizer;

use serde::de::IgnoredAny;

use tokenizers::{Model, OffsetType, PreTokenizer};

use crate::error::EngineError;
use crate::template::{ControlTokens, Piece, RenderedPrompt};
use detokenizer::DecodePlan;

/// The largest known file, that of Gemma, has 33 MB.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The tokenizer of one model folder.
#[derive(Debug)]
pub struct Tokenizer {
    path: PathBuf,
    inner: tokenizers::Tokenizer,
    config: TokenizerConfig,
    decode_plan: DecodePlan,
    vocab_size: usize,
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a model folder, and `tokenizer_config.json` and
    /// `special_tokens_map.json` when they are there.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] without `tokenizer.json`; [`EngineError::BadFile`], naming the file
    /// and for broken JSON its line and column, when one cannot be read or its vocabulary is empty;
    /// [`EngineError::Unsupported`] for a decoder that no language model uses, and for rules that
    /// would make a text many times longer.
    pub fn from_folder(folder: &Path) -> Result<Self, EngineError> {
        let path = folder.join("tokenizer.json");
        let bytes = match transom_files::read(&path, MAX_FILE_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(EngineError::NotFound {
                    path,
                    what: "the tokenizer".to_owned(),
                    hint: "copy tokenizer.json from where the model came from".to_owned(),
                });
            }
            Err(error) => return Err(bad_file(path, error)),
        };
        let config = TokenizerConfig::from_folder(folder)?;
        Self::from_parts(path, &bytes, config)
    }

    fn from_parts(
        path: PathBuf,
        bytes: &[u8],
        config: TokenizerConfig,
    ) -> Result<Self, EngineError> {
        // Checked first for the sake of the message: the crate's own lacks the place of some faults.
        let form = match std::str::from_utf8(bytes) {
            Ok(text) => serde_json::from_str::<IgnoredAny>(text).map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = form {
            return Err(bad_file(path, reason));
        }
        let mut inner = guarded(&path, || tokenizers::Tokenizer::from_bytes(bytes))?;
        growth::check(&path, inner.get_normalizer())?;
        growth::check(&path, inner.get_decoder())?;
        // Some files carry the settings of a training run. A prompt is neither cut nor filled up.
        inner.with_padding(None);
        if let Err(error) = inner.with_truncation(None) {
            return Err(bad_file(path, error));
        }
        let highest = inner.get_vocab(true).into_values().max();
        let Some(highest) = highest else {
            return Err(bad_file(path, "the vocabulary is empty"));
        };
        let decode_plan = DecodePlan::new(&path, inner.get_decoder())?;
        Ok(Self {
            path,
            inner,
            config,
            decode_plan,
            vocab_size: highest as usize + 1,
        })
    }

    /// Token ids of `text`. Special tokens written in `text` become their ids. With
    /// `add_special_tokens`, those that the tokenizer puts round every text (such as a leading
    /// begin-of-text token) are added; rendered chat templates already contain them.
    ///
    /// # Errors
    /// [`EngineError::BadFile`] when the vocabulary cannot express the text.
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, EngineError> {
        let encoding = guarded(&self.path, || {
            self.inner.encode_fast(text, add_special_tokens)
        })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Token ids of a rendered conversation: special tokens that the template wrote become their ids,
    /// those that people typed stay text.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`]; [`EngineError::Unsupported`] if typed special tokens can't be told
    /// apart, because the tokenizer rewrites the text in an unusual way.
    pub fn encode_prompt(&self, prompt: &RenderedPrompt) -> Result<Vec<u32>, EngineError> {
        if prompt.typed().is_empty() {
            return self.encode(prompt.text(), false);
        }
        let (text, mark) = prompt.marked();
        let inner = &self.inner;
        let mut n_found = 0;
        let encoding = guarded(&self.path, || {
            // The steps of `encode_fast`. The marks hide the typed tokens from the first of them.
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
        // Right whatever the tokenizer's rules make of a mark, or of letters that spell a token.
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
        if n_found != prompt.typed().len() || n_special != n_expected {
            return Err(EngineError::Unsupported {
                path: self.path.clone(),
                reason:
                    "its rules don't allow reading special tokens in a message as text; remove \
                         them from the conversation"
                        .to_owned(),
            });
        }
        Ok(ids)
    }

    /// The tokens that only a chat template may write.
    pub fn control_tokens(&self) -> ControlTokens {
        let added = self.inner.get_added_tokens_decoder().into_values();
        let special = added.filter(|token| token.special);
        special.map(|token| token.content).collect()
    }

    /// A detokenizer at the start of a text.
    pub fn detokenizer(&self) -> Detokenizer<'_> {
        Detokenizer::new(&self.inner, &self.decode_plan)
    }

    /// The id of exactly this token, special and added tokens included.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The token of this id in the vocabulary's own spelling, which is not its text.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The highest id plus one, added tokens included. The model's logits may be longer.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// What `tokenizer_config.json` says.
    pub fn config(&self) -> &TokenizerConfig {
        &self.config
    }
}

/// Runs the crate on a file that may contradict itself. The crate reports most faults, but panics at
/// some, such as a post-processor that names a token which is not there.
fn guarded<T>(path: &Path, run: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, EngineError> {
    // Unwind safe: after a panic neither what was being built nor its error is used.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|error| bad_file(path.to_owned(), error)),
        Err(_) => Err(bad_file(
            path.to_owned(),
            "the file contradicts itself; copy it again from where the model came from",
        )),
    }
}

pub(crate) fn bad_file(path: PathBuf, reason: impl ToString) -> EngineError {
    EngineError::BadFile {
        path,
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests;
