//! Events for programs: one JSON object a line.
//!
//! Rule: the lines are `TokenEvent` as `transom-engine` serialises it, plus `error`, which is
//! always the last.

use std::io::{self, Write};

use serde::Serialize;
use transom_engine::{JobControl, TokenEvent, TokenSink};

/// Writes each event as a line, and cancels the job when the reader has gone.
pub(crate) struct JsonLines<'a> {
    out: &'a mut dyn Write,
    control: &'a JobControl,
    error: Option<io::Error>,
}

impl<'a> JsonLines<'a> {
    /// Lines on `out` for the job that `control` holds.
    pub(crate) fn new(out: &'a mut dyn Write, control: &'a JobControl) -> Self {
        Self {
            out,
            control,
            error: None,
        }
    }

    /// The first failure to write.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }
}

impl TokenSink for JsonLines<'_> {
    fn on_event(&mut self, event: TokenEvent) {
        if self.error.is_some() {
            return;
        }
        if let Err(error) = write_line(self.out, &event) {
            self.error = Some(error);
            self.control.cancel();
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "event", rename = "error")]
struct ErrorLine<'a> {
    exit_code: u8,
    message: &'a str,
}

/// Writes the closing line of a run that failed.
pub(crate) fn write_error(out: &mut dyn Write, exit_code: u8, message: &str) -> io::Result<()> {
    write_line(out, &ErrorLine { exit_code, message })
}

/// Writes `value` as one line, at once.
pub(crate) fn write_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    out.write_all(line.as_bytes())?;
    out.flush()
}
