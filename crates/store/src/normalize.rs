//! Normalizes words for the search: without case, accents and width.
//!
//! Text in scripts without spaces between words, such as Chinese, Japanese and Thai, and in Korean,
//! whose words have endings, is split into single characters, and a query in them becomes a phrase
//! of characters. So words of any length are found, also inside longer ones.
//!
//! Rule: the index, the query and the highlighting all use these words, so they always agree. A
//! change here must change [`VERSION`], so that older indexes are rebuilt.

use unicode_normalization::UnicodeNormalization;

/// The version of these rules.
pub(crate) const VERSION: &str = "1";

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NormalizedWord {
    /// The offset of its first byte in the text.
    pub(crate) start: usize,
    /// The offset after its last byte.
    pub(crate) end: usize,
    /// The normalized word, for comparisons.
    pub(crate) normalized: String,
}

/// Returns the words of a text in order.
pub(crate) fn words(text: &str) -> impl Iterator<Item = NormalizedWord> + '_ {
    let mut letters = text.char_indices().peekable();
    std::iter::from_fn(move || {
        loop {
            let (start, first) = letters.next()?;
            if !first.is_alphanumeric() {
                continue;
            }
            let mut end = start + first.len_utf8();
            let is_single_character = is_written_without_spaces(first);
            while let Some((at, next)) = letters.peek().copied() {
                let belongs = is_mark(next)
                    || (!is_single_character
                        && next.is_alphanumeric()
                        && !is_written_without_spaces(next));
                if !belongs {
                    break;
                }
                end = at + next.len_utf8();
                letters.next();
            }
            let normalized = normalize(&text[start..end]);
            if !normalized.is_empty() {
                return Some(NormalizedWord {
                    start,
                    end,
                    normalized,
                });
            }
        }
    })
}

/// Returns the normalized words of a text, separated by spaces, for the index.
pub(crate) fn indexed_text(text: &str) -> String {
    let mut normalized = String::with_capacity(text.len());
    for word in words(text) {
        normalized.push_str(&word.normalized);
        normalized.push(' ');
    }
    normalized
}

/// Returns the version of these rules and of the Unicode tables that they use.
pub(crate) fn version() -> String {
    format!(
        "{VERSION} {:?} {:?}",
        char::UNICODE_VERSION,
        unicode_normalization::UNICODE_VERSION
    )
}

fn normalize(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    let base_letters = word
        .nfkd()
        .filter(|letter| !is_accent(*letter))
        .nfc()
        .flat_map(char::to_lowercase);
    let mut normalized = String::with_capacity(word.len());
    for letter in base_letters {
        match letter {
            'ß' => normalized.push_str("ss"),
            'æ' => normalized.push_str("ae"),
            'œ' => normalized.push_str("oe"),
            'þ' => normalized.push_str("th"),
            'ø' => normalized.push('o'),
            'đ' | 'ð' => normalized.push('d'),
            'ł' => normalized.push('l'),
            'ı' => normalized.push('i'),
            'ħ' => normalized.push('h'),
            'ς' => normalized.push('σ'),
            // The index splits at ASCII characters other than letters and digits, and converting to
            // lower case can leave an accent.
            other if is_accent(other) || (other.is_ascii() && !other.is_ascii_alphanumeric()) => {}
            other => normalized.push(other),
        }
    }
    normalized
}

/// Returns true for accents of Latin, Greek and Cyrillic letters. The voicing marks of kana are not
/// accents, because they make another sound.
fn is_accent(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36f}')
}

/// Returns true for characters that belong to the letter before them.
fn is_mark(letter: char) -> bool {
    is_accent(letter)
        || matches!(
            letter,
            '\u{3099}' | '\u{309a}' | '\u{ff9e}' | '\u{ff9f}' | '\u{200d}'
        )
}

/// Returns true for scripts without spaces between words, and for Hangul.
fn is_written_without_spaces(letter: char) -> bool {
    matches!(u32::from(letter),
        0x0e00..=0x0eff        // Thai, Lao
        | 0x1000..=0x109f      // Myanmar
        | 0x1100..=0x11ff      // Hangul, by parts
        | 0x1780..=0x17ff      // Khmer
        | 0x2e80..=0x2fdf      // radicals
        | 0x3005..=0x3007
        | 0x3040..=0x30ff      // kana
        | 0x3100..=0x31ff
        | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff      // Han
        | 0xa960..=0xa97f
        | 0xac00..=0xd7ff      // Hangul
        | 0xf900..=0xfaff
        | 0xff66..=0xff9f      // kana of half width
        | 0x1b000..=0x1b16f
        | 0x20000..=0x3ffff) // rarer Han
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalized(text: &str) -> Vec<String> {
        words(text).map(|word| word.normalized).collect()
    }

    #[test]
    fn case_accents_and_width_are_ignored() {
        assert_eq!(normalized("Straße, Ärger"), ["strasse", "arger"]);
        assert_eq!(normalized("Çà et là: œuvre"), ["ca", "et", "la", "oeuvre"]);
        assert_eq!(normalized("ＡＢＣ１２"), ["abc12"]);
        assert_eq!(normalized("e\u{301}te\u{301}"), normalized("été"));
        assert_eq!(normalized("Ёлка İstanbul"), ["елка", "istanbul"]);
    }

    #[test]
    fn scripts_without_spaces_are_split_into_characters() {
        assert_eq!(normalized("学习Rust语言"), ["学", "习", "rust", "语", "言"]);
        assert_eq!(normalized("か\u{3099}く"), ["が", "く"]);
        assert_eq!(normalized("ｶﾞｸ"), ["ガ", "ク"]);
        assert_ne!(normalized("が"), normalized("か"));
    }

    #[test]
    fn punctuation_is_not_a_word() {
        assert_eq!(normalized("a_b \"c\" -- * ( NEAR"), ["a", "b", "c", "near"]);
        assert_eq!(normalized("\0 \u{fffd} 🙂"), Vec::<String>::new());
    }
}
