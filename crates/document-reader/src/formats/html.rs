//! Web pages, without markup, scripts and styles.

use transom_documents::protocol::{Extracted, Reply};
use transom_documents::{DocumentProblem, Format};

/// Columns at which lines are wrapped. Wide enough that the cells of most tables stay on one line.
const COLUMNS: usize = 500;

/// Returns true if the text begins like a web page. An XML declaration and comments may precede.
pub(super) fn is_html(text: &str) -> bool {
    let mut rest = text.trim_start();
    loop {
        let end = if rest.starts_with("<?xml") {
            "?>"
        } else if rest.starts_with("<!--") {
            "-->"
        } else {
            break;
        };
        match rest.split_once(end) {
            Some((_, after)) => rest = after.trim_start(),
            None => return false,
        }
    }
    ["<!doctype html", "<html"].iter().any(|start| {
        let head = rest.get(..start.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(start))
    })
}

/// Extracts the text of a web page.
pub(super) fn extract(html: &str) -> Reply {
    Ok(Extracted::new(Format::Html, text_of(html)?))
}

/// Returns the text of a web page or a part of it. Headings and lists keep the marks of Markdown.
pub(super) fn text_of(html: &str) -> Result<String, DocumentProblem> {
    let text = html2text::config::plain_no_decorate()
        .no_table_borders()
        .allow_width_overflow()
        .string_from_read(html.as_bytes(), COLUMNS)
        .map_err(DocumentProblem::damaged)?;
    let lines = text.lines().map(|line| match line.trim_end() {
        // A horizontal rule is as wide as the page.
        rule if rule.starts_with('─') && rule.chars().all(|c| c == '─') => "---",
        line => line,
    });
    let lines: Vec<&str> = lines.collect();
    Ok(lines.join("\n"))
}
