//! Reads lines of a conversation: with an editor and history on a terminal, else from a stream.
//!
//! Rule: both return whole messages. A backslash at the end of a line continues it on the next one.

use std::io::{self, BufRead, ErrorKind};
use std::path::{Path, PathBuf};

use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Cmd, Context, Editor, Event, KeyCode, KeyEvent, Modifiers};

/// What was entered.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A message or command, of one or more lines.
    Text(String),
    /// Ctrl-C on the prompt.
    Interrupted,
    /// Ctrl-D, or the end of the input.
    End,
}

/// The source of the lines: a person at a terminal, a pipe or a file.
pub struct LineSource {
    /// The editor with history and completion of commands, on a terminal.
    editor: Option<Editor<ChatRules, FileHistory>>,
    history: Option<PathBuf>,
}

impl LineSource {
    /// Reads lines from a stream.
    pub fn piped() -> Self {
        Self {
            editor: None,
            history: None,
        }
    }

    /// Opens the editor for a person at a terminal, with the `history` of earlier lines in a file that may
    /// not exist yet. It completes `commands`, which begin with `/`.
    ///
    /// # Errors
    /// The terminal can't be used.
    pub fn edited(history: Option<PathBuf>, commands: &'static [&'static str]) -> io::Result<Self> {
        let editor = open_editor(history.as_deref(), commands).map_err(editor_error)?;
        Ok(Self {
            editor: Some(editor),
            history,
        })
    }

    /// Returns the next line: of the editor, else of `input`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] for a line that is not UTF-8, and the errors of the stream.
    pub fn next_line(&mut self, input: &mut dyn BufRead) -> io::Result<Line> {
        let Some(editor) = &mut self.editor else {
            return next_piped(input);
        };
        match editor.readline("> ") {
            Ok(text) => {
                self.add_to_history(&text);
                Ok(Line::Text(without_continuations(&text)))
            }
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(editor_error(error)),
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

fn open_editor(
    history: Option<&Path>,
    commands: &'static [&'static str],
) -> rustyline::Result<Editor<ChatRules, FileHistory>> {
    let mut editor = Editor::<ChatRules, FileHistory>::new()?;
    editor.set_helper(Some(ChatRules { commands }));
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

fn editor_error(error: ReadlineError) -> io::Error {
    match error {
        ReadlineError::Io(error) => error,
        other => io::Error::other(other),
    }
}

fn without_continuations(text: &str) -> String {
    text.replace("\\\n", "\n")
}

/// The rules of the editor: lines that continue, and completion of commands.
struct ChatRules {
    commands: &'static [&'static str],
}

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
        let names = self.commands.iter();
        let matching = names.filter(|name| typed.starts_with('/') && name.starts_with(typed));
        Ok((0, matching.map(|name| (*name).to_owned()).collect()))
    }
}

/// Reads one message of one or more lines.
fn next_piped(input: &mut dyn BufRead) -> io::Result<Line> {
    let mut message = String::new();
    loop {
        let mut bytes = Vec::new();
        if input.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(match message.is_empty() {
                true => Line::End,
                false => Line::Text(message),
            });
        }
        let line = std::str::from_utf8(&bytes).map_err(|_| {
            let message =
                "a line of standard input is not UTF-8 text; convert it first, for example with iconv";
            io::Error::new(ErrorKind::InvalidData, message)
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

    fn piped(input: impl AsRef<[u8]>) -> Vec<io::Result<Line>> {
        let mut input = input.as_ref();
        let mut lines = LineSource::piped();
        let mut all = Vec::new();
        loop {
            let line = lines.next_line(&mut input);
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
        let error = lines.last().unwrap().as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains("UTF-8"));
    }

    #[test]
    fn the_backslashes_of_a_continued_message_are_removed() {
        assert_eq!(without_continuations("one\\\ntwo"), "one\ntwo");
        assert_eq!(without_continuations("C:\\temp"), "C:\\temp");
    }
}
