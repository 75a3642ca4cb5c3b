//! Words as the search compares them: without case, accents and width.
//!
//! Scripts that are written without blanks between words, such as Chinese, Japanese and Thai, and
//! Korean, whose words take endings, are cut into single characters, and what is searched for
//! becomes a row of them. So words of any length are found, also inside of longer ones.
//!
//! Rule: the index, the query and the highlighting all use these words, so none of them disagrees
//! with another. A change here changes [`VERSION`], by which an older index is built anew.

use unicode_normalization::UnicodeNormalization;

/// Names these rules.
pub(crate) const VERSION: &str = "1";

/// A word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// Where it begins in the text, in bytes.
    pub(crate) start: usize,
    /// Where it ends.
    pub(crate) end: usize,
    /// What it is compared by.
    pub(crate) folded: String,
}

/// The words of a text in order.
pub(crate) fn words(text: &str) -> impl Iterator<Item = Word> + '_ {
    let mut letters = text.char_indices().peekable();
    std::iter::from_fn(move || {
        loop {
            let (start, first) = letters.next()?;
            if !first.is_alphanumeric() {
                continue;
            }
            let mut end = start + first.len_utf8();
            let is_alone = is_unspaced(first);
            while let Some((at, next)) = letters.peek().copied() {
                let belongs =
                    is_mark(next) || (!is_alone && next.is_alphanumeric() && !is_unspaced(next));
                if !belongs {
                    break;
                }
                end = at + next.len_utf8();
                letters.next();
            }
            let folded = fold(&text[start..end]);
            if !folded.is_empty() {
                return Some(Word { start, end, folded });
            }
        }
    })
}

/// What the index is given of a text: its words with blanks between.
pub(crate) fn indexed(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for word in words(text) {
        folded.push_str(&word.folded);
        folded.push(' ');
    }
    folded
}

/// These rules and the Unicode tables that they rest on.
pub(crate) fn version() -> String {
    format!(
        "{VERSION} {:?} {:?}",
        char::UNICODE_VERSION,
        unicode_normalization::UNICODE_VERSION
    )
}

fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    let bare = word
        .nfkd()
        .filter(|letter| !is_accent(*letter))
        .nfc()
        .flat_map(char::to_lowercase);
    let mut folded = String::with_capacity(word.len());
    for letter in bare {
        match letter {
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'þ' => folded.push_str("th"),
            'ø' => folded.push('o'),
            'đ' | 'ð' => folded.push('d'),
            'ł' => folded.push('l'),
            'ı' => folded.push('i'),
            'ħ' => folded.push('h'),
            'ς' => folded.push('σ'),
            // The index splits at ASCII that is no letter or digit, and lower-casing can leave an
            // accent behind.
            other if is_accent(other) || (other.is_ascii() && !other.is_ascii_alphanumeric()) => {}
            other => folded.push(other),
        }
    }
    folded
}

/// Accents of Latin, Greek and Cyrillic letters. The voicing marks of kana are none: they make
/// another sound.
fn is_accent(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36f}')
}

/// Belongs to the letter before it, whatever that is.
fn is_mark(letter: char) -> bool {
    is_accent(letter)
        || matches!(
            letter,
            '\u{3099}' | '\u{309a}' | '\u{ff9e}' | '\u{ff9f}' | '\u{200d}'
        )
}

/// Scripts without blanks between words, and Hangul.
fn is_unspaced(letter: char) -> bool {
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

    fn folded(text: &str) -> Vec<String> {
        words(text).map(|word| word.folded).collect()
    }

    #[test]
    fn case_accents_and_width_do_not_count() {
        assert_eq!(folded("Straße, Ärger"), ["strasse", "arger"]);
        assert_eq!(folded("Çà et là: œuvre"), ["ca", "et", "la", "oeuvre"]);
        assert_eq!(folded("ＡＢＣ１２"), ["abc12"]);
        assert_eq!(folded("e\u{301}te\u{301}"), folded("été"));
        assert_eq!(folded("Ёлка İstanbul"), ["елка", "istanbul"]);
    }

    #[test]
    fn scripts_without_blanks_are_cut_into_characters() {
        assert_eq!(folded("学习Rust语言"), ["学", "习", "rust", "语", "言"]);
        assert_eq!(folded("か\u{3099}く"), ["が", "く"]);
        assert_eq!(folded("ｶﾞｸ"), ["ガ", "ク"]);
        assert_ne!(folded("が"), folded("か"));
    }

    #[test]
    fn punctuation_is_no_word() {
        assert_eq!(folded("a_b \"c\" -- * ( NEAR"), ["a", "b", "c", "near"]);
        assert_eq!(folded("\0 \u{fffd} 🙂"), Vec::<String>::new());
    }
}
