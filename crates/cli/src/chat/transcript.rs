//! The conversation: what was said, what of it the model still sees, and its form on disk.
//!
//! Rule: user and assistant take turns, as chat templates demand; a message that got no answer is
//! taken back. What the model no longer sees is still saved.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use transom_engine::{Message, Role};

/// A conversation.
#[derive(Debug, Clone, Default)]
pub(super) struct Transcript {
    system: Option<String>,
    turns: Vec<Message>,
    /// Turns at the start that the model is no longer shown.
    n_forgotten: usize,
}

impl Transcript {
    /// An empty conversation under `system`.
    pub(super) fn new(system: Option<String>) -> Self {
        Self {
            system: system.filter(|text| !text.trim().is_empty()),
            ..Self::default()
        }
    }

    /// The system prompt.
    pub(super) fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// Sets or removes the system prompt; what was said stays.
    pub(super) fn set_system(&mut self, system: Option<String>) {
        self.system = system;
    }

    /// Forgets what was said; the system prompt stays.
    pub(super) fn clear(&mut self) {
        self.turns.clear();
        self.n_forgotten = 0;
    }

    /// Adds the user's message.
    pub(super) fn push_user(&mut self, text: String) {
        self.turns.push(Message::new(Role::User, text));
    }

    /// Takes back a user's message that got no answer.
    pub(super) fn take_back_user(&mut self) {
        if self
            .turns
            .last()
            .is_some_and(|turn| turn.role == Role::User)
        {
            self.turns.pop();
        }
    }

    /// Adds the model's answer. An answer with nothing in it counts as none.
    pub(super) fn push_assistant(&mut self, text: String) {
        if text.trim().is_empty() {
            self.take_back_user();
        } else {
            self.turns.push(Message::new(Role::Assistant, text));
        }
    }

    /// Hides the oldest `n_messages` of what the model is shown, the system prompt not counted.
    /// Returns how many exchanges these were.
    pub(super) fn forget(&mut self, n_messages: usize) -> usize {
        let begin = self.n_forgotten.min(self.turns.len());
        let end = begin.saturating_add(n_messages).min(self.turns.len());
        self.n_forgotten = end;
        let forgotten = self.turns[begin..end].iter();
        forgotten.filter(|turn| turn.role == Role::User).count()
    }

    /// What the model is shown.
    pub(super) fn messages(&self) -> Vec<Message> {
        self.with_system(self.turns.iter().skip(self.n_forgotten))
    }

    /// Messages of the user and the model, forgotten ones included.
    pub(super) fn n_messages(&self) -> usize {
        self.turns.len()
    }

    fn with_system<'a>(&self, turns: impl Iterator<Item = &'a Message>) -> Vec<Message> {
        let system = self.system.iter();
        let system = system.map(|system| Message::new(Role::System, system));
        system.chain(turns.cloned()).collect()
    }

    /// Writes everything to `path`, as JSON or Markdown by its extension.
    ///
    /// # Errors
    /// A sentence for the user. A file that exists stays as it is unless `overwrite`.
    pub(super) fn save(&self, path: &Path, overwrite: bool, model: &str) -> Result<(), String> {
        let is_json = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let text = if is_json {
            self.to_json(model)
        } else {
            Ok(self.to_markdown(model))
        };
        let written = text.and_then(|text| write_file(path, overwrite, &text));
        written.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => format!(
                "{0} exists and was left as it is; to replace it: /save --force {0}",
                path.display()
            ),
            _ => format!("Cannot save to {}: {error}.", path.display()),
        })
    }

    fn to_json(&self, model: &str) -> io::Result<String> {
        #[derive(Serialize)]
        struct Saved<'a> {
            model: &'a str,
            messages: Vec<Message>,
        }
        let messages = self.with_system(self.turns.iter());
        let text = serde_json::to_string_pretty(&Saved { model, messages })?;
        Ok(text + "\n")
    }

    fn to_markdown(&self, model: &str) -> String {
        let mut text = format!("# Conversation with {model}\n");
        for message in self.with_system(self.turns.iter()) {
            let heading = match message.role {
                Role::System => "System",
                Role::User => "You",
                Role::Assistant => model,
                Role::Tool => "Tool",
            };
            text.push_str(&format!("\n## {heading}\n\n{}\n", message.content.trim()));
        }
        text
    }
}

fn write_file(path: &Path, overwrite: bool, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    if overwrite {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_exchanges() -> Transcript {
        let mut transcript = Transcript::new(Some("Be brief.".into()));
        for (question, answer) in [("One?", "1"), ("Two?", "2")] {
            transcript.push_user(question.into());
            transcript.push_assistant(answer.into());
        }
        transcript
    }

    fn shown(transcript: &Transcript) -> Vec<String> {
        let messages = transcript.messages().into_iter();
        messages.map(|message| message.content).collect()
    }

    #[test]
    fn what_is_forgotten_is_counted_in_exchanges_and_still_saved() {
        let mut transcript = two_exchanges();
        transcript.push_user("Three?".into());
        assert_eq!(transcript.forget(0), 0);
        assert_eq!(transcript.forget(2), 1);
        assert_eq!(shown(&transcript), ["Be brief.", "Two?", "2", "Three?"]);
        assert_eq!(transcript.forget(2), 1);
        assert_eq!(shown(&transcript), ["Be brief.", "Three?"]);
        assert_eq!(transcript.n_messages(), 5);
        assert_eq!(transcript.forget(99), 1, "never more than there is");
    }

    #[test]
    fn an_unanswered_message_is_taken_back() {
        let mut transcript = two_exchanges();
        transcript.push_user("Three?".into());
        transcript.push_assistant(" \n".into());
        assert_eq!(shown(&transcript), ["Be brief.", "One?", "1", "Two?", "2"]);
    }

    #[test]
    fn markdown_and_json_hold_everything_that_was_said() {
        let mut transcript = two_exchanges();
        transcript.forget(2);
        assert_eq!(
            transcript.to_markdown("tiny"),
            "# Conversation with tiny\n\n## System\n\nBe brief.\n\n## You\n\nOne?\n\n## tiny\n\n\
             1\n\n## You\n\nTwo?\n\n## tiny\n\n2\n"
        );
        let json: serde_json::Value =
            serde_json::from_str(&transcript.to_json("tiny").unwrap()).unwrap();
        assert_eq!(json["model"], "tiny");
        assert_eq!(json["messages"][0]["role"], "system");
        assert_eq!(json["messages"][4]["content"], "2");
    }

    #[test]
    fn a_file_is_replaced_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chat.md");
        std::fs::write(&path, "precious").unwrap();
        let hint = two_exchanges().save(&path, false, "tiny").unwrap_err();
        assert!(hint.contains("/save --force"), "{hint}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        two_exchanges().save(&path, true, "tiny").unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("Two?"));
    }

    #[test]
    fn a_folder_that_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/chat.md");
        let hint = two_exchanges().save(&path, false, "tiny").unwrap_err();
        assert!(hint.contains("missing/chat.md"), "{hint}");
    }
}
