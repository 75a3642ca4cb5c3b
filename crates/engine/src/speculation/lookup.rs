//! Finds where the last few tokens stood before, and what followed them there.
//!
//! The tokens are indexed as a compressor of the LZ77 family indexes its window: a table from the
//! hash of two tokens to the place where they ended last, and from each place to the one before.
//! A token costs the same to add and to look up however long the context is.
//!
//! Memory: 12 to 16 bytes a token, so 2 MB for 128K tokens.

use std::ops::Range;

/// Tokens that must be the same for a match. Over revisions of source code, other source code and
/// prose, 2 was never slower than 3 or 4; [`Pace`](crate::speculation::Pace) knows that short matches
/// are often wrong.
const LEAST_LENGTH: usize = 2;

/// Tokens that are compared at most. That a match is longer makes the guess no better.
const MOST_LENGTH: usize = 32;

/// Places that are compared at most, the latest first.
const MOST_PLACES: usize = 32;

/// Slots of an index that has tokens.
const LEAST_SLOTS: usize = 1024;

/// Says that tokens have not stood together before. None end at place 0.
const NOWHERE: u32 = 0;

/// An earlier place that looks like the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Tokens before it that are the same as the last ones; counting may stop at 32.
    pub length: usize,
    /// Place of the token that followed: the guess.
    pub next: usize,
}

/// The tokens of prompt and answer.
#[derive(Debug, Clone, Default)]
pub struct PromptLookup {
    tokens: Vec<u32>,
    /// For each token: where the pair that ends with it ended the last time before.
    earlier: Vec<u32>,
    /// For each hash of a pair: where it ended last. A power of two of them.
    latest: Vec<u32>,
}

impl PromptLookup {
    /// Of no tokens.
    pub fn new() -> Self {
        Self::default()
    }

    /// The tokens, in order.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Appends one token.
    pub fn push(&mut self, token: u32) {
        self.tokens.push(token);
        if self.tokens.len() > self.latest.len() {
            self.index_anew();
        } else {
            self.index(self.tokens.len());
        }
    }

    /// Appends tokens.
    pub fn extend(&mut self, tokens: &[u32]) {
        tokens.iter().for_each(|&token| self.push(token));
    }

    /// Makes it hold exactly these tokens. What is the same at the start stays as it is.
    pub fn set(&mut self, tokens: &[u32]) {
        let n_same = self
            .tokens
            .iter()
            .zip(tokens)
            .take_while(|(old, new)| old == new)
            .count();
        self.truncate(n_same);
        self.extend(&tokens[n_same..]);
    }

    /// Keeps the first `n` tokens.
    pub fn truncate(&mut self, n: usize) {
        while self.tokens.len() > n {
            // The newest end is the latest of its hash, so the one before is so again.
            if let Some(slot) = self.slot(self.tokens.len()) {
                self.latest[slot] = self.earlier[self.tokens.len() - 1];
            }
            self.tokens.pop();
            self.earlier.pop();
        }
    }

    /// Takes tokens out by their places; those behind move up. Costs as much as adding those.
    pub fn remove(&mut self, range: Range<usize>) {
        let end = range.end.min(self.tokens.len());
        let behind = self.tokens[end..].to_vec();
        self.truncate(range.start.min(end));
        self.extend(&behind);
    }

    /// The earlier place with the longest match to the end; of equals the latest.
    pub fn find(&self) -> Option<Match> {
        let tokens = &*self.tokens;
        let mut best: Option<Match> = None;
        let mut place = *self.earlier.last()?;
        for _ in 0..MOST_PLACES {
            if place == NOWHERE {
                break;
            }
            let next = place as usize;
            let last = tokens.iter().rev().take(MOST_LENGTH);
            let length = last
                .zip(tokens[..next].iter().rev())
                .take_while(|(a, b)| a == b)
                .count();
            // Fewer means that other tokens have the same hash.
            if length >= LEAST_LENGTH && best.is_none_or(|best| length > best.length) {
                best = Some(Match { length, next });
                if length == MOST_LENGTH {
                    break;
                }
            }
            place = self.earlier[next - 1];
        }
        best
    }

    /// Appends to `draft` the `n` tokens that followed at `found`. Where they run into the end they
    /// go on with what was guessed, so what repeats itself is guessed to go on doing so.
    pub fn draft(&self, found: Match, n: usize, draft: &mut Vec<u32>) {
        let start = draft.len();
        for place in found.next..found.next + n {
            let guess = match self.tokens.get(place) {
                Some(token) => *token,
                None => draft[start + place - self.tokens.len()],
            };
            draft.push(guess);
        }
    }

    /// Enters the pair that ends before place `end`, the newest.
    fn index(&mut self, end: usize) {
        let earlier = match self.slot(end) {
            // Places beyond u32 are far beyond every context.
            Some(slot) => std::mem::replace(&mut self.latest[slot], end as u32),
            None => NOWHERE,
        };
        self.earlier.push(earlier);
    }

    /// With a table of twice the size, so that most slots stay with one pair.
    fn index_anew(&mut self) {
        let n_slots = (self.tokens.len() * 2).next_power_of_two().max(LEAST_SLOTS);
        self.latest.clear();
        self.latest.resize(n_slots, NOWHERE);
        self.earlier.clear();
        for end in 1..=self.tokens.len() {
            self.index(end);
        }
    }

    fn slot(&self, end: usize) -> Option<usize> {
        let pair: &[u32; LEAST_LENGTH] = self.tokens[..end].last_chunk()?;
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
