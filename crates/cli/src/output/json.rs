//! Events for programs: one JSON object a line.
//!
//! Rule: the lines are `TokenEvent` as `transom-engine` serialises it; before them `queued` and
//! `loading` while the answer waits for its turn or its model; and `error`, which is always the
//! last.

use std::io::{self, Write};
use std::ops::ControlFlow;

use serde::Serialize;
use transom_engine::LoadProgress;
use transom_files::is_control;
use transom_supervisor::ResponseEvent;

/// Writes each event as a line, and breaks when the reader has gone.
pub(crate) struct JsonLines<'a> {
    out: &'a mut dyn Write,
    error: Option<io::Error>,
    /// Tenths of the load that were told of.
    loaded_tenths: Option<u64>,
}

impl<'a> JsonLines<'a> {
    /// Lines on `out`.
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self {
            out,
            error: None,
            loaded_tenths: None,
        }
    }

    /// The first failure to write.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    /// Writes one step of an ask. Its end is the command's to write.
    pub(crate) fn on_event(&mut self, event: &ResponseEvent) -> ControlFlow<()> {
        match event {
            ResponseEvent::Token { event } => self.write(event),
            ResponseEvent::Queued {
                position,
                blocked_by: held,
            } => self.write(&Wait::Queued {
                position: *position,
                held: held.map(|because| because.to_string()),
            }),
            ResponseEvent::Loading { progress } => self.on_load(*progress),
            ResponseEvent::Ended { .. } => ControlFlow::Continue(()),
        }
    }

    /// Weights come in by thousands of steps; a line a tenth is enough.
    fn on_load(&mut self, progress: Option<LoadProgress>) -> ControlFlow<()> {
        let tenths = progress.and_then(|progress| {
            let done_bytes = progress.done_bytes.min(progress.total_bytes);
            (done_bytes * 10).checked_div(progress.total_bytes)
        });
        if tenths.is_none() || tenths == self.loaded_tenths {
            return ControlFlow::Continue(());
        }
        self.loaded_tenths = tenths;
        self.write(&Wait::Loading {
            done_bytes: progress.map_or(0, |progress| progress.done_bytes),
            total_bytes: progress.map_or(0, |progress| progress.total_bytes),
        })
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
enum Wait {
    Queued {
        /// Answers before this one.
        position: usize,
        /// Why nothing is answered at present, in words.
        held: Option<String>,
    },
    Loading {
        /// Of the weights.
        done_bytes: u64,
        total_bytes: u64,
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

/// Writes `value` as one line, at once. The line means the same to a program, and is safe to show in
/// a terminal.
pub(crate) fn write_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
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
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match is_control(character) {
            true => safe.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_supervisor::LimitReason;

    #[test]
    fn control_characters_are_escaped_and_mean_the_same() {
        let text = "a\x1b\x7f\u{9b}2J\u{202e}\n\u{feff}é";
        let mut out = Vec::new();
        write_line(&mut out, &text).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert_eq!(line, "\"a\\u001b\\u007f\\u009b2J\\u202e\\n\u{feff}é\"\n");
        let read: String = serde_json::from_str(&line).unwrap();
        assert_eq!(read, text);
    }

    #[test]
    fn a_load_of_many_steps_is_told_in_tenths_and_a_wait_with_its_reason() {
        let mut out = Vec::new();
        let mut lines = JsonLines::new(&mut out);
        let queued = ResponseEvent::Queued {
            position: 2,
            blocked_by: Some(LimitReason::LowPower),
        };
        assert!(lines.on_event(&queued).is_continue());
        for done_bytes in 0..=1000 {
            let total_bytes = 1000;
            let progress = Some(LoadProgress {
                done_bytes,
                total_bytes,
            });
            let event = ResponseEvent::Loading { progress };
            assert!(lines.on_event(&event).is_continue());
        }
        lines.finish().unwrap();
        let text = String::from_utf8(out).unwrap();
        let mut lines = text.lines();
        let queued = r#"{"event":"queued","position":2,"held":"Low Power Mode"}"#;
        assert_eq!(lines.next(), Some(queued));
        let begun = r#"{"event":"loading","done_bytes":0,"total_bytes":1000}"#;
        assert_eq!(lines.next(), Some(begun));
        assert_eq!(lines.count(), 10);
    }
}
