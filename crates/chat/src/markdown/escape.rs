//! Escapes text for HTML.

/// Writes `text` as HTML text or as the value of a quoted attribute.
pub(super) fn escape(text: &str, html: &mut String) {
    // Writing to a string cannot fail.
    let _ = pulldown_cmark_escape::escape_html(html, text);
}

/// As [`escape`], as a new string.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 8);
    escape(text, &mut html);
    html
}
