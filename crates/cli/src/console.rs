//! Where a command reads and writes: the process's three streams, or a test's buffers.
//!
//! Rule: nothing else in this room touches standard input, output or error, apart from the line
//! editor, which needs the terminal itself.

use std::ffi::OsString;
use std::io::{BufRead, Write};

use transom_files::visible;

use crate::failure::Failure;

/// The streams of one run.
pub(crate) struct Console<'a> {
    /// Standard input.
    pub(crate) input: &'a mut dyn BufRead,
    /// Standard output: answers and results.
    pub(crate) out: &'a mut dyn Write,
    /// Standard error: progress, notes and errors.
    pub(crate) err: &'a mut dyn Write,
    /// Which of them a person is looking at.
    pub(crate) terminals: Terminals,
    /// Whether escape sequences are welcome on those that are terminals.
    pub(crate) colour: bool,
    /// Columns of the terminal, now: a person may make it narrower at any time.
    pub(crate) columns: fn() -> usize,
}

/// Which streams are terminals.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terminals {
    /// Standard input.
    pub(crate) stdin: bool,
    /// Standard output.
    pub(crate) stdout: bool,
    /// Standard error.
    pub(crate) stderr: bool,
}

impl Console<'_> {
    /// Writes `text` to standard output at once, as it is: values from outside must be
    /// [`visible`].
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Failure> {
        write_now(self.out, text).map_err(Failure::Output)
    }

    /// Writes one calm line to standard error, dimmed on a terminal.
    ///
    /// A note that cannot be written is let go: nobody is there to read it.
    pub(crate) fn note(&mut self, text: &str) {
        let line = line_of_note(text, self.terminals.stderr && self.colour);
        let _ = write_now(self.err, &line);
    }

    /// Writes `text` to standard error as it is, before something is typed: values from outside must
    /// be [`visible`].
    pub(crate) fn ask(&mut self, text: &str) {
        let _ = write_now(self.err, text);
    }

    /// Writes whole lines to standard error as they are: what a person is about to agree to. Values
    /// from outside must be [`visible`].
    pub(crate) fn note_plain(&mut self, lines: &str) {
        let _ = write_now(self.err, lines);
    }

    /// Columns of the terminal that results are shown on; `None` if it is none.
    pub(crate) fn result_columns(&self) -> Option<usize> {
        self.terminals.stdout.then(self.columns)
    }

    /// Whether labels in results may be dimmed.
    pub(crate) fn dims_results(&self) -> bool {
        self.terminals.stdout && self.colour
    }

    /// Whether a person types here and sees the answers: both ends are terminals.
    pub(crate) fn is_interactive(&self) -> bool {
        self.terminals.stdin && self.terminals.stdout
    }
}

/// Begins dimmed text.
pub(crate) const DIM: &str = "\x1b[2m";
/// Ends any style.
pub(crate) const RESET: &str = "\x1b[0m";

/// A note as it is written, with its line end. Control characters in it become visible.
pub(crate) fn line_of_note(text: &str, is_dimmed: bool) -> String {
    let text = visible(text);
    if is_dimmed {
        format!("{DIM}{text}{RESET}\n")
    } else {
        format!("{text}\n")
    }
}

/// Columns of the terminal that this process writes to.
pub(crate) fn columns_of_terminal() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stdout())
        .or_else(|| terminal_size::terminal_size_of(std::io::stderr()));
    // A terminal that does not know its size says 0.
    let columns = size.map(|(width, _)| usize::from(width.0));
    columns.filter(|&n| n > 0).unwrap_or(USUAL_COLUMNS)
}

/// Columns of a terminal that does not say how many it has.
pub(crate) const USUAL_COLUMNS: usize = 80;

fn write_now(stream: &mut dyn Write, text: &str) -> std::io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

/// Honours `NO_COLOR` (no-color.org: set and not empty) and terminals that know no escapes.
pub(crate) fn colour_is_wanted(no_color: Option<OsString>, term: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty()) && term.is_some_and(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_off_for_no_color_and_for_terminals_without_escapes() {
        let check = |no_color: Option<&str>, term: Option<&str>, expect: bool| {
            let wanted = colour_is_wanted(no_color.map(Into::into), term.map(Into::into));
            assert_eq!(wanted, expect, "NO_COLOR={no_color:?} TERM={term:?}");
        };
        check(None, Some("xterm-256color"), true);
        check(Some(""), Some("xterm"), true);
        check(Some("1"), Some("xterm"), false);
        check(None, Some("dumb"), false);
        check(None, None, false);
    }
}
