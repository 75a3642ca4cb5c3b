//! Events for programs: one JSON object a line.
//!
//! Rule: the lines are `TokenEvent` as `transom-engine` serialises it; before them `queued` and
//! `loading` while the answer waits for its turn or its model; and `error`, which is always the
//! last.

use std::io::{self, Write};
use std::ops::ControlFlow;

use serde::Serialize;
use transom_supervisor::AnswerEvent;

/// Writes each event as a line, and breaks when the reader has gone.
pub(crate) struct JsonLines<'a> {
    out: &'a mut dyn Write,
    error: Option<io::Error>,
}

impl<'a> JsonLines<'a> {
    /// Lines on `out`.
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, error: None }
    }

    /// The first failure to write.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    /// Writes one step of an ask. Its end is the command's to write.
    pub(crate) fn on_event(&mut self, event: &AnswerEvent) -> ControlFlow<()> {
        match event {
            AnswerEvent::Token { event } => self.write(event),
            AnswerEvent::Queued { position, held } => self.write(&Wait::Queued {
                position: *position,
                held: held.as_deref(),
            }),
            AnswerEvent::Loading { progress } => self.write(&Wait::Loading {
                done_bytes: progress.map(|progress| progress.done_bytes),
                total_bytes: progress.map(|progress| progress.total_bytes),
            }),
            AnswerEvent::Ended { .. } => ControlFlow::Continue(()),
        }
    }

    /// Writes `value` as a line.
    pub(crate) fn write(&mut self, value: &impl Serialize) -> ControlFlow<()> {
        if self.error.is_none() {
            self.error = write_line(self.out, value).err();
        }
        match self.error {
            None => ControlFlow::Continue(()),
            Some(_) => ControlFlow::Break(()),
        }
    }
}

/// What comes before an answer begins.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Wait<'a> {
    Queued {
        /// Answers before this one.
        position: usize,
        /// Why nothing is answered at present.
        held: Option<&'a str>,
    },
    Loading {
        /// Absent until weights are read.
        #[serde(skip_serializing_if = "Option::is_none")]
        done_bytes: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        total_bytes: Option<u64>,
    },
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
