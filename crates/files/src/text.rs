//! Makes untrusted text safe to show in a terminal or a window title.

use std::borrow::Cow;

/// Returns true for a character that controls how text is shown: a control character, which can
/// begin a terminal escape sequence, or one of Unicode's `Bidi_Control` characters, which can make
/// text read differently from what it says.
pub fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Returns the text on one line and without control characters: line breaks and tabs become spaces,
/// all others U+FFFD.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().map(|character| match character {
        '\n' | '\r' | '\t' => ' ',
        control if is_control(control) => char::REPLACEMENT_CHARACTER,
        other => other,
    });
    Cow::Owned(shown.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced_visibly() {
        assert!(matches!(visible("Grüße, مرحبا 👋🏽"), Cow::Borrowed(_)));
        assert_eq!(visible("a\x1b]0;b\x07\u{9b}31m\x7f\0"), "a�]0;b��31m��");
        assert_eq!(visible("user\u{202e}gpj\u{2066}\u{200f}"), "user�gpj��");
        assert_eq!(visible("one\r\ntwo\tthree"), "one  two three");
    }

    #[test]
    fn every_c0_c1_and_bidi_control_is_replaced() {
        let controls = (0..0x20).chain(0x7f..0xa0).chain([0x61c, 0x200e, 0x200f]);
        let bidi = (0x202a..=0x202e).chain(0x2066..=0x2069);
        for code in controls.chain(bidi) {
            let text = char::from_u32(code).unwrap().to_string();
            assert_ne!(visible(&text), text, "U+{code:04X}");
            assert!(!visible(&text).contains(is_control), "U+{code:04X}");
        }
    }
}
