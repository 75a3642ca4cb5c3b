//! A response as a person reads it: text as it arrives, reasoning set apart, progress before it.
//!
//! Rule: control characters of the model are not written to a terminal. A pipe gets the response
//! unchanged.

use transom_engine::{Section, TokenEvent};
use transom_supervisor::{ModelRequest, ResponseEvent};
use transom_terminal::{DIM, RESET, without_controls};

use crate::client::Completion;
use crate::output::{Progress, ResponseLimits, show_wait};
use crate::{Client, Console, Result};

pub(crate) struct Written {
    pub(crate) completion: Completion,
    /// Its text, without its reasoning.
    pub(crate) text: String,
    /// The limits in force when it began.
    pub(crate) limits: ResponseLimits,
}

/// How a response is written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AnswerForm {
    /// Write the reasoning, even where no person reads it.
    pub(crate) shows_reasoning: bool,
    /// Only return the answer, because a better one may follow.
    pub(crate) is_held_back: bool,
}

/// Sends a request to the model called `model` and writes the response while it arrives. When it begins,
/// `on_start` gets the number of messages that the model no longer sees, and may return a note.
pub(crate) fn write_response(
    request: &ModelRequest,
    model: &str,
    form: AnswerForm,
    client: &Client,
    console: &mut Console,
    on_start: &mut dyn FnMut(usize, &ResponseLimits) -> Option<String>,
) -> Result<Written> {
    let reasoning = Reasoning::for_console(console, form.shows_reasoning);
    let mut writer = AnswerWriter::new(console, model, reasoning);
    writer.is_held_back = form.is_held_back;
    let mut limits = ResponseLimits::default();
    let completion = client.send(request, &mut |event| {
        if let ResponseEvent::Token {
            event: TokenEvent::Started {
                dropped_messages, ..
            },
        } = &event
        {
            let status = client.status();
            let now = status.map(|status| ResponseLimits::of(&status));
            limits = now.unwrap_or_default();
            if let Some(note) = on_start(*dropped_messages, &limits) {
                writer.progress.clear();
                writer.console.note(&note);
            }
        }
        writer.on_event(event)
    })?;
    let text = writer.finish()?;
    Ok(Written {
        completion,
        text,
        limits,
    })
}

/// How the reasoning section is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reasoning {
    /// Dimmed, for a person.
    Dimmed,
    /// Between `<think>` and `</think>`.
    Tagged,
    /// Left out, for a program or a file.
    Hidden,
}

impl Reasoning {
    /// Returns the form for this console: dimmed on a terminal, or tagged if it knows no escape
    /// sequences; elsewhere hidden unless `is_requested`.
    fn for_console(console: &Console, is_requested: bool) -> Self {
        match (console.terminals.stdout, console.color) {
            (true, true) => Self::Dimmed,
            (true, false) => Self::Tagged,
            (false, _) if is_requested => Self::Tagged,
            (false, _) => Self::Hidden,
        }
    }
}

/// Writes a response while it arrives, and keeps its text.
struct AnswerWriter<'a, 'c> {
    console: &'a mut Console<'c>,
    progress: Progress,
    /// The model's name for people.
    model: &'a str,
    reasoning: Reasoning,
    section: Option<Section>,
    ends_with_newline: bool,
    answer: String,
    is_held_back: bool,
}

impl<'a, 'c> AnswerWriter<'a, 'c> {
    /// Returns a writer for a response of the model called `model`.
    fn new(console: &'a mut Console<'c>, model: &'a str, reasoning: Reasoning) -> Self {
        Self {
            progress: console.progress(),
            console,
            model,
            reasoning,
            section: None,
            ends_with_newline: true,
            answer: String::new(),
            is_held_back: false,
        }
    }

    fn on_event(&mut self, event: ResponseEvent) -> Result {
        match event {
            ResponseEvent::Token { event } => match event {
                TokenEvent::Started { .. } | TokenEvent::Finished { .. } => self.progress.clear(),
                TokenEvent::Prefill { done, total } => {
                    let text = format!("Reading the prompt … {done} of {total} tokens");
                    self.progress.show(&text);
                }
                TokenEvent::Text { section, text, .. } => return self.on_text(section, &text),
                // The command line declares no tools.
                TokenEvent::ToolCall { .. } | TokenEvent::Pieces { .. } => {}
            },
            waiting => show_wait(&self.progress, self.model, &waiting),
        }
        Ok(())
    }

    /// Ends the last line and returns the response without its reasoning.
    fn finish(mut self) -> Result<String> {
        self.progress.clear();
        self.write(match (self.section, self.reasoning) {
            (Some(Section::Reasoning), Reasoning::Dimmed) => RESET,
            (Some(Section::Reasoning), Reasoning::Tagged) => "\n</think>",
            _ => "",
        })?;
        if !self.ends_with_newline {
            self.write("\n")?;
        }
        Ok(self.answer)
    }

    fn on_text(&mut self, section: Section, text: &str) -> Result {
        let is_hidden = match section {
            Section::Reasoning => self.reasoning == Reasoning::Hidden,
            Section::Answer => self.is_held_back,
        };
        if !is_hidden {
            self.progress.clear();
        }
        let mut text = text;
        if self.section != Some(section) {
            if self.section.is_some() || section == Section::Reasoning {
                // Models separate the sections with blank lines; `begin` writes its own.
                text = text.trim_start_matches('\n');
                if text.is_empty() {
                    return Ok(());
                }
            }
            self.begin(section)?;
        }
        if section == Section::Answer {
            self.answer.push_str(text);
        }
        if is_hidden {
            self.progress.show(match section {
                Section::Reasoning => "Thinking …",
                Section::Answer => "Writing the answer …",
            });
            return Ok(());
        }
        match self.console.terminals.stdout {
            true => self.write(&without_controls(text)),
            false => self.write(text),
        }
    }

    fn begin(&mut self, section: Section) -> Result {
        let separator = match (self.section, section, self.reasoning) {
            (_, Section::Reasoning, Reasoning::Dimmed) => DIM,
            (_, Section::Reasoning, Reasoning::Tagged) => "<think>\n",
            (Some(Section::Reasoning), Section::Answer, Reasoning::Dimmed) => "\x1b[0m\n\n",
            (Some(Section::Reasoning), Section::Answer, Reasoning::Tagged) => "\n</think>\n\n",
            _ => "",
        };
        self.section = Some(section);
        self.write(separator)
    }

    fn write(&mut self, text: &str) -> Result {
        if text.is_empty() {
            return Ok(());
        }
        self.ends_with_newline = text.ends_with('\n');
        self.console.print(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;
    use crate::test_console::TestConsole;
    use Section::{Answer, Reasoning as Thought};
    use std::io::{self, Write};

    fn text_event(section: Section, text: &str) -> ResponseEvent {
        let event = TokenEvent::Text {
            section,
            text: text.to_owned(),
            generated_tokens: 0,
            logprobs: Vec::new(),
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
            writer.on_event(text_event(*section, text)).unwrap();
        }
        writer.finish().unwrap();
        streams.out_text()
    }

    #[test]
    fn a_response_ends_with_one_newline() {
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
    fn reasoning_that_is_cut_off_resets_the_style() {
        let pieces = [(Thought, "Hm")];
        let shown = |reasoning| shown(true, reasoning, &pieces);
        assert_eq!(shown(Reasoning::Dimmed), "\x1b[2mHm\x1b[0m\n");
        assert_eq!(shown(Reasoning::Tagged), "<think>\nHm\n</think>\n");
    }

    #[test]
    fn control_characters_of_the_model_reach_a_file_but_not_a_terminal() {
        let pieces = [(Answer, "a\x1b]0;gone\x07\tb\u{9b}2J\u{202e}")];
        assert_eq!(shown(true, Reasoning::Dimmed, &pieces), "a]0;gone\tb2J\n");
        let raw = shown(false, Reasoning::Hidden, &pieces);
        assert_eq!(raw, "a\x1b]0;gone\x07\tb\u{9b}2J\u{202e}\n");
    }

    #[test]
    fn a_closed_pipe_is_an_output_failure() {
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
        let failure = writer.on_event(text_event(Answer, "Hi")).unwrap_err();
        assert!(
            matches!(failure, Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
        );
    }
}
