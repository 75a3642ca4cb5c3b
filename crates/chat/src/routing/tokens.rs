//! An estimate of tokens, because only a loaded model can count them.
//!
//! Rule: the pages have the same estimate (`estimatedTokens` in `ui/src/state/tokens.ts`), so that what they
//! say before a message is sent is what happens to it. Both are tested with
//! `tests/fixtures/estimated_tokens.json`.

/// Returns about how many tokens a text has. A letter of English is a quarter of a token; in other languages
/// with these letters, tokens are shorter, with a small vocabulary down to two letters. Many tokenizers have
/// a token for each digit, and few tokens for letters of other alphabets and for signs. A character of
/// Chinese, Japanese or Korean is one token, and an emoji two.
pub fn estimated_tokens(text: &str) -> usize {
    let quarters = text.encode_utf16().map(|unit| match unit {
        0x30..=0x39 | 0x3000.. => 4_usize,
        0x41..=0x5a | 0x61..=0x7a | 0x00..=0x20 => 1,
        _ => 2,
    });
    quarters.sum::<usize>().div_ceil(4)
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
