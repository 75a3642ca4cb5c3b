//! Converts token ids to bytes, one at a time.
//!
//! `tokenizer.json` describes decoding as a chain of steps over the list of all tokens. Every step
//! that language models use needs only one token and possibly whether it is the first, so the chain
//! can run token by token. [`DecodePlan`] is that chain, checked once; [`Detokenizer`] runs it.

use std::path::Path;
use std::sync::Arc;

use tokenizers::Decoder;
use tokenizers::decoders::DecoderWrapper;

use crate::error::{EngineError, UnsupportedFeature};
use crate::text::REASONING_MARKERS;

/// The decoder of a `tokenizer.json`, as steps that run token by token.
#[derive(Debug, Clone)]
pub(crate) struct DecodePlan {
    steps: Vec<DecoderWrapper>,
    /// Without a decoder, a space is put before every token but the first.
    has_decoder: bool,
    /// Removed from the start of the joined text: the character, and how often at most.
    text_start: Option<(char, usize)>,
}

impl DecodePlan {
    /// Reads the decoder. `path` is for messages.
    pub(crate) fn new(path: &Path, decoder: Option<&DecoderWrapper>) -> Result<Self, EngineError> {
        let mut plan = Self {
            steps: Vec::new(),
            has_decoder: decoder.is_some(),
            text_start: None,
        };
        if let Some(decoder) = decoder {
            plan.add(decoder, &mut false).map_err(|reason| {
                EngineError::unsupported(path, UnsupportedFeature::Tokenizer, reason)
            })?;
        }
        Ok(plan)
    }

    /// Returns true if the bytes of a token depend on the token before it.
    pub(super) fn depends_on_last_token(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| matches!(step, DecoderWrapper::BPE(_)))
    }

    /// Returns true if a space at the start of a text is removed.
    pub(super) fn strips_first_space(&self) -> bool {
        let metaspace = |step: &DecoderWrapper| matches!(step, DecoderWrapper::Metaspace(_));
        self.text_start
            .is_some_and(|(content, n)| content == ' ' && n > 0)
            || self.steps.iter().any(metaspace)
    }

    /// Adds a step. After the tokens are joined, only one at the start of the text can run token by
    /// token.
    fn add(&mut self, decoder: &DecoderWrapper, is_joined: &mut bool) -> Result<(), &'static str> {
        match decoder {
            DecoderWrapper::Sequence(sequence) => {
                let mut decoders = sequence.get_decoders().iter();
                return decoders.try_for_each(|decoder| self.add(decoder, is_joined));
            }
            DecoderWrapper::Fuse(_) => *is_joined = true,
            DecoderWrapper::Strip(strip)
                if *is_joined && strip.stop == 0 && self.text_start.is_none() =>
            {
                self.text_start = Some((strip.content, strip.start));
            }
            _ if *is_joined => {
                return Err(
                    "decoder: after joining the tokens only a Strip at the start of the text is \
                     supported",
                );
            }
            DecoderWrapper::CTC(_) => {
                return Err("decoder: CTC is for speech recognition, not for text");
            }
            _ => {
                *is_joined = matches!(decoder, DecoderWrapper::ByteLevel(_));
                self.steps.push(decoder.clone());
            }
        }
        Ok(())
    }
}

enum Piece {
    Text(String),
    Bytes(Vec<u8>),
}

/// Converts the token ids of one text to bytes, in order.
#[derive(Debug, Clone)]
pub struct Detokenizer {
    tokenizer: Arc<tokenizers::Tokenizer>,
    plan: Arc<DecodePlan>,
    is_first: bool,
    word_ended: bool,
    text_start: Option<(char, usize)>,
}

impl Detokenizer {
    pub(crate) fn new(tokenizer: Arc<tokenizers::Tokenizer>, plan: Arc<DecodePlan>) -> Self {
        Self {
            tokenizer,
            is_first: true,
            word_ended: false,
            text_start: plan.text_start,
            plan,
        }
    }

    /// Returns a detokenizer after some text that ends within a word.
    pub(super) fn within_text(self) -> Self {
        Self {
            is_first: false,
            text_start: None,
            ..self
        }
    }

    /// Returns the bytes that this token adds to the text; they may end inside a character. Empty
    /// for special tokens, except reasoning markers, and for ids outside the vocabulary.
    pub fn push(&mut self, id: u32) -> Vec<u8> {
        let Some(token) = self.tokenizer.id_to_token(id) else {
            return Vec::new();
        };
        let is_special = self
            .tokenizer
            .get_added_vocabulary()
            .is_special_token(&token);
        if is_special && !REASONING_MARKERS.contains(&token.as_str()) {
            return Vec::new();
        }
        let text = match self.plan.has_decoder || self.is_first {
            true => token,
            false => format!(" {token}"),
        };
        let steps = self.plan.steps.iter();
        let piece = steps.fold(Piece::Text(text), |piece, step| match piece {
            Piece::Text(text) => run(step, text, self.is_first, &mut self.word_ended),
            // Bytes are final: the other steps are about text.
            bytes @ Piece::Bytes(_) => bytes,
        });
        self.is_first = false;
        let mut bytes = match piece {
            Piece::Text(text) => text.into_bytes(),
            Piece::Bytes(bytes) => bytes,
        };
        self.strip_start(&mut bytes);
        bytes
    }

    /// Removes the leading characters that the joined text loses at its start.
    fn strip_start(&mut self, bytes: &mut Vec<u8>) {
        while let Some((content, left)) = self.text_start {
            if bytes.is_empty() {
                return;
            }
            let mut buffer = [0; 4];
            let prefix = content.encode_utf8(&mut buffer).as_bytes();
            if left == 0 || !bytes.starts_with(prefix) {
                self.text_start = None;
                return;
            }
            bytes.drain(..prefix.len());
            self.text_start = Some((content, left - 1));
        }
    }
}

fn run(step: &DecoderWrapper, text: String, is_first: bool, word_ended: &mut bool) -> Piece {
    Piece::Text(match step {
        DecoderWrapper::ByteLevel(_) => {
            return Piece::Bytes(byte_level(&text).unwrap_or_else(|| text.into_bytes()));
        }
        DecoderWrapper::ByteFallback(_) => match fallback_byte(&text) {
            Some(byte) => return Piece::Bytes(vec![byte]),
            None => text,
        },
        DecoderWrapper::Strip(step) => strip(&text, step.content, step.start, step.stop).to_owned(),
        // These may treat the first token of a text in another way.
        DecoderWrapper::Replace(_)
        | DecoderWrapper::Metaspace(_)
        | DecoderWrapper::WordPiece(_) => {
            let before = (!is_first).then(String::new).into_iter();
            let decoded = step.decode_chain(before.chain([text.clone()]).collect());
            // Fails only if a regular expression gives up; then the token stays as it is.
            let decoded = decoded.ok().and_then(|mut tokens| tokens.pop());
            decoded.unwrap_or(text)
        }
        DecoderWrapper::BPE(bpe) => {
            let space = if *word_ended { " " } else { "" };
            let word = text.strip_suffix(bpe.suffix.as_str());
            *word_ended = word.is_some();
            format!("{space}{}", word.unwrap_or(&text))
        }
        // A plan has none of these.
        DecoderWrapper::CTC(_) | DecoderWrapper::Fuse(_) | DecoderWrapper::Sequence(_) => text,
    })
}

fn strip(text: &str, content: char, start: usize, stop: usize) -> &str {
    let mut text = text;
    for _ in 0..start {
        text = text.strip_prefix(content).unwrap_or(text);
    }
    for _ in 0..stop {
        text = text.strip_suffix(content).unwrap_or(text);
    }
    text
}

/// Returns the bytes of a token in GPT-2's alphabet; `None` if it has other characters, as added
/// tokens may.
fn byte_level(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte_of).collect()
}

/// GPT-2's alphabet: printable Latin-1 characters stand for themselves, and the other 68 byte
/// values are numbered from U+0100.
pub(super) fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    let byte = match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7F,
        0x143 => 0xAD,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

/// Returns the byte that `<0xNN>` stands for.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_pair = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_pair.then(|| u8::from_str_radix(digits, 16).ok())?
}
