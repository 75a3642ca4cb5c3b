//! The tokens that may come next.

use llguidance::toktrie::SimpleVob;

/// A set of token ids, one bit for each token of the vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenMask(pub(super) SimpleVob);

impl TokenMask {
    /// Returns the bits, 32 tokens in each word, the lowest id in the lowest bit.
    pub fn words(&self) -> &[u32] {
        self.0.as_slice()
    }

    /// Returns true if `token` may come next.
    pub fn allows(&self, token: u32) -> bool {
        let word = self.words().get(token as usize / 32);
        word.is_some_and(|word| word >> (token % 32) & 1 == 1)
    }

    /// Returns the lowest id in the set.
    pub fn first(&self) -> Option<u32> {
        let found = self.0.first_bit_set();
        found.and_then(|index| u32::try_from(index).ok())
    }
}

#[cfg(any(test, feature = "test-support"))]
impl TokenMask {
    /// Returns the set of `tokens` in a vocabulary of `vocab_size` tokens.
    pub fn of(tokens: &[u32], vocab_size: usize) -> Self {
        let mut set = SimpleVob::alloc(vocab_size);
        tokens.iter().for_each(|token| set.allow_token(*token));
        Self(set)
    }
}
