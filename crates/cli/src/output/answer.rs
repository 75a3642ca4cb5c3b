//! An answer as a person reads it: text as it comes, reasoning set apart, progress before it.
//!
//! Rule: on a terminal, control characters of the model are not passed on; into a pipe, the answer
//! goes as it is.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::ControlFlow;

use transom_engine::{Section, TokenEvent};
use transom_files::is_control;
use transom_supervisor::ResponseEvent;

use crate::console::{Console, DIM, RESET};
use crate::output::progress::Progress;

/// What becomes of the reasoning section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reasoning {
    /// Shown dimmed: a person watches.
    Dimmed,
    /// Shown between `<think>` and `</think>`.
    Tagged,
    /// Left out: a program or a file wants the answer.
    Hidden,
}

impl Reasoning {
    /// Dimmed on a terminal (tagged where it cannot be dimmed); elsewhere only when asked for.
    pub(crate) fn for_console(console: &Console, is_asked_for: bool) -> Self {
        match (console.terminals.stdout, console.colour) {
            (true, true) => Self::Dimmed,
            (true, false) => Self::Tagged,
            (false, _) if is_asked_for => Self::Tagged,
            (false, _) => Self::Hidden,
        }
    }
}

/// Streams an answer, and keeps its text.
pub(crate) struct AnswerWriter<'a> {
    out: &'a mut dyn Write,
    progress: Progress<'a>,
    /// For people.
    model: &'a str,
    reasoning: Reasoning,
    is_terminal: bool,
    section: Option<Section>,
    ends_with_newline: bool,
    answer: String,
    error: Option<io::Error>,
}

impl<'a> AnswerWriter<'a> {
    /// A writer on `console` for an answer of the model called `model`.
    pub(crate) fn new(console: &'a mut Console, model: &'a str, reasoning: Reasoning) -> Self {
        let is_drawn = console.terminals.stderr && console.colour;
        Self {
            is_terminal: console.terminals.stdout,
            out: console.out,
            progress: Progress::on(console.err, is_drawn),
            model,
            reasoning,
            section: None,
            ends_with_newline: true,
            answer: String::new(),
            error: None,
        }
    }

    /// Takes one step of the ask, and breaks when the reader has gone.
    pub(crate) fn on_event(&mut self, event: ResponseEvent) -> ControlFlow<()> {
        match event {
            ResponseEvent::Token { event } => self.on_token(event),
            wait => self.progress.show_wait(self.model, &wait),
        }
        match self.error {
            None => ControlFlow::Continue(()),
            Some(_) => ControlFlow::Break(()),
        }
    }

    /// Writes a note to standard error, before the answer's text.
    pub(crate) fn note(&mut self, text: &str) {
        self.progress.note(text);
    }

    /// Ends the last line and returns the answer without its reasoning, or why it could not be
    /// written.
    pub(crate) fn finish(mut self) -> io::Result<String> {
        self.progress.clear();
        let end = match (self.section, self.reasoning) {
            (Some(Section::Reasoning), Reasoning::Dimmed) => RESET,
            (Some(Section::Reasoning), Reasoning::Tagged) => "\n</think>",
            _ => "",
        };
        self.write(end);
        if !self.ends_with_newline {
            self.write("\n");
        }
        self.error.map_or(Ok(self.answer), Err)
    }

    fn on_text(&mut self, section: Section, text: &str) {
        self.progress.clear();
        let mut text = text;
        if self.section != Some(section) {
            if self.section.is_some() || section == Section::Reasoning {
                // Models part the sections with blank lines; `begin` does it for them.
                text = text.trim_start_matches('\n');
                if text.is_empty() {
                    return;
                }
            }
            self.begin(section);
        }
        if section == Section::Answer {
            self.answer.push_str(text);
        } else if self.reasoning == Reasoning::Hidden {
            self.progress.show("Thinking …");
            return;
        }
        let text = if self.is_terminal {
            without_controls(text)
        } else {
            Cow::Borrowed(text)
        };
        self.write(&text);
    }

    fn begin(&mut self, section: Section) {
        let mark = match (self.section, section, self.reasoning) {
            (_, Section::Reasoning, Reasoning::Dimmed) => DIM,
            (_, Section::Reasoning, Reasoning::Tagged) => "<think>\n",
            (Some(Section::Reasoning), Section::Answer, Reasoning::Dimmed) => "\x1b[0m\n\n",
            (Some(Section::Reasoning), Section::Answer, Reasoning::Tagged) => "\n</think>\n\n",
            _ => "",
        };
        self.section = Some(section);
        self.write(mark);
    }

    fn write(&mut self, text: &str) {
        if text.is_empty() || self.error.is_some() {
            return;
        }
        self.ends_with_newline = text.ends_with('\n');
        let written = self
            .out
            .write_all(text.as_bytes())
            .and_then(|()| self.out.flush());
        self.error = written.err();
    }

    fn on_token(&mut self, event: TokenEvent) {
        match event {
            TokenEvent::Started { .. } => self.progress.clear(),
            TokenEvent::Prefill { done, total } => {
                self.progress
                    .show(&format!("Reading the prompt … {done} of {total} tokens"));
            }
            TokenEvent::Text { section, text, .. } => self.on_text(section, &text),
            TokenEvent::Finished { .. } => self.progress.clear(),
        }
    }
}

/// If this is the start of an answer: how many messages the model no longer sees.
pub(crate) fn dropped_at_start(event: &ResponseEvent) -> Option<usize> {
    match event {
        ResponseEvent::Token {
            event: TokenEvent::Started {
                dropped_messages, ..
            },
        } => Some(*dropped_messages),
        _ => None,
    }
}

/// A model can write escape sequences that move the cursor or rename the window, and characters
/// that turn the direction of text round.
fn without_controls(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !is_control(c) || c == '\n' || c == '\t';
    if text.chars().all(is_plain) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().filter(|c| is_plain(*c)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_console::TestConsole;
    use Section::{Answer, Reasoning as Thought};

    fn said(section: Section, text: &str) -> ResponseEvent {
        let event = TokenEvent::Text {
            section,
            text: text.to_owned(),
            generated_tokens: 0,
        };
        ResponseEvent::Token { event }
    }

    /// Streams `pieces` and returns what the reader sees.
    fn shown(terminal: bool, reasoning: Reasoning, pieces: &[(Section, &str)]) -> String {
        let mut streams = TestConsole::default();
        streams.terminals.stdout = terminal;
        let mut console = streams.console();
        let mut writer = AnswerWriter::new(&mut console, "m", reasoning);
        for (section, text) in pieces {
            assert!(writer.on_event(said(*section, text)).is_continue());
        }
        writer.finish().unwrap();
        streams.out_text()
    }

    #[test]
    fn an_answer_ends_with_exactly_one_newline_of_ours() {
        let check = |pieces: &[(Section, &str)], expect: &str| {
            assert_eq!(shown(false, Reasoning::Hidden, pieces), expect);
        };
        check(&[(Answer, "Hi"), (Answer, " there")], "Hi there\n");
        check(&[(Answer, "Hi\n")], "Hi\n");
        check(&[], "");
    }

    #[test]
    fn reasoning_is_dimmed_tagged_or_hidden() {
        let pieces = [(Thought, "\nHm."), (Answer, "\n\n"), (Answer, "Paris.")];
        let check = |reasoning, expect: &str| {
            assert_eq!(shown(true, reasoning, &pieces), expect, "{reasoning:?}");
        };
        check(Reasoning::Dimmed, "\x1b[2mHm.\x1b[0m\n\nParis.\n");
        check(Reasoning::Tagged, "<think>\nHm.\n</think>\n\nParis.\n");
        check(Reasoning::Hidden, "Paris.\n");
    }

    #[test]
    fn reasoning_that_is_cut_off_leaves_no_style_behind() {
        let pieces = [(Thought, "Hm")];
        assert_eq!(
            shown(true, Reasoning::Dimmed, &pieces),
            "\x1b[2mHm\x1b[0m\n"
        );
        assert_eq!(
            shown(true, Reasoning::Tagged, &pieces),
            "<think>\nHm\n</think>\n"
        );
    }

    #[test]
    fn escape_sequences_of_the_model_reach_a_file_but_not_a_terminal() {
        let pieces = [(Answer, "a\x1b]0;gone\x07\tb\u{9b}2J\u{202e}")];
        assert_eq!(shown(true, Reasoning::Dimmed, &pieces), "a]0;gone\tb2J\n");
        let raw = shown(false, Reasoning::Hidden, &pieces);
        assert_eq!(raw, "a\x1b]0;gone\x07\tb\u{9b}2J\u{202e}\n");
    }

    #[test]
    fn a_reader_that_went_away_cancels_the_job() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut streams = TestConsole::default();
        let mut closed = Closed;
        let mut console = streams.console();
        console.out = &mut closed;
        let mut writer = AnswerWriter::new(&mut console, "m", Reasoning::Hidden);
        assert!(writer.on_event(said(Answer, "Hi")).is_break());
        let error = writer.finish().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
