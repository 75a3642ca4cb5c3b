//! JSON, one value a line, that is safe to show in a terminal.

use std::io::{self, Write};

use serde::Serialize;
use transom_files::is_control;

/// Writes `value` as one line, at once. Programs read the same value, and the line is safe to show in
/// a terminal.
pub fn write_json_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = escaped(serde_json::to_string(value)?);
    line.push('\n');
    out.write_all(line.as_bytes())?;
    out.flush()
}

/// Escapes the control characters that `serde_json` leaves as they are. All of them are in strings,
/// and none needs more than four digits.
fn escaped(json: String) -> String {
    if !json.contains(is_control) {
        return json;
    }
    let escape = |character| match is_control(character) {
        true => format!("\\u{:04x}", u32::from(character)),
        false => character.to_string(),
    };
    json.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_keep_their_value() {
        let text = "a\x1b\x7f\u{9b}2J\u{202e}\n\u{feff}é";
        let mut out = Vec::new();
        write_json_line(&mut out, &text).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert_eq!(line, "\"a\\u001b\\u007f\\u009b2J\\u202e\\n\u{feff}é\"\n");
        let read: String = serde_json::from_str(&line).unwrap();
        assert_eq!(read, text);
    }
}
