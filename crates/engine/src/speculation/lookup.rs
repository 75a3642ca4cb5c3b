//! Finds earlier occurrences of the last few tokens, and the tokens that followed.
//!
//! The index works like that of an LZ77 compressor: a hash table maps each pair of tokens to the
//! last position where the pair ended, and each position links to the previous one. Adding a token
//! and looking it up take constant time, however long the context is.
//!
//! Memory: 12 to 16 bytes per token, so 2 MB for 128K tokens.

use std::ops::Range;

use crate::generation::common_prefix_len;

/// Minimum number of equal tokens in a match. On revisions of source code, on other source code and
/// on prose, 2 was never slower than 3 or 4; [`DraftPolicy`](crate::speculation::DraftPolicy) knows
/// that short matches are often wrong.
const MIN_MATCH_LENGTH: usize = 2;

/// Maximum number of tokens to compare. A longer match makes a draft no better.
const MAX_MATCH_LENGTH: usize = 32;

/// Maximum number of positions to compare, latest first.
const MAX_CANDIDATES: usize = 32;

const MIN_SLOTS: usize = 1024;

/// No earlier occurrence. No pair ends at position 0.
const NONE: u32 = 0;

/// An earlier position whose preceding tokens equal the last ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Number of equal tokens, at most 32.
    pub length: usize,
    /// Position of the token that followed: the first draft token.
    pub next: usize,
}

/// The tokens of prompt and response, with an index.
#[derive(Debug, Clone, Default)]
pub struct PromptLookup {
    tokens: Vec<u32>,
    /// For each token: the previous position where the same pair ended as at this token.
    previous: Vec<u32>,
    /// For each hash of a pair: the last position where it ended. The length is a power of two.
    latest: Vec<u32>,
}

impl PromptLookup {
    /// Returns the tokens, in order.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Appends a token.
    pub fn push(&mut self, token: u32) {
        self.tokens.push(token);
        if self.tokens.len() > self.latest.len() {
            self.rebuild_index();
        } else {
            self.index(self.tokens.len());
        }
    }

    /// Appends tokens.
    pub fn extend(&mut self, tokens: &[u32]) {
        tokens.iter().for_each(|&token| self.push(token));
    }

    /// Replaces the tokens. The common prefix stays indexed.
    pub fn set(&mut self, tokens: &[u32]) {
        let n_shared = common_prefix_len(&self.tokens, tokens);
        self.truncate(n_shared);
        self.extend(&tokens[n_shared..]);
    }

    /// Keeps the first `n` tokens.
    pub fn truncate(&mut self, n: usize) {
        while self.tokens.len() > n {
            // The newest position is the head of its chain, so its predecessor becomes the head
            // again.
            if let Some(slot) = self.slot(self.tokens.len()) {
                self.latest[slot] = self.previous[self.tokens.len() - 1];
            }
            self.tokens.pop();
            self.previous.pop();
        }
    }

    /// Removes tokens by position. Costs as much as appending the tokens after them.
    pub fn remove(&mut self, range: Range<usize>) {
        let end = range.end.min(self.tokens.len());
        let after = self.tokens[end..].to_vec();
        self.truncate(range.start.min(end));
        self.extend(&after);
    }

    /// Returns the longest match of the last tokens, the latest one among equals.
    pub fn find(&self) -> Option<Match> {
        let tokens = &*self.tokens;
        let mut best: Option<Match> = None;
        let mut position = *self.previous.last()?;
        for _ in 0..MAX_CANDIDATES {
            if position == NONE {
                break;
            }
            let next = position as usize;
            let last = tokens.iter().rev().take(MAX_MATCH_LENGTH);
            let length = last
                .zip(tokens[..next].iter().rev())
                .take_while(|(a, b)| a == b)
                .count();
            // A shorter match means that another pair has the same hash.
            if length >= MIN_MATCH_LENGTH && best.is_none_or(|best| length > best.length) {
                best = Some(Match { length, next });
                if length == MAX_MATCH_LENGTH {
                    break;
                }
            }
            position = self.previous[next - 1];
        }
        best
    }

    /// Appends to `draft` the `n` tokens that followed `found`. At the end of the tokens the draft
    /// continues with itself, so repetition is drafted to continue.
    pub fn draft(&self, found: Match, n: usize, draft: &mut Vec<u32>) {
        let start = draft.len();
        for position in found.next..found.next + n {
            let token = match self.tokens.get(position) {
                Some(&token) => token,
                None => draft[start + position - self.tokens.len()],
            };
            draft.push(token);
        }
    }

    /// Indexes the pair that ends before position `end`, the newest.
    fn index(&mut self, end: usize) {
        let previous = match self.slot(end) {
            // Contexts are far shorter than `u32::MAX`.
            Some(slot) => std::mem::replace(&mut self.latest[slot], end as u32),
            None => NONE,
        };
        self.previous.push(previous);
    }

    /// Rebuilds the index with a table of twice the size, so that few pairs share a slot.
    fn rebuild_index(&mut self) {
        let n_slots = (self.tokens.len() * 2).next_power_of_two().max(MIN_SLOTS);
        self.latest.clear();
        self.latest.resize(n_slots, NONE);
        self.previous.clear();
        for end in 1..=self.tokens.len() {
            self.index(end);
        }
    }

    fn slot(&self, end: usize) -> Option<usize> {
        let pair: &[u32; MIN_MATCH_LENGTH] = self.tokens[..end].last_chunk()?;
        // Multiplicative hashing: the highest bits depend on all bits of the tokens.
        let hash = pair.iter().fold(0_u64, |hash, &token| {
            (hash ^ u64::from(token)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        let bits = self.latest.len().trailing_zeros();
        Some((hash >> (64 - bits)) as usize)
    }
}

#[cfg(test)]
mod tests;
