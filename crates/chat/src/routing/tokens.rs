//! An estimate of tokens, because only a loaded model can count them.
//!
//! Rule: the pages have the same estimate (`estimatedTokens` in `ui/src/state/tokens.ts`), so that what they
//! say before a message is sent is what happens to it. Both are tested with
//! `tests/fixtures/estimated_tokens.json`.

/// Characters that are about one token, except those of Chinese, Japanese and Korean.
const CHARS_PER_TOKEN: usize = 4;

/// Returns about how many tokens a text has: one for each Chinese, Japanese or Korean character, and one for
/// four other UTF-16 code units.
pub fn estimated_tokens(text: &str) -> usize {
    let (mut n_wide, mut n_others) = (0, 0);
    for letter in text.chars() {
        match letter {
            '\u{3040}'..='\u{30ff}'
            | '\u{3400}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7af}'
            | '\u{f900}'..='\u{faff}' => n_wide += 1,
            _ => n_others += letter.len_utf16(),
        }
    }
    n_wide + n_others.div_ceil(CHARS_PER_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Case {
        /// Texts, and how often each is repeated.
        parts: Vec<(String, usize)>,
        tokens: usize,
    }

    #[test]
    fn the_estimate_is_that_of_the_pages() {
        let cases = include_str!("../../tests/fixtures/estimated_tokens.json");
        let cases: Vec<Case> = serde_json::from_str(cases).unwrap();
        assert!(cases.len() > 5);
        for Case { parts, tokens } in cases {
            let text: String = parts.iter().map(|(part, n)| part.repeat(*n)).collect();
            assert_eq!(estimated_tokens(&text), tokens, "{parts:?}");
        }
    }
}
