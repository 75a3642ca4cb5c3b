//! Reads the chat's lines: with an editor and history on a terminal, else from standard input.
//!
//! Rule: both return whole messages. A backslash at the end of a line continues it on the next one.

use std::path::{Path, PathBuf};

use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Cmd, Context, Editor, Event, KeyCode, KeyEvent, Modifiers};

use crate::chat::commands;
use crate::{Console, Failure, Result};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A message or command, of one or more lines.
    Text(String),
    /// Ctrl-C on the prompt.
    Interrupted,
    /// Ctrl-D, or the end of the input.
    End,
}

/// The source of the lines: a person at a terminal, a pipe or a file.
pub(super) struct LineSource {
    /// The editor with history and completion of commands, on a terminal.
    editor: Option<Editor<ChatRules, FileHistory>>,
    history: Option<PathBuf>,
}

impl LineSource {
    /// Opens the editor if a person types.
    pub(super) fn new(is_interactive: bool) -> Result<Self> {
        let history = is_interactive.then(history_path).flatten();
        let editor = is_interactive.then(|| open_editor(history.as_deref()));
        Ok(Self {
            editor: editor.transpose().map_err(editor_failure)?,
            history,
        })
    }

    pub(super) fn next_line(&mut self, console: &mut Console) -> Result<Line> {
        let Some(editor) = &mut self.editor else {
            return next_piped(console);
        };
        match editor.readline("> ") {
            Ok(text) => {
                self.add_to_history(&text);
                Ok(Line::Text(without_continuations(&text)))
            }
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(editor_failure(error)),
        }
    }

    /// Saves the line for later chats at once, so that a crash does not lose it.
    fn add_to_history(&mut self, text: &str) {
        let Some(editor) = self.editor.as_mut().filter(|_| !text.trim().is_empty()) else {
            return;
        };
        if editor.add_history_entry(text).unwrap_or(false)
            && let Some(path) = &self.history
            && let Err(error) = editor.append_history(path)
        {
            tracing::warn!("cannot save the history in {}: {error}", path.display());
            self.history = None;
        }
    }
}

fn open_editor(history: Option<&Path>) -> rustyline::Result<Editor<ChatRules, FileHistory>> {
    let mut editor = Editor::<ChatRules, FileHistory>::new()?;
    editor.set_helper(Some(ChatRules));
    editor.set_max_history_size(1000)?;
    editor.set_history_ignore_dups(true)?;
    for modifiers in [Modifiers::ALT, Modifiers::SHIFT] {
        let key = KeyEvent(KeyCode::Enter, modifiers);
        editor.bind_sequence(Event::from(key), Cmd::Newline);
    }
    if let Some(path) = history {
        // The first chat has no history yet.
        let _ = editor.load_history(path);
    }
    Ok(editor)
}

/// Returns the history file in the data folder, which is created if it does not exist.
fn history_path() -> Option<PathBuf> {
    let folder = transom_supervisor::instance::data_folder().ok()?;
    transom_files::create_private_folder(&folder).ok()?;
    Some(folder.join("chat-history"))
}

fn editor_failure(error: ReadlineError) -> Failure {
    Failure::input(match error {
        ReadlineError::Io(error) => error,
        other => std::io::Error::other(other),
    })
}

fn without_continuations(text: &str) -> String {
    text.replace("\\\n", "\n")
}

/// The rules of the editor: lines that continue, and completion of commands.
struct ChatRules;

impl rustyline::Helper for ChatRules {}
impl Highlighter for ChatRules {}
impl Hinter for ChatRules {
    type Hint = String;
}

impl Validator for ChatRules {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        Ok(match context.input().ends_with('\\') {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Completer for ChatRules {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..position).unwrap_or(line);
        let names = commands::NAMES.iter();
        let matching = names.filter(|name| typed.starts_with('/') && name.starts_with(typed));
        Ok((0, matching.map(|name| (*name).to_owned()).collect()))
    }
}

/// Reads one message of one or more lines from standard input.
fn next_piped(console: &mut Console) -> Result<Line> {
    let mut message = String::new();
    loop {
        let mut bytes = Vec::new();
        let read = console.input.read_until(b'\n', &mut bytes);
        if read.map_err(Failure::input)? == 0 {
            return Ok(match message.is_empty() {
                true => Line::End,
                false => Line::Text(message),
            });
        }
        let line = std::str::from_utf8(&bytes).map_err(|_| {
            Failure::usage(
                "a line of standard input is not UTF-8 text; convert it first, for example with iconv",
            )
        })?;
        let line = line.trim_end_matches(['\n', '\r']);
        let Some(part) = line.strip_suffix('\\') else {
            return Ok(Line::Text(message + line));
        };
        message += &format!("{part}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_console::TestConsole;

    fn piped(input: impl AsRef<[u8]>) -> Vec<Result<Line>> {
        let mut streams = TestConsole::typing(input);
        let mut console = streams.console();
        let mut lines = LineSource::new(false).unwrap();
        let mut all = Vec::new();
        loop {
            let line = lines.next_line(&mut console);
            let is_last = !matches!(line, Ok(Line::Text(_)));
            all.push(line);
            if is_last {
                return all;
            }
        }
    }

    #[test]
    fn a_backslash_joins_piped_lines() {
        let check = |input: &str, expect: &[&str]| {
            let mut lines: Vec<Line> = piped(input).into_iter().map(Result::unwrap).collect();
            assert_eq!(lines.pop(), Some(Line::End));
            let expect = expect.iter().map(|text| Line::Text((*text).to_owned()));
            assert_eq!(lines, expect.collect::<Vec<_>>(), "{input:?}");
        };
        check("", &[]);
        check("Hi\nthere", &["Hi", "there"]);
        check("Hi\r\n\n", &["Hi", ""]);
        check("one\\\ntwo\nthree\n", &["one\ntwo", "three"]);
        check("one\\", &["one\n"]);
    }

    #[test]
    fn a_line_that_is_not_utf8_is_refused() {
        let lines = piped(b"ok\n\xff\n");
        let failure = lines.last().unwrap().as_ref().unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().contains("UTF-8"));
    }

    #[test]
    fn the_backslashes_of_a_continued_message_are_removed() {
        assert_eq!(without_continuations("one\\\ntwo"), "one\ntwo");
        assert_eq!(without_continuations("C:\\temp"), "C:\\temp");
    }
}
