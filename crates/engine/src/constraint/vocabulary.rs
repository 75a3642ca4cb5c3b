//! The bytes of all tokens of a model, as a tree that is walked to find the tokens that a grammar
//! allows.
//!
//! Rule: the bytes of a token are those that the detokenizer of the engine writes for it within a
//! text. So the text that a reader sees is what the grammar saw.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use llguidance::ParserFactory;
use llguidance::api::ParserLimits;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

use crate::error::EngineError;
use crate::text::REASONING_MARKERS;
use crate::text::reasoning::{MESSAGE_STARTS, OPENING_MARKERS};

/// The longest token that the tree can hold, in bytes. Longer ones, of which no known vocabulary has
/// any, are never allowed.
const MAX_TOKEN_BYTES: usize = 1000;

/// What a token adds to a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenText {
    /// These bytes, as the detokenizer writes them within a text; they may end inside a character.
    Text(Vec<u8>),
    /// Nothing: a control token with this name.
    Special(String),
}

/// The tokens of a model.
#[derive(Debug, Clone, Default)]
pub struct TokenTable {
    /// By token id. As many as the model has logits.
    pub tokens: Vec<TokenText>,
    /// The tokens that end a text.
    pub end_tokens: Vec<u32>,
    /// The detokenizer removes a space from the start of a text, as SentencePiece does.
    pub strips_first_space: bool,
}

/// A [`TokenTable`], ready for grammars. About 150 bytes per token.
pub(super) struct Vocabulary {
    factory: ParserFactory,
    env: TokEnv,
    end_tokens: Vec<u32>,
    /// Tokens that open a reasoning section.
    pub(super) openers: Vec<u32>,
    /// Tokens that begin the next message of gpt-oss.
    pub(super) message_starts: Vec<u32>,
    /// Tokens that consist of line breaks, which are only layout after a reasoning section.
    pub(super) line_breaks: Vec<u32>,
    /// Tokens that begin with a space, if one at the start of a text is removed.
    pub(super) first_spaces: Vec<u32>,
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_tokens = self.trie().vocab_size();
        f.debug_struct("Vocabulary")
            .field("n_tokens", &n_tokens)
            .finish_non_exhaustive()
    }
}

impl Vocabulary {
    /// Builds the tree of a table.
    ///
    /// # Errors
    /// [`EngineError::Backend`] for a vocabulary that the tree cannot hold.
    pub(super) fn new(table: TokenTable, limits: ParserLimits) -> Result<Self, EngineError> {
        // Unwind safe: nothing of the unfinished tree is used.
        let built = catch_unwind(AssertUnwindSafe(|| Self::build(table, limits)));
        let reason = match built {
            Ok(Ok(vocabulary)) => return Ok(vocabulary),
            Ok(Err(reason)) => reason,
            Err(_) => "the vocabulary is too large".to_owned(),
        };
        Err(EngineError::backend("preparing constraints", reason))
    }

    fn build(table: TokenTable, limits: ParserLimits) -> Result<Self, String> {
        let TokenTable {
            tokens,
            mut end_tokens,
            strips_first_space,
        } = table;
        let n_tokens = u32::try_from(tokens.len()).map_err(|error| error.to_string())?;
        end_tokens.retain(|token| *token < n_tokens);
        end_tokens.sort_unstable();
        end_tokens.dedup();
        let spelled = |texts: &[&str]| -> Vec<u32> {
            let is_one = |token: &TokenText| texts.iter().any(|text| token.is(text));
            ids(&tokens, is_one)
        };
        let openers = spelled(&OPENING_MARKERS);
        let message_starts = spelled(&MESSAGE_STARTS);
        let starts_with_space = |token: &TokenText| match token {
            TokenText::Text(bytes) => bytes.len() > 1 && bytes.starts_with(b" "),
            TokenText::Special(_) => false,
        };
        let first_spaces = match strips_first_space {
            true => ids(&tokens, starts_with_space),
            false => Vec::new(),
        };
        let line_breaks = spelled(&["\n", "\n\n", "\r\n"]);
        let words: Vec<Vec<u8>> = tokens.into_iter().map(TokenText::into_word).collect();
        let info = TokRxInfo::new(n_tokens, end_tokens.first().copied().unwrap_or(NO_TOKEN));
        let mut trie = TokTrie::from(&info, &words);
        if !end_tokens.is_empty() {
            trie = trie.with_eos_tokens(&end_tokens);
        }
        drop(words);
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = SlicedBiasComputer::json_slices();
        let factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices);
        let mut factory = factory.map_err(|error| error.to_string())?;
        factory.quiet();
        *factory.limits_mut() = limits;
        Ok(Self {
            factory,
            env,
            end_tokens,
            openers,
            message_starts,
            line_breaks,
            first_spaces,
        })
    }

    pub(super) fn factory(&self) -> &ParserFactory {
        &self.factory
    }

    pub(super) fn trie(&self) -> &TokTrie {
        self.env.tok_trie()
    }

    pub(super) fn end_tokens(&self) -> &[u32] {
        &self.end_tokens
    }

    /// Returns the bytes that the detokenizer writes for `token`: none for a control token that is not
    /// a marker of reasoning.
    pub(super) fn visible(&self, token: u32) -> &[u8] {
        let bytes = self.trie().token(token);
        let Some(name) = bytes.strip_prefix(&[TokTrie::SPECIAL_TOKEN_MARKER]) else {
            return bytes;
        };
        let mut markers = REASONING_MARKERS.iter();
        match markers.any(|marker| marker.as_bytes() == name) {
            true => name,
            false => &[],
        }
    }
}

/// Stands for a missing end token.
const NO_TOKEN: u32 = llguidance::toktrie::INVALID_TOKEN;

fn ids(tokens: &[TokenText], is_one: impl Fn(&TokenText) -> bool) -> Vec<u32> {
    let tokens = (0..).zip(tokens);
    let found = tokens.filter(|(_, token)| is_one(token));
    found.map(|(id, _)| id).collect()
}

impl TokenText {
    /// Returns true if the token, special or not, is spelled like this.
    fn is(&self, text: &str) -> bool {
        match self {
            Self::Text(bytes) => bytes == text.as_bytes(),
            Self::Special(name) => name == text,
        }
    }

    /// Returns the token as the tree spells it: special tokens after a byte that no text has. Tokens
    /// that are never allowed are empty.
    fn into_word(self) -> Vec<u8> {
        let marker = TokTrie::SPECIAL_TOKEN_MARKER;
        let word = match self {
            // A byte that UTF-8 never contains.
            Self::Text(bytes) if bytes.first() == Some(&marker) => Vec::new(),
            Self::Text(bytes) => bytes,
            Self::Special(name) if name.is_empty() => Vec::new(),
            Self::Special(name) => [&[marker][..], name.as_bytes()].concat(),
        };
        match word.len() <= MAX_TOKEN_BYTES {
            true => word,
            false => Vec::new(),
        }
    }
}
