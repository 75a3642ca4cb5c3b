//! The vocabulary of a model file.
#![expect(unsafe_code, reason = "calls into C")]

use std::ffi::{CStr, c_char};

use llama_cpp_sys_2 as sys;
use transom_engine::FillInTokens;
use transom_engine::template::{ControlTokens, Piece, RenderedPrompt};

use super::{Model, signed};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Vocab<'a> {
    vocab: *const sys::llama_vocab,
    _model: &'a Model,
}

impl Model {
    pub(crate) fn vocab(&self) -> Vocab<'_> {
        Vocab {
            // SAFETY: the model is alive, and the vocabulary is part of it.
            vocab: unsafe { sys::llama_model_get_vocab(self.as_ptr()) },
            _model: self,
        }
    }
}

impl Vocab<'_> {
    pub(crate) fn len(self) -> usize {
        // SAFETY: the model that owns the vocabulary is borrowed; so in all functions here.
        let n = unsafe { sys::llama_vocab_n_tokens(self.vocab) };
        usize::try_from(n).unwrap_or(0)
    }

    pub(crate) fn has_tokenizer(self) -> bool {
        self.kind() != sys::LLAMA_VOCAB_TYPE_NONE
    }

    /// Returns true if the tokenizer is SentencePiece, where a word contains its leading space.
    pub(crate) fn is_sentencepiece(self) -> bool {
        self.kind() == sys::LLAMA_VOCAB_TYPE_SPM
    }

    fn kind(self) -> sys::llama_vocab_type {
        // SAFETY: see `len`.
        unsafe { sys::llama_vocab_type(self.vocab) }
    }

    pub(crate) fn is_end(self, token: u32) -> bool {
        // SAFETY: see `len`; the id is below `len`.
        unsafe { sys::llama_vocab_is_eog(self.vocab, signed(token)) }
    }

    /// Returns the token that ends a text, if the file has one.
    pub(crate) fn end(self) -> Option<u32> {
        // SAFETY: see `len`.
        u32::try_from(unsafe { sys::llama_vocab_eos(self.vocab) }).ok()
    }

    /// Returns the token with which every text starts, if the tokenizer adds one.
    pub(crate) fn start(self) -> Option<u32> {
        // SAFETY: see `len`.
        let (is_added, start) = unsafe {
            let is_added = sys::llama_vocab_get_add_bos(self.vocab);
            (is_added, sys::llama_vocab_bos(self.vocab))
        };
        u32::try_from(start).ok().filter(|_| is_added)
    }

    /// Returns the markers of a model that fills in the middle: those that the file names, else those
    /// with a spelling that llama.cpp knows.
    pub(crate) fn fill_in_tokens(self) -> Option<FillInTokens> {
        // SAFETY: see `len`.
        let (prefix, suffix, middle) = unsafe {
            (
                sys::llama_vocab_fim_pre(self.vocab),
                sys::llama_vocab_fim_suf(self.vocab),
                sys::llama_vocab_fim_mid(self.vocab),
            )
        };
        Some(FillInTokens {
            prefix: u32::try_from(prefix).ok()?,
            suffix: u32::try_from(suffix).ok()?,
            middle: u32::try_from(middle).ok()?,
        })
    }

    /// Returns true if the file names the tokens that its tokenizer puts around every text. llama.cpp
    /// aborts if such a token is missing.
    pub(crate) fn has_added_tokens(self) -> bool {
        let is_word_piece = self.kind() == sys::LLAMA_VOCAB_TYPE_WPM;
        // SAFETY: see `len`.
        unsafe {
            let adds_start = is_word_piece || sys::llama_vocab_get_add_bos(self.vocab);
            let adds_end = !is_word_piece && sys::llama_vocab_get_add_eos(self.vocab);
            (!adds_start || sys::llama_vocab_bos(self.vocab) >= 0)
                && (!adds_end || sys::llama_vocab_eos(self.vocab) >= 0)
                && (!is_word_piece || sys::llama_vocab_sep(self.vocab) >= 0)
        }
    }

    /// Returns true if `token` is a control token, which is not text.
    pub(crate) fn is_control(self, token: u32) -> bool {
        // SAFETY: see `is_end`.
        unsafe { sys::llama_vocab_is_control(self.vocab, signed(token)) }
    }

    pub(crate) fn tokens(self) -> impl Iterator<Item = u32> {
        (0..self.len()).filter_map(|token| u32::try_from(token).ok())
    }

    /// Returns the tokens that only a chat template may write.
    pub(crate) fn control_tokens(self) -> ControlTokens {
        let special = self.tokens().filter(|&token| self.is_special(token));
        special.filter_map(|token| self.spelling(token)).collect()
    }

    /// Returns true for a token that llama.cpp finds in a text only if it parses special tokens.
    fn is_special(self, token: u32) -> bool {
        let special = sys::LLAMA_TOKEN_ATTR_CONTROL | sys::LLAMA_TOKEN_ATTR_UNKNOWN;
        self.has_attribute(token, special)
    }

    fn has_attribute(self, token: u32, attribute: sys::llama_token_attr) -> bool {
        // SAFETY: see `is_end`.
        let attributes = unsafe { sys::llama_vocab_get_attr(self.vocab, signed(token)) };
        attributes & attribute != 0
    }

    /// Returns the vocabulary's own spelling of `token`.
    pub(crate) fn spelling(self, token: u32) -> Option<String> {
        if token as usize >= self.len() {
            return None;
        }
        // SAFETY: the id is below `len`; the string lives as long as the vocabulary.
        let text = unsafe {
            let text = sys::llama_vocab_get_text(self.vocab, signed(token));
            (!text.is_null()).then(|| CStr::from_ptr(text))?
        };
        Some(text.to_string_lossy().into_owned())
    }

    /// Returns true if both vocabularies have the same tokens with the same ids.
    pub(crate) fn has_same_tokens(self, other: Vocab<'_>) -> bool {
        let is_same = |token| self.spelling(token) == other.spelling(token);
        self.len() == other.len() && self.kind() == other.kind() && self.tokens().all(is_same)
    }

    /// Returns the tokens of `text`. Special tokens in `text` become their ids. `add_special` adds
    /// those that the file puts around every text. `None` for texts of 2 GB and more.
    pub(crate) fn tokenize(self, text: &str, add_special: bool) -> Option<Vec<u32>> {
        self.tokenize_with(text, add_special, true)
    }

    /// Returns the tokens of a rendered conversation. Special tokens that the template wrote become
    /// their ids; those in messages stay text. `None` for texts of 2 GB and more.
    pub(crate) fn tokenize_prompt(
        self,
        prompt: &RenderedPrompt,
        control_tokens: &ControlTokens,
    ) -> Option<Vec<u32>> {
        if prompt.literal_tokens().is_empty() {
            return self.tokenize(prompt.text(), false);
        }
        // Does what llama.cpp does with special tokens, but only with those of the template.
        let mut tokens = Vec::new();
        let mut strip_next = false;
        let mut text = "";
        for piece in prompt.pieces(control_tokens) {
            match piece {
                Piece::Text(next) if strip_next => text = next.trim_ascii_start(),
                Piece::Text(next) => text = next,
                Piece::Control(spelling) => {
                    let control = self.tokenize(spelling, false)?;
                    let has = |attribute| control.iter().any(|&t| self.has_attribute(t, attribute));
                    if has(sys::LLAMA_TOKEN_ATTR_LSTRIP) {
                        text = text.trim_ascii_end();
                    }
                    strip_next = has(sys::LLAMA_TOKEN_ATTR_RSTRIP);
                    tokens.extend(self.tokenize_text(text)?);
                    tokens.extend(control);
                }
            }
        }
        tokens.extend(self.tokenize_text(text)?);
        Some(tokens)
    }

    /// Returns the tokens of `text`, none of them special. `None` for texts of 2 GB and more.
    pub(crate) fn tokenize_text(self, text: &str) -> Option<Vec<u32>> {
        if text.is_empty() {
            return Some(Vec::new());
        }
        let tokens = self.tokenize_with(text, false, false)?;
        let tokens = tokens.into_iter().flat_map(|token| {
            // SentencePiece may join ordinary pieces until they spell a special token.
            if self.is_special(token) {
                self.byte_tokens(token)
            } else {
                vec![token]
            }
        });
        Some(tokens.collect())
    }

    /// Returns the spelling of `token` as byte tokens, which every SentencePiece vocabulary has.
    fn byte_tokens(self, token: u32) -> Vec<u32> {
        let spelling = self.spelling(token).unwrap_or_default();
        let byte = |byte: u8| {
            let name = format!("<0x{byte:02X}>");
            let is_byte = |token: &u32| self.has_attribute(*token, sys::LLAMA_TOKEN_ATTR_BYTE);
            let mut bytes = self.tokens().filter(is_byte);
            bytes.find(|&token| self.spelling(token).as_deref() == Some(&*name))
        };
        spelling.bytes().filter_map(byte).collect()
    }

    /// Returns the tokens of `text`, as [`Vocab::tokenize`] does. Special tokens in `text` stay text
    /// unless `parse_special`.
    pub(crate) fn tokenize_with(
        self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> Option<Vec<u32>> {
        let n_bytes = i32::try_from(text.len()).ok()?;
        let mut tokens: Vec<sys::llama_token> = vec![0; text.len() / 2 + 8];
        loop {
            let capacity = i32::try_from(tokens.len()).ok()?;
            // SAFETY: both lengths are those of what is pointed to; llama.cpp writes at most `capacity`
            // tokens and returns minus the number that it needs if they are more.
            let n = unsafe {
                sys::llama_tokenize(
                    self.vocab,
                    text.as_ptr().cast::<c_char>(),
                    n_bytes,
                    tokens.as_mut_ptr(),
                    capacity,
                    add_special,
                    parse_special,
                )
            };
            match usize::try_from(n) {
                Ok(n) => {
                    tokens.truncate(n);
                    return tokens.into_iter().map(|t| u32::try_from(t).ok()).collect();
                }
                Err(_) => tokens.resize(usize::try_from(n.checked_neg()?).ok()?, 0),
            }
        }
    }

    /// Appends the bytes of `token`; control tokens have none unless `special`. `at_start` omits a
    /// leading space.
    pub(crate) fn piece(self, token: u32, at_start: bool, special: bool, output: &mut Vec<u8>) {
        let mut capacity = 64_usize;
        let start = output.len();
        loop {
            output.resize(start + capacity, 0);
            // SAFETY: the id is below `len`; llama.cpp writes at most `capacity` bytes and returns minus
            // the number that it needs if they are more.
            let n = unsafe {
                sys::llama_token_to_piece(
                    self.vocab,
                    signed(token),
                    output[start..].as_mut_ptr().cast::<c_char>(),
                    i32::try_from(capacity).unwrap_or(i32::MAX),
                    i32::from(at_start),
                    special,
                )
            };
            match usize::try_from(n) {
                Ok(n) => return output.truncate(start + n),
                Err(_) if n.unsigned_abs() as usize > capacity => {
                    capacity = n.unsigned_abs() as usize
                }
                Err(_) => return output.truncate(start),
            }
        }
    }
}
