//! One line on standard error that is overwritten as work goes on, and gone when it is done.
//!
//! Rule: drawn only on a terminal that understands escapes; elsewhere progress is silent.

use std::io::Write;

use transom_engine::LoadProgress;
use transom_files::visible;
use transom_supervisor::ResponseEvent;

use crate::console::{Console, line_of_note};

/// The line. Clear it before anything else is written to the terminal.
pub(crate) struct Progress<'a> {
    err: &'a mut dyn Write,
    is_drawn: bool,
    shown: String,
}

impl<'a> Progress<'a> {
    /// A line on this console's standard error.
    pub(crate) fn new(console: &'a mut Console) -> Self {
        let is_drawn = console.terminals.stderr && console.colour;
        Self::on(console.err, is_drawn)
    }

    /// A line on `err`, drawn only if `is_drawn`.
    pub(crate) fn on(err: &'a mut dyn Write, is_drawn: bool) -> Self {
        Self {
            err,
            is_drawn,
            shown: String::new(),
        }
    }

    /// Replaces the line.
    pub(crate) fn show(&mut self, text: &str) {
        if !self.is_drawn || text == self.shown {
            return;
        }
        text.clone_into(&mut self.shown);
        let text = visible(text);
        self.draw(&format!("\r\x1b[2K\x1b[2m{text}\x1b[0m"));
    }

    /// Shows why the ask for the model called `name` has no answer yet. Other events change
    /// nothing.
    pub(crate) fn show_wait(&mut self, name: &str, event: &ResponseEvent) {
        match event {
            ResponseEvent::Queued {
                blocked_by: Some(reason),
                ..
            } => self.show(&format!("Waiting: {reason} …")),
            ResponseEvent::Queued { position: 0, .. } => self.show("Waiting …"),
            ResponseEvent::Queued { position: 1, .. } => self.show("Waiting for one answer …"),
            ResponseEvent::Queued { position, .. } => {
                self.show(&format!("Waiting for {position} answers …"));
            }
            ResponseEvent::Loading { progress } => self.show_load(name, *progress),
            ResponseEvent::Token { .. } | ResponseEvent::Ended { .. } => {}
        }
    }

    fn show_load(&mut self, name: &str, progress: Option<LoadProgress>) {
        let percent = progress.and_then(|progress| {
            let done_bytes = progress.done_bytes.min(progress.total_bytes);
            (done_bytes * 100).checked_div(progress.total_bytes)
        });
        match percent {
            Some(percent) => self.show(&format!("Loading {name} … {percent} %")),
            None => self.show(&format!("Loading {name} …")),
        }
    }

    /// Writes a line that stays, in place of this one.
    pub(crate) fn note(&mut self, text: &str) {
        self.clear();
        let line = line_of_note(text, self.is_drawn);
        self.draw(&line);
    }

    /// Removes the line.
    pub(crate) fn clear(&mut self) {
        if !self.shown.is_empty() {
            self.shown.clear();
            self.draw("\r\x1b[2K");
        }
    }

    fn draw(&mut self, escapes: &str) {
        // Progress is a courtesy: a stream that fails costs no answer.
        let _ = self
            .err
            .write_all(escapes.as_bytes())
            .and_then(|()| self.err.flush());
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_supervisor::LimitReason;

    #[test]
    fn the_line_is_overwritten_and_leaves_nothing_behind() {
        let mut err = Vec::new();
        let mut progress = Progress::on(&mut err, true);
        for done_bytes in [0, 50, 50, 100] {
            let total_bytes = 100;
            progress.show_load(
                "m",
                Some(LoadProgress {
                    done_bytes,
                    total_bytes,
                }),
            );
        }
        drop(progress);
        let text = String::from_utf8(err).unwrap();
        assert_eq!(text.matches("50 %").count(), 1, "drawn once: {text:?}");
        assert!(text.ends_with("\r\x1b[2K"));
    }

    #[test]
    fn a_name_with_escape_sequences_changes_nothing_but_the_line() {
        let mut err = Vec::new();
        let mut progress = Progress::on(&mut err, true);
        progress.show_load("m\x1b]0;b\x07\nn", None);
        progress.note("n\u{9b}2J\u{202e}");
        drop(progress);
        let text = String::from_utf8(err).unwrap();
        assert!(text.contains("Loading m�]0;b� n …"), "{text:?}");
        assert!(text.contains("n�2J�\x1b[0m\n"), "{text:?}");
    }

    #[test]
    fn without_a_terminal_nothing_is_drawn() {
        let mut err = Vec::new();
        let mut progress = Progress::on(&mut err, false);
        progress.show("Loading");
        drop(progress);
        assert!(err.is_empty());
    }

    #[test]
    fn a_wait_says_for_what() {
        let check = |event: ResponseEvent, expect: &str| {
            let mut err = Vec::new();
            Progress::on(&mut err, true).show_wait("m", &event);
            let text = String::from_utf8(err).unwrap();
            assert!(text.contains(expect), "{text:?}");
        };
        let queued = |position, held| ResponseEvent::Queued {
            position,
            blocked_by: held,
        };
        check(queued(1, None), "Waiting for one answer …");
        check(queued(3, None), "Waiting for 3 answers …");
        let held = Some(LimitReason::LowPower);
        check(queued(0, held), "Waiting: Low Power Mode …");
        check(ResponseEvent::Loading { progress: None }, "Loading m …");
    }

    #[test]
    fn a_model_without_weight_bytes_has_no_percentage() {
        let mut err = Vec::new();
        let mut progress = Progress::on(&mut err, true);
        progress.show_load(
            "m",
            Some(LoadProgress {
                done_bytes: 0,
                total_bytes: 0,
            }),
        );
        drop(progress);
        assert!(!String::from_utf8(err).unwrap().contains('%'));
    }
}
