//! The streams that a command reads and writes: the process's three, or a test's buffers.
//!
//! Rule: nothing else in this crate touches standard input, output or error, apart from the line
//! editor, which needs the terminal itself.

use std::io::{BufRead, Write};

use indicatif::ProgressDrawTarget;
use serde::Serialize;
use transom_files::visible;
use transom_terminal::{Layout, Progress, write_json_line};

use crate::{Failure, Result};

pub(crate) struct Console<'a> {
    pub(crate) input: &'a mut dyn BufRead,
    /// Standard output: responses and results.
    pub(crate) out: &'a mut dyn Write,
    /// Standard error: progress, notes and errors.
    pub(crate) err: &'a mut dyn Write,
    /// Which of the streams are terminals.
    pub(crate) terminals: Terminals,
    /// Whether terminals get escape sequences.
    pub(crate) color: bool,
    /// Returns the columns of the terminal at this moment.
    pub(crate) columns: fn() -> usize,
    /// Opens standard error, which is a terminal, for drawing.
    pub(crate) draw_target: &'a dyn Fn() -> ProgressDrawTarget,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terminals {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
}

impl Console<'_> {
    /// Writes `text` to standard output at once and unchanged: untrusted values in it must be
    /// [`visible`].
    pub(crate) fn print(&mut self, text: &str) -> Result {
        write_now(self.out, text).map_err(Failure::Output)
    }

    /// Writes `value` to standard output as one line of JSON.
    pub(crate) fn print_json(&mut self, value: &impl Serialize) -> Result {
        write_json_line(self.out, value).map_err(Failure::Output)
    }

    /// Writes a result, as JSON or as text.
    pub(crate) fn print_result<T: Serialize>(
        &mut self,
        is_json: bool,
        value: &T,
        text: impl FnOnce(&T, Layout) -> String,
    ) -> Result {
        match is_json {
            true => self.print_json(value),
            false => self.print(&text(value, self.layout())),
        }
    }

    /// Writes one line to standard error, dimmed on a terminal. Control characters in it are
    /// replaced.
    ///
    /// Write errors are ignored: they cannot be reported anywhere.
    pub(crate) fn note(&mut self, text: &str) {
        let layout = Layout {
            is_dimmed: self.draws_progress(),
            ..Layout::default()
        };
        self.write_err(&(layout.dim(&visible(text)) + "\n"));
    }

    /// Writes `text` to standard error unchanged, such as a question: untrusted values in it must be
    /// [`visible`].
    pub(crate) fn write_err(&mut self, text: &str) {
        let _ = write_now(self.err, text);
    }

    /// Returns the layout for standard output.
    pub(crate) fn layout(&self) -> Layout {
        Layout {
            columns: self.terminals.stdout.then(self.columns),
            is_dimmed: self.terminals.stdout && self.color,
        }
    }

    /// Returns true if standard error is a terminal that gets escape sequences.
    pub(crate) fn draws_progress(&self) -> bool {
        self.terminals.stderr && self.color
    }

    /// Returns a dimmed line on standard error, which shows nothing yet.
    pub(crate) fn progress(&self) -> Progress {
        Progress::new(self.progress_target())
    }

    /// Returns where progress is drawn: nowhere unless [`Self::draws_progress`].
    pub(crate) fn progress_target(&self) -> ProgressDrawTarget {
        match self.draws_progress() {
            true => (self.draw_target)(),
            false => ProgressDrawTarget::hidden(),
        }
    }

    /// Returns true if a person types the input and sees the responses: both ends are terminals.
    pub(crate) fn is_interactive(&self) -> bool {
        self.terminals.stdin && self.terminals.stdout
    }
}

fn write_now(stream: &mut dyn Write, text: &str) -> std::io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}
