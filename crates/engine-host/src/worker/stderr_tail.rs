//! The standard error of a child: each line goes to the log, and the last lines are kept.
//!
//! Rule: memory is bounded, whatever a child prints, and no line controls a terminal.

use std::collections::VecDeque;

/// Lines that are kept for the error about an exit.
const N_LINES: usize = 10;

/// Longer lines are cut, because a child may print anything.
const MAX_LINE_BYTES: usize = 500;

/// Target of these lines in the log of this process.
const TARGET: &str = "transom_engine_process";

/// The last lines that a child printed.
#[derive(Debug, Default)]
pub(super) struct StderrTail {
    lines: VecDeque<String>,
    /// The start of a line without a line break so far.
    partial: Vec<u8>,
}

impl StderrTail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = MAX_LINE_BYTES - self.partial.len();
            self.partial
                .extend_from_slice(&text[..text.len().min(room)]);
            if is_whole {
                self.end_line();
            }
        }
    }

    /// Returns the last lines, including an unfinished one.
    pub(super) fn finish(mut self) -> String {
        self.end_line();
        self.lines.make_contiguous().join("\n")
    }

    fn end_line(&mut self) {
        let bytes = std::mem::take(&mut self.partial);
        let line = String::from_utf8_lossy(&bytes);
        // A line may quote a file of the model.
        let line = transom_files::visible(line.trim_end());
        if line.is_empty() {
            return;
        }
        log_line(&line);
        if self.lines.len() == N_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line.into_owned());
    }
}

/// Logs a line of the child at the level that the line begins with.
fn log_line(line: &str) {
    match level(line) {
        Some((tracing::Level::ERROR, text)) => tracing::error!(target: TARGET, "{text}"),
        Some((tracing::Level::WARN, text)) => tracing::warn!(target: TARGET, "{text}"),
        Some((tracing::Level::DEBUG, text)) => tracing::debug!(target: TARGET, "{text}"),
        Some((tracing::Level::TRACE, text)) => tracing::trace!(target: TARGET, "{text}"),
        Some((_, text)) => tracing::info!(target: TARGET, "{text}"),
        None => tracing::info!(target: TARGET, "{line}"),
    }
}

/// Returns the level that a line of our own log begins with, and the rest of the line.
fn level(line: &str) -> Option<(tracing::Level, &str)> {
    let (word, rest) = line.trim_start().split_once(' ')?;
    let is_level = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].contains(&word);
    let level = word.parse().ok().filter(|_| is_level)?;
    Some((level, rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept_and_long_ones_are_cut() {
        let mut tail = StderrTail::default();
        for n in 0..100 {
            tail.push(format!("line {n}\n").as_bytes());
        }
        tail.push(&[b'x'; 100_000]);
        assert_eq!(tail.partial.len(), MAX_LINE_BYTES);
        let kept = tail.finish();
        let lines: Vec<_> = kept.lines().collect();
        assert_eq!(lines.len(), N_LINES);
        assert_eq!(lines[0], "line 91");
        assert_eq!(lines[9].len(), MAX_LINE_BYTES);
    }

    #[test]
    fn lines_do_not_depend_on_how_their_bytes_arrive() {
        let text = "first\n\n  second \r\nthird \u{1f44d} and \u{e4}";
        let mut whole = StderrTail::default();
        whole.push(text.as_bytes());
        let mut cut = StderrTail::default();
        for byte in text.as_bytes() {
            cut.push(&[*byte]);
        }
        let expected = "first\n  second\nthird \u{1f44d} and \u{e4}";
        assert_eq!(whole.finish(), expected);
        assert_eq!(cut.finish(), expected);
    }

    #[test]
    fn control_characters_of_a_line_become_visible() {
        let mut tail = StderrTail::default();
        tail.push("WARN\tvalue=\"x\u{202e}\u{1b}[31my\"\r\n".as_bytes());
        assert_eq!(tail.finish(), "WARN value=\"x��[31my\"");
    }

    #[test]
    fn a_line_of_our_log_keeps_its_level() {
        let (parsed, rest) = level(" WARN transom_engine_mlx::memory: little left").unwrap();
        assert_eq!(parsed, tracing::Level::WARN);
        assert_eq!(rest, "transom_engine_mlx::memory: little left");
        assert!(level("Error something of a library").is_none());
        assert!(level("3 errors").is_none());
        assert!(level("ERROR").is_none());
    }
}
