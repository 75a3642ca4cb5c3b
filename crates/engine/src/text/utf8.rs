//! Assembles complete characters from bytes that are split anywhere.
//!
//! Tokens may end inside a character. The joined output equals `String::from_utf8_lossy` of the
//! joined input.

/// Holds back the bytes of an incomplete character, at most three.
#[derive(Debug, Default)]
pub struct Utf8Buffer {
    partial: Vec<u8>,
}

impl Utf8Buffer {
    /// Adds bytes and returns the characters that are now complete. A sequence that cannot become a
    /// character turns into one U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.partial.extend_from_slice(bytes);
        let complete = self.partial.len() - incomplete_tail(&self.partial);
        let text = String::from_utf8_lossy(&self.partial[..complete]).into_owned();
        self.partial.drain(..complete);
        text
    }

    /// Returns the number of bytes that are held back.
    pub fn n_held(&self) -> usize {
        self.partial.len()
    }

    /// Ends the input: returns U+FFFD if a character is incomplete, else an empty string.
    pub fn finish(&mut self) -> &'static str {
        let is_partial = !self.partial.is_empty();
        self.partial.clear();
        if is_partial { "\u{FFFD}" } else { "" }
    }
}

/// Returns the number of bytes at the end that start an incomplete character.
fn incomplete_tail(bytes: &[u8]) -> usize {
    (1..=bytes.len().min(3))
        .find(|n| {
            let tail = &bytes[bytes.len() - n..];
            std::str::from_utf8(tail)
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}
