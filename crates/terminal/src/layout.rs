//! The width of a terminal and what it understands.

use std::borrow::Cow;
use std::ffi::OsString;

use transom_files::is_control;

/// How results are laid out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout {
    /// Columns of the terminal; `None` for a pipe or a file.
    pub columns: Option<usize>,
    /// Whether labels are dimmed.
    pub is_dimmed: bool,
}

impl Layout {
    /// Returns the columns that text may fill: the terminal's but one, at most 79.
    pub fn text_width(self) -> usize {
        let columns = self.columns.unwrap_or(DEFAULT_COLUMNS);
        columns.min(DEFAULT_COLUMNS).saturating_sub(1)
    }

    /// Returns `text`, dimmed where labels are.
    pub fn dim(self, text: &str) -> String {
        match self.is_dimmed && !text.is_empty() {
            true => format!("{DIM}{text}{RESET}"),
            false => text.to_owned(),
        }
    }
}

/// Starts dimmed text.
pub const DIM: &str = "\x1b[2m";
/// Ends any style.
pub const RESET: &str = "\x1b[0m";

/// Returns the columns of the terminal that this process writes to.
pub fn columns_of_terminal() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stdout())
        .or_else(|| terminal_size::terminal_size_of(std::io::stderr()));
    // A terminal that does not know its size reports 0.
    let columns = size.map(|(width, _)| usize::from(width.0));
    columns.filter(|&n| n > 0).unwrap_or(DEFAULT_COLUMNS)
}

/// Columns of a terminal that does not report its size, and the most that text fills.
pub const DEFAULT_COLUMNS: usize = 80;

/// Returns true unless `NO_COLOR` is set and not empty (no-color.org), or the terminal knows no
/// escape sequences.
pub fn allows_color(no_color: Option<OsString>, term: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty()) && term.is_some_and(|term| term != "dumb")
}

/// Removes control characters but line breaks and tabs: untrusted text can contain escape sequences that
/// move the cursor or rename the window, and characters that reverse the direction of text.
pub fn without_controls(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !is_control(c) || c == '\n' || c == '\t';
    match text.chars().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.chars().filter(|c| is_plain(*c)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_is_off_for_no_color_and_for_terminals_without_escape_sequences() {
        let check = |no_color: Option<&str>, term: Option<&str>, expect: bool| {
            let allowed = allows_color(no_color.map(Into::into), term.map(Into::into));
            assert_eq!(allowed, expect, "NO_COLOR={no_color:?} TERM={term:?}");
        };
        check(None, Some("xterm-256color"), true);
        check(Some(""), Some("xterm"), true);
        check(Some("1"), Some("xterm"), false);
        check(None, Some("dumb"), false);
        check(None, None, false);
    }
}
