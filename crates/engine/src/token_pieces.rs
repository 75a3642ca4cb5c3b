//! Texts as tokens and tokens as text, for programs that count, cut or bias them. Nothing is computed.

use serde::{Deserialize, Serialize};

/// What to convert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenInput {
    /// A text to split into tokens.
    Text {
        /// The text; may be empty.
        text: String,
        /// Adds the special tokens that the tokenizer puts around every text.
        add_special: bool,
        /// Special tokens that are spelled in the text become their ids. Otherwise they stay text.
        parse_special: bool,
    },
    /// Token ids to write as text.
    Tokens(Vec<u32>),
}

/// A token, and the text that it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenPiece {
    /// The id of the token.
    pub id: u32,
    /// Its bytes within a text, which may be part of a character. Those of a special token are its
    /// spelling.
    pub bytes: Vec<u8>,
}
