//! Fixed texts of about a given number of tokens.
//!
//! Rule: a text depends only on its number and its length, so that every run has the same token
//! counts.

/// Words that are one token in most vocabularies.
const WORDS: [&str; 64] = [
    "the", "people", "water", "city", "work", "house", "music", "little", "river", "every",
    "after", "light", "paper", "story", "never", "world", "small", "green", "under", "write",
    "along", "night", "young", "great", "place", "right", "still", "found", "learn", "between",
    "school", "father", "began", "mother", "earth", "thought", "country", "until", "children",
    "group", "always", "those", "both", "often", "white", "letter", "second", "carry", "state",
    "book", "stop", "without", "miss", "idea", "enough", "eat", "face", "watch", "far", "really",
    "almost", "above", "girl", "ready",
];

/// The lengths of texts in the tokens of one model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TextSizes {
    pub(crate) tokens_per_word: f64,
    /// Tokens that the chat template adds to a message.
    pub(crate) tokens_per_message: usize,
}

impl TextSizes {
    /// Computes the sizes from the tokens of three prompts: a message of one word, a message of
    /// `1 + n_words` words, and three messages of one word.
    pub(crate) fn new(one: usize, n_words: usize, long: usize, three: usize) -> Self {
        let tokens_per_word = long.saturating_sub(one) as f64 / n_words as f64;
        // A template may write more before the first message, which does not count here.
        let two_messages = three.saturating_sub(one) as f64 - 2.0 * tokens_per_word;
        Self {
            tokens_per_word: tokens_per_word.max(f64::MIN_POSITIVE),
            tokens_per_message: (two_messages / 2.0).max(0.0).round() as usize,
        }
    }

    /// Returns the text of a message of about `n_tokens` tokens, including those of the template.
    pub(crate) fn text(&self, number: u64, n_tokens: usize) -> String {
        let n_tokens = n_tokens.saturating_sub(self.tokens_per_message);
        words(
            number,
            (n_tokens as f64 / self.tokens_per_word).round() as usize,
        )
    }
}

/// Returns a text of `n_words` words, at least one. The texts of 64 consecutive numbers have
/// different first words.
pub(crate) fn words(number: u64, n_words: usize) -> String {
    let word = |index: u64| WORDS[(index % WORDS.len() as u64) as usize];
    let rest = (1..n_words as u64).map(|index| word(mixed((number << 32) ^ index)));
    let all: Vec<&str> = std::iter::once(word(number)).chain(rest).collect();
    all.join(" ")
}

/// Returns an evenly distributed number that depends only on `seed` (SplitMix64, Steele et al.
/// 2014).
pub fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_text_has_its_words_and_neighbors_differ_from_the_first_word_on() {
        let texts: Vec<String> = (100..164).map(|number| words(number, 40)).collect();
        for text in &texts {
            assert_eq!(text.split(' ').count(), 40);
        }
        let first = texts.iter().map(|text| text.split(' ').next());
        assert_eq!(first.collect::<HashSet<_>>().len(), 64);
        assert_eq!(words(7, 12), words(7, 12));
        assert!(words(7, 13).starts_with(&words(7, 12)));
        assert_eq!(words(0, 0), "the");
    }

    #[test]
    fn a_message_of_a_length_counts_the_tokens_of_the_template() {
        // Two tokens a word, five a message, and nine before the first one.
        let sizes = TextSizes::new(9 + 5 + 2, 64, 9 + 5 + 130, 9 + 3 * 7);
        let expected = TextSizes {
            tokens_per_word: 2.0,
            tokens_per_message: 5,
        };
        assert_eq!(sizes, expected);
        assert_eq!(sizes.text(1, 105).split(' ').count(), 50);
        assert_eq!(sizes.text(1, 3).split(' ').count(), 1);
    }
}
