//! The messages of a conversation, those that the model still sees, and the saved file.
//!
//! Rule: user and assistant take turns, as chat templates require, so a message without a response is
//! removed. Messages that the model no longer sees are still saved.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use serde_json::json;
use transom_engine::summary::with_summary;
use transom_engine::{Message, Role};

#[derive(Debug, Clone, Default)]
pub(super) struct Transcript {
    /// The system prompt; the messages do not depend on it.
    pub(super) system: Option<String>,
    messages: Vec<Message>,
    /// Messages at the start that the model no longer sees.
    n_dropped: usize,
    /// A summary of the first `n_summarized` messages, which follows the system prompt.
    summary: Option<String>,
    n_summarized: usize,
}

impl Transcript {
    /// Returns an empty conversation with this system prompt.
    pub(super) fn new(system: Option<String>) -> Self {
        Self {
            system: system.filter(|text| !text.trim().is_empty()),
            ..Self::default()
        }
    }

    /// Removes all messages; the system prompt stays.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.system.take());
    }

    pub(super) fn push_user(&mut self, text: String) {
        self.messages.push(Message::new(Role::User, text));
    }

    /// Removes a user's message that got no response.
    pub(super) fn remove_unanswered(&mut self) {
        if self.messages.last().map(|turn| turn.role) == Some(Role::User) {
            self.messages.pop();
        }
    }

    /// Adds the model's response. An empty response counts as none.
    pub(super) fn push_assistant(&mut self, text: String) {
        if text.trim().is_empty() {
            self.remove_unanswered();
        } else {
            self.messages.push(Message::new(Role::Assistant, text));
        }
    }

    /// Drops the oldest `n_messages` that the model sees, not counting the system prompt. Returns the
    /// number of exchanges among them.
    pub(super) fn drop_oldest(&mut self, n_messages: usize) -> usize {
        let begin = self.n_dropped.min(self.messages.len());
        let end = begin.saturating_add(n_messages).min(self.messages.len());
        self.n_dropped = end;
        let dropped = self.messages[begin..end].iter();
        dropped.filter(|turn| turn.role == Role::User).count()
    }

    /// Returns the messages that the model sees.
    pub(super) fn messages(&self) -> Vec<Message> {
        let system = match &self.summary {
            Some(summary) => Some(with_summary(self.system.as_deref(), summary)),
            None => self.system.clone(),
        };
        with_system(
            system,
            &self.messages[self.n_dropped.min(self.messages.len())..],
        )
    }

    /// Returns the summary, and the messages that the model no longer sees and that are not in it.
    pub(super) fn unsummarized(&self) -> (Option<&str>, &[Message]) {
        let end = self.n_dropped.min(self.messages.len());
        let begin = self.n_summarized.min(end);
        (self.summary.as_deref(), &self.messages[begin..end])
    }

    /// Sets the summary of all messages that the model no longer sees.
    pub(super) fn set_summary(&mut self, summary: String) {
        self.summary = Some(summary);
        self.n_summarized = self.n_dropped;
    }

    /// Returns the number of messages of the user and the model, dropped ones included.
    pub(super) fn n_messages(&self) -> usize {
        self.messages.len()
    }

    /// Writes all messages to `path`, as JSON if that is its extension, else as Markdown.
    ///
    /// # Errors
    /// A sentence for the user. An existing file is replaced only if `overwrite`.
    pub(super) fn save(&self, path: &Path, overwrite: bool, model: &str) -> Result<(), String> {
        let text = match transom_files::has_extension(path, "json") {
            true => self.to_json(model),
            false => self.to_markdown(model),
        };
        write_file(path, overwrite, &text).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => format!(
                "{0} exists and was not changed; to replace it: /save --force {0}",
                path.display()
            ),
            _ => format!("Cannot save to {}: {error}.", path.display()),
        })
    }

    fn to_json(&self, model: &str) -> String {
        let messages = with_system(self.system.clone(), &self.messages);
        format!("{:#}\n", json!({ "model": model, "messages": messages }))
    }

    fn to_markdown(&self, model: &str) -> String {
        let mut text = format!("# Conversation with {model}\n");
        for message in with_system(self.system.clone(), &self.messages) {
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

fn with_system(system: Option<String>, messages: &[Message]) -> Vec<Message> {
    let system = system.into_iter();
    let system = system.map(|system| Message::new(Role::System, system));
    system.chain(messages.iter().cloned()).collect()
}

fn write_file(path: &Path, overwrite: bool, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // A file that must be new is neither opened nor truncated if it exists.
    options.write(true).create(true).truncate(true);
    let mut file = options.create_new(!overwrite).open(path)?;
    file.write_all(text.as_bytes())
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

    fn seen(transcript: &Transcript) -> Vec<String> {
        let messages = transcript.messages().into_iter();
        messages.map(|message| message.content).collect()
    }

    #[test]
    fn dropped_messages_are_counted_in_exchanges_and_still_saved() {
        let mut transcript = two_exchanges();
        transcript.push_user("Three?".into());
        assert_eq!(transcript.drop_oldest(0), 0);
        assert_eq!(transcript.drop_oldest(2), 1);
        assert_eq!(seen(&transcript), ["Be brief.", "Two?", "2", "Three?"]);
        assert_eq!(transcript.drop_oldest(2), 1);
        assert_eq!(seen(&transcript), ["Be brief.", "Three?"]);
        assert_eq!(transcript.n_messages(), 5);
        assert_eq!(transcript.drop_oldest(99), 1, "never more than there is");
    }

    #[test]
    fn a_summary_follows_the_system_prompt_and_is_not_saved() {
        let mut transcript = two_exchanges();
        assert!(transcript.unsummarized().1.is_empty());
        transcript.drop_oldest(2);
        let (earlier, dropped) = transcript.unsummarized();
        assert_eq!((earlier, dropped.len()), (None, 2));
        transcript.set_summary("About one.".into());
        let system = with_summary(Some("Be brief."), "About one.");
        assert_eq!(seen(&transcript), [&*system, "Two?", "2"]);
        transcript.drop_oldest(2);
        let (earlier, dropped) = transcript.unsummarized();
        assert_eq!(
            (earlier, &*dropped[0].content),
            (Some("About one."), "Two?")
        );
        assert!(!transcript.to_markdown("tiny").contains("About one."));
        transcript.clear();
        assert_eq!(seen(&transcript), ["Be brief."]);
    }

    #[test]
    fn an_unanswered_message_is_removed() {
        let mut transcript = two_exchanges();
        transcript.push_user("Three?".into());
        transcript.push_assistant(" \n".into());
        assert_eq!(seen(&transcript), ["Be brief.", "One?", "1", "Two?", "2"]);
    }

    #[test]
    fn markdown_and_json_contain_every_message() {
        let mut transcript = two_exchanges();
        transcript.drop_oldest(2);
        assert_eq!(
            transcript.to_markdown("tiny"),
            "# Conversation with tiny\n\n## System\n\nBe brief.\n\n## You\n\nOne?\n\n## tiny\n\n\
             1\n\n## You\n\nTwo?\n\n## tiny\n\n2\n"
        );
        let json: serde_json::Value = serde_json::from_str(&transcript.to_json("tiny")).unwrap();
        assert_eq!(json["model"], "tiny");
        assert_eq!(json["messages"][0]["role"], "system");
        assert_eq!(json["messages"][4]["content"], "2");
    }

    #[test]
    fn an_existing_file_is_replaced_only_with_force() {
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
    fn the_error_names_a_missing_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/chat.md");
        let hint = two_exchanges().save(&path, false, "tiny").unwrap_err();
        assert!(hint.contains("missing/chat.md"), "{hint}");
    }
}
