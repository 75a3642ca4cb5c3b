//! Refuses tokenizers with rules that make text much longer. A few such rules in a row could fill
//! any memory.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::error::{EngineError, UnsupportedFeature};

/// Maximum factor by which the rules of a tokenizer may lengthen a text. Those of known models
/// replace a space by one character of three bytes.
const MAX_FACTOR: usize = 16;
/// Maximum number of bytes that the rules may put before each piece of text.
const MAX_PREPENDED_BYTES: usize = 64;

/// Checks the normalizer or the decoder of the tokenizer file at `path`.
///
/// # Errors
/// [`EngineError::Unsupported`] if it makes texts too long.
pub(super) fn check(path: &Path, rules: Option<&impl Serialize>) -> Result<(), EngineError> {
    let rules = serde_json::to_value(rules).unwrap_or_default();
    let mut expansion = Expansion {
        factor: 1,
        prepended: 0,
    };
    expansion.add(&rules);
    if expansion.factor <= MAX_FACTOR && expansion.prepended <= MAX_PREPENDED_BYTES {
        return Ok(());
    }
    let reason = format!(
        "its rules could make a text {} times as long and put {} bytes before it; at most \
         {MAX_FACTOR} times and {MAX_PREPENDED_BYTES} bytes are supported",
        expansion.factor, expansion.prepended
    );
    let feature = UnsupportedFeature::Tokenizer;
    Err(EngineError::unsupported(path, feature, reason))
}

struct Expansion {
    factor: usize,
    prepended: usize,
}

impl Expansion {
    /// Adds a rule, including the rules inside it.
    fn add(&mut self, rule: &Value) {
        let bytes = |name: &str| rule[name].as_str().map_or(0, str::len);
        match rule["type"].as_str() {
            Some("Sequence") => {
                let inside = [&rule["normalizers"], &rule["decoders"]];
                let rules = inside.into_iter().filter_map(Value::as_array).flatten();
                rules.for_each(|rule| self.add(rule));
            }
            Some("Replace") => {
                let factor = match rule["pattern"]["String"].as_str() {
                    Some(pattern) if !pattern.is_empty() => {
                        bytes("content").div_ceil(pattern.len())
                    }
                    // A regular expression may match the empty string between any two characters.
                    _ => 1 + bytes("content"),
                };
                self.factor = self.factor.saturating_mul(factor.max(1));
                self.prepended = self.prepended.saturating_mul(factor.max(1));
            }
            Some("Prepend") => self.prepended = self.prepended.saturating_add(bytes("prepend")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn replace(pattern: Value, content: &str) -> Value {
        json!({"type": "Replace", "pattern": pattern, "content": content})
    }

    /// A rule that replaces a letter with `n` letters.
    fn letters(n: usize) -> Value {
        replace(json!({"String": "a"}), &"a".repeat(n))
    }

    fn normalizers(rules: Vec<Value>) -> Value {
        json!({"type": "Sequence", "normalizers": rules})
    }

    #[test]
    fn rules_of_known_models_are_accepted() {
        for rule in [
            Value::Null,
            json!({"type": "NFC"}),
            replace(json!({"String": " "}), "▁"),
            replace(json!({"Regex": " {2,}"}), "▁"),
            normalizers(vec![
                json!({"type": "Prepend", "prepend": "▁"}),
                replace(json!({"String": " "}), "▁"),
            ]),
            json!({"type": "Sequence", "decoders": [
                replace(json!({"String": "▁"}), " "),
                json!({"type": "ByteFallback"}),
            ]}),
        ] {
            assert!(check(Path::new("f"), Some(&rule)).is_ok(), "{rule}");
        }
    }

    #[test]
    fn rules_that_make_texts_too_long_are_refused() {
        for rule in [
            letters(64),
            normalizers(vec![letters(8); 8]),
            normalizers(vec![letters(64); 20]),
            normalizers(vec![normalizers(vec![letters(4)]), letters(4), letters(4)]),
            json!({"type": "Sequence", "decoders": [letters(5), letters(5)]}),
            replace(json!({"Regex": "a?"}), &"b".repeat(16)),
            replace(json!({"String": ""}), &"b".repeat(16)),
            json!({"type": "Prepend", "prepend": "a".repeat(65)}),
            normalizers(vec![json!({"type": "Prepend", "prepend": "aaaa"}); 20]),
        ] {
            let error = check(Path::new("tokenizer.json"), Some(&rule)).unwrap_err();
            assert!(matches!(error, EngineError::Unsupported { .. }), "{rule}");
            assert!(error.to_string().contains("times as long"), "{error}");
        }
    }
}
