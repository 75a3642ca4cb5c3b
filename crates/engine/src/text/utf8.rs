//! Whole characters out of bytes that arrive in any cut.
//!
//! Tokens may end in the middle of a character. The rule: the text that comes out, joined, equals
//! `String::from_utf8_lossy` of the bytes that went in, joined.

/// Holds back the bytes of a character that is not complete yet; never more than three.
#[derive(Debug, Default)]
pub struct Utf8Buffer {
    partial: Vec<u8>,
}

impl Utf8Buffer {
    /// Takes bytes and returns the characters that are now complete. A sequence that cannot become
    /// a character turns into one U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.partial.extend_from_slice(bytes);
        let complete = self.partial.len() - incomplete_tail(&self.partial);
        let text = String::from_utf8_lossy(&self.partial[..complete]).into_owned();
        self.partial.drain(..complete);
        text
    }

    /// No more bytes will come: U+FFFD for a character that was left incomplete, else nothing.
    pub fn finish(&mut self) -> &'static str {
        let is_partial = !self.partial.is_empty();
        self.partial.clear();
        if is_partial { "\u{FFFD}" } else { "" }
    }
}

/// Bytes at the end that more bytes could complete to a character.
fn incomplete_tail(bytes: &[u8]) -> usize {
    (1..=bytes.len().min(3))
        .find(|n| {
            let tail = &bytes[bytes.len() - n..];
            std::str::from_utf8(tail)
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}
