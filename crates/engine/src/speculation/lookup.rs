//! Finds where the last few tokens stood before.

use std::ops::Range;

/// Where the end of the tokens stood before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Tokens that are the same.
    pub length: usize,
    /// Place of the token that followed them.
    pub next: usize,
}

/// The tokens of prompt and answer, indexed by what precedes them.
#[derive(Debug, Clone, Default)]
pub struct PromptLookup {
    tokens: Vec<u32>,
}

impl PromptLookup {
    /// Of no tokens.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one token.
    pub fn push(&mut self, token: u32) {
        self.tokens.push(token);
    }

    /// Appends tokens.
    pub fn extend(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
    }

    /// Drops all tokens.
    pub fn clear(&mut self) {
        self.tokens.clear();
    }

    /// Takes tokens out by their places; those behind move up.
    pub fn remove(&mut self, range: Range<usize>) {
        let end = range.end.min(self.tokens.len());
        self.tokens.drain(range.start.min(end)..end);
    }
}
