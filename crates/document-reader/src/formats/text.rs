//! Plain text in any encoding.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// How much of a file is looked at to recognize UTF-16.
const SAMPLE_BYTES: usize = 4096;

/// Decodes a file, or returns `None` if it is not text. The order: a byte order mark, UTF-16, UTF-8,
/// and the encoding that the letters of the text suggest.
pub(super) fn decode(bytes: &[u8]) -> Option<String> {
    if let Some((encoding, bom_bytes)) = Encoding::for_bom(bytes) {
        let (text, had_errors) = encoding.decode_without_bom_handling(&bytes[bom_bytes..]);
        // The mark of UTF-16 has only two bytes, with which binary data may begin too.
        let is_text = encoding == UTF_8 || !had_errors;
        return is_text.then(|| text.into_owned());
    }
    if let Some(encoding) = utf_16(bytes) {
        let (text, had_errors) = encoding.decode_without_bom_handling(bytes);
        return (!had_errors).then(|| text.into_owned());
    }
    if is_binary(bytes) {
        return None;
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Some(text.to_owned());
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(bytes, true);
    let encoding = detector.guess(None, Utf8Detection::Allow);
    let (text, _) = encoding.decode_without_bom_handling(bytes);
    Some(text.into_owned())
}

/// Recognizes UTF-16 without a byte order mark: most characters of a text in a European language
/// have a zero as their high byte, and none as their low byte.
fn utf_16(bytes: &[u8]) -> Option<&'static Encoding> {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let zeros_at = |offset: usize| {
        let bytes = sample.iter().skip(offset).step_by(2);
        bytes.filter(|byte| **byte == 0).count()
    };
    let n_most = sample.len() / 4 + 1;
    match (zeros_at(0), zeros_at(1)) {
        (0, high) if high >= n_most => Some(UTF_16LE),
        (high, 0) if high >= n_most => Some(UTF_16BE),
        _ => None,
    }
}

/// Returns true if a zero, or more than 2 % of control characters that no text has, occur.
fn is_binary(bytes: &[u8]) -> bool {
    // Logs contain escape sequences for colors, and old files end with U+001A.
    let is_control = |byte: &&u8| {
        byte.is_ascii_control() && !matches!(byte, b'\t'..=b'\r' | b'\x08' | b'\x1a' | b'\x1b')
    };
    bytes.contains(&0) || bytes.iter().filter(is_control).count() * 50 > bytes.len()
}
