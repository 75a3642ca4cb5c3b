//! The texts that a person attached to a message, as one text in the store.
//!
//! Rule: [`split`] returns the texts that were [`join`]ed. The store knows no names of files, so texts
//! are stored between the tags that the model sees, and a single one without a name as it is.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use transom_engine::{Attachment, only_attachments, with_attachments};

/// A text that a person attached to a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct AttachedText {
    /// The name of the file; `None` for selected, copied or pasted text.
    pub name: Option<String>,
    /// The text.
    pub text: String,
}

/// Returns the texts as the store keeps them. Blank ones are left out.
pub fn join(texts: &[AttachedText]) -> Cow<'_, str> {
    match texts {
        [AttachedText { name: None, text }] if only_attachments(text).is_none() => text.into(),
        texts => {
            let texts = texts.iter();
            let attachments = texts.map(|attached| Attachment {
                name: attached.name.as_deref(),
                text: &attached.text,
            });
            with_attachments(attachments, "").into()
        }
    }
}

/// Returns the texts of a stored message.
pub fn split(stored: &str) -> Vec<Attachment<'_>> {
    if stored.trim().is_empty() {
        return Vec::new();
    }
    let unnamed = || {
        vec![Attachment {
            name: None,
            text: stored,
        }]
    };
    only_attachments(stored).unwrap_or_else(unnamed)
}

impl From<Attachment<'_>> for AttachedText {
    fn from(attachment: Attachment<'_>) -> Self {
        Self {
            name: attachment.name.map(str::to_owned),
            text: attachment.text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[(Option<&str>, &str)], stored: &str) {
        let texts: Vec<AttachedText> = texts
            .iter()
            .map(|&(name, text)| Attachment { name, text }.into())
            .collect();
        assert_eq!(join(&texts), stored);
        let again: Vec<AttachedText> = split(stored).into_iter().map(Into::into).collect();
        assert_eq!(again, texts);
    }

    #[test]
    fn joined_texts_are_split_again() {
        check(&[], "");
        check(&[(None, "let x = 1;\n")], "let x = 1;\n");
        check(
            &[(Some("a.md"), "# A")],
            "<text name=\"a.md\">\n# A\n</text>",
        );
        check(
            &[(Some("a.md"), "# A"), (None, "B")],
            "<text name=\"a.md\">\n# A\n</text>\n\n<text>\nB\n</text>",
        );
    }

    #[test]
    fn a_text_that_looks_like_joined_ones_stays_one() {
        check(
            &[(None, "<text>\nA\n</text>")],
            "<text-2>\n<text>\nA\n</text>\n</text-2>",
        );
    }

    #[test]
    fn blank_texts_are_left_out() {
        let blank = AttachedText {
            name: Some("a.md".to_owned()),
            text: " \n".to_owned(),
        };
        assert_eq!(join(&[blank]), "");
        assert!(split(" \n").is_empty());
    }
}
